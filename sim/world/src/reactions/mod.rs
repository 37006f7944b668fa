//! Reactions: effects that the world carries out later, for example guests that boot, tasks that
//! run, and kubelets that report.

mod completion;

use serde::{Deserialize, Serialize};

pub use completion::{Completion, Step, Timing};

use crate::control_plane::ControlPlane;
use crate::objects::Key;
use crate::vcenter::{GuestRequest, MoRef};

/// The step and machine by which [`Command::Tell`](crate::Command::Tell) selects a held reaction, a
/// reaction without a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Held {
    /// The step whose end carries the reaction out.
    pub step: Step,
    /// Name of the machine, or of another object that the step works on; `None` for a step without
    /// one.
    pub machine: Option<String>,
}

/// A kubelet, bound to the machine it runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kubelet {
    /// Name of the vCenter that has the machine.
    pub vcenter: String,
    /// Machine on which the kubelet runs.
    pub machine: MoRef,
    /// True if the kubelet runs.
    pub running: bool,
    /// Number of starts and stops so far. A reaction of an earlier run has another number and does
    /// nothing.
    pub run: u32,
    /// Number of scheduled heartbeats that came due in this run. The lease renewal at the start
    /// does not count.
    pub beats: u64,
    /// Flags of the kubelet, and the facts about the machine that the kubelet reports.
    pub config: crate::kubelet::Machine,
}

/// An effect that will come later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reaction {
    /// vCenter carries out a task.
    TaskDue {
        /// Name of the vCenter that has the task.
        vcenter: String,
        /// Id of the task to carry out.
        task: MoRef,
    },
    /// vCenter forgets a completed task.
    TaskForgotten {
        /// Name of the vCenter that has the task.
        vcenter: String,
        /// Id of the task to forget.
        task: MoRef,
    },
    /// A guest completes a step of its boot, unless the power of the machine has changed since this
    /// boot began.
    Guest {
        /// Name of the vCenter that has the machine.
        vcenter: String,
        /// Machine in which the guest boots.
        machine: MoRef,
        /// [`Machine::boot`](crate::vcenter::Machine::boot) during the boot that has this step.
        boot: u32,
        /// Step of the boot, such as [`Step::Tools`].
        step: Step,
    },
    /// A guest completes a request to VMware Tools, unless the power of the machine has changed
    /// since the request.
    GuestPower {
        /// Name of the vCenter that has the machine.
        vcenter: String,
        /// Machine in which the guest runs.
        machine: MoRef,
        /// [`Machine::boot`](crate::vcenter::Machine::boot) at the time of the request.
        boot: u32,
        /// Request that the guest carries out.
        request: GuestRequest,
    },
    /// HA moves the machines of a failed host to another host, and boots those that were powered
    /// on. Does nothing if the failed host is connected again or no other host is connected.
    HaRestart {
        /// Name of the vCenter that has the host.
        vcenter: String,
        /// The failed host.
        host: MoRef,
    },
    /// A started vCenter becomes ready, unless the vCenter was stopped in the meantime.
    ServiceReady {
        /// Name of the vCenter that starts.
        vcenter: String,
    },
    /// A kubelet renews its lease. At every 30th heartbeat of a run it first writes its status. If
    /// the Node was deleted, the heartbeat deletes the lease instead and is the last one. While
    /// heartbeats are off, the lease stays as it is.
    Heartbeat {
        /// Name of the Node of the kubelet.
        node: String,
        /// [`Kubelet::run`] during the run that the heartbeat belongs to.
        run: u32,
    },
    /// The control plane notices that a kubelet has been silent for the grace period of 50 s,
    /// unless the kubelet has started again.
    NodeSilent {
        /// Name of the Node of the kubelet.
        node: String,
        /// [`Kubelet::run`] after the kubelet stopped.
        run: u32,
    },
    /// VM Operator carries out the next step for a VirtualMachine.
    VirtualMachine {
        /// Namespace and name of the object.
        path: String,
        /// Step that VM Operator carries out.
        step: Step,
    },
    /// The scheduler and the controllers of the workload cluster look at its objects. Does nothing
    /// if they are off.
    Workloads,
    /// A pod starts, succeeds or ends on its Node, if it still has to and the kubelet runs.
    Pod {
        /// Namespace and name of the pod.
        path: String,
        /// Uid of the pod; another pod of this name is not meant.
        uid: String,
        /// Step that the pod completes.
        step: Step,
    },
    /// The control plane removes the pods of a Node that is missing, unless the Node exists again.
    NodeMissing {
        /// Name of the Node.
        node: String,
    },
    /// An API server deletes a Kubernetes Event whose time to live has ended.
    EventExpires {
        /// API server that keeps the Kubernetes Event.
        #[serde(default)]
        plane: ControlPlane,
        /// Key of the Kubernetes Event.
        key: Key,
        /// Revision of the write that scheduled the expiry. If a later write has changed the
        /// revision, the Event stays.
        revision: u64,
    },
}
