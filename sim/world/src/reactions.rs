//! What the world does by itself, later: guests boot, tasks run, kubelets report.

use serde::{Deserialize, Serialize};

use crate::completion::Step;
use crate::event::ControlPlane;
use crate::objects::Key;
use crate::vcenter::{GuestRequest, MoRef};

/// What a reaction waits for when nobody set a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The step.
    pub step: Step,
    /// The machine it concerns, by name.
    pub machine: Option<String>,
}

/// A kubelet, bound to the machine it runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kubelet {
    /// The vCenter of its machine.
    pub vcenter: String,
    /// Its machine.
    pub machine: MoRef,
    /// Whether it runs.
    pub running: bool,
    /// Counts starts and stops, so that a timer of an earlier run finds itself outdated.
    pub run: u32,
    /// Lease renewals so far in this run.
    pub beats: u64,
    /// What it knows of its machine, and its flags.
    pub config: crate::kubelet::Machine,
}

/// Something that will happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reaction {
    /// A task does its work.
    TaskDue {
        /// The vCenter.
        vcenter: String,
        /// The task.
        task: MoRef,
    },
    /// A completed task is forgotten.
    TaskForgotten {
        /// The vCenter.
        vcenter: String,
        /// The task.
        task: MoRef,
    },
    /// A guest gets on with booting.
    Guest {
        /// The vCenter.
        vcenter: String,
        /// The machine.
        machine: MoRef,
        /// The boot this belongs to.
        boot: u32,
        /// How far it gets.
        step: Step,
    },
    /// A guest has done what VMware Tools was asked for, unless the machine was powered meanwhile.
    GuestPower {
        /// The vCenter.
        vcenter: String,
        /// The machine.
        machine: MoRef,
        /// The boot that this ends.
        boot: u32,
        /// What it was asked for.
        request: GuestRequest,
    },
    /// HA restarts the machines of a failed host.
    HaRestart {
        /// The vCenter.
        vcenter: String,
        /// The failed host.
        host: MoRef,
    },
    /// A started vCenter is ready.
    ServiceReady {
        /// The vCenter.
        vcenter: String,
    },
    /// A kubelet renews its lease, and every 30th time writes its status.
    Heartbeat {
        /// The node.
        node: String,
        /// The run this belongs to.
        run: u32,
    },
    /// The control plane notices that a kubelet has been silent for too long.
    NodeSilent {
        /// The node.
        node: String,
        /// The run whose end it notices.
        run: u32,
    },
    /// VM Operator does what is due about a VirtualMachine.
    VirtualMachine {
        /// Namespace and name of the object.
        path: String,
        /// What.
        step: Step,
    },
    /// The lease ends under which an event of a cluster was written.
    EventExpires {
        /// Whose.
        #[serde(default)]
        plane: ControlPlane,
        /// The event.
        key: Key,
        /// The write.
        revision: u64,
    },
}
