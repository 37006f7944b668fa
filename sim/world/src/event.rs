//! Events of the world, and results of commands.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::control_plane::ControlPlane;
use crate::reactions::{Completion, Held, Kubelet, Reaction, Step};
use crate::supervisor::{Operator, Supervisor};
use crate::vcenter::{LoginEvent, MoRef, VCenter, VcEvent, VcFault};
use crate::{Time, objects};

/// A change of the world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Event {
    /// An object of the workload cluster was created, changed or removed.
    Cluster(objects::Event),
    /// An object of the Supervisor was created, changed or removed.
    Supervisor(objects::Event),
    /// An API server dropped all but the last `keep` changes per resource from its watch history.
    ClusterCompacted {
        /// API server that dropped the changes.
        plane: ControlPlane,
        /// Number of changes that the API server keeps per resource.
        keep: usize,
    },
    /// Every watch of an API server ended.
    WatchesEnded {
        /// API server whose watches ended.
        plane: ControlPlane,
    },
    /// The workload cluster was backed up.
    ClusterBackedUp,
    /// The workload cluster was restored from its backup.
    ClusterRestored,
    /// The settings of VM Operator changed.
    OperatorSet(Operator),
    /// A quota of the Supervisor was set, or removed if this value has no limits.
    QuotaSet(objects::Quota),
    /// A Supervisor was created.
    SupervisorFounded(Box<Supervisor>),
    /// A vCenter was added.
    VCenterAdded {
        /// Name of the new vCenter.
        vcenter: String,
        /// Initial state of the vCenter.
        with: Box<VCenter>,
    },
    /// The state of a vCenter changed: inventory, sessions, tags, tasks or service.
    VCenter {
        /// Name of the vCenter.
        vcenter: String,
        /// Change of the vCenter.
        event: VcEvent,
    },
    /// A reaction was put into the queue.
    Scheduled {
        /// Number of the reaction in the queue.
        id: u64,
        /// World time at which the reaction is due; `None` if the reaction waits for
        /// [`Command::Tell`](crate::Command::Tell).
        at: Option<Time>,
        /// Step and machine by which [`Command::Tell`](crate::Command::Tell) selects the reaction;
        /// `None` if the reaction has a time.
        held: Option<Held>,
        /// Effect that comes later.
        reaction: Reaction,
    },
    /// A reaction left the queue, because the world carries it out now or has canceled it.
    Unscheduled {
        /// Number of the reaction in the queue.
        id: u64,
        /// World time at which the reaction was due; `None` if the reaction was held.
        at: Option<Time>,
    },
    /// cloud-init ran `kubeadm join` on a machine, and the machine did not join the workload cluster.
    JoinRefused {
        /// Name of the vCenter.
        vcenter: String,
        /// The machine.
        machine: MoRef,
        /// Reason.
        why: String,
    },
    /// A kubelet was added or removed, started or stopped, or its machine got another id.
    KubeletSet {
        /// Name of the Node that the kubelet registers.
        node: String,
        /// New state of the kubelet; `None` removes the kubelet.
        kubelet: Option<Kubelet>,
    },
    /// A scheduled heartbeat of a kubelet came due.
    KubeletBeat {
        /// Name of the Node of the kubelet.
        node: String,
    },
    /// The time at which a step ends was changed.
    TimingSet {
        /// Step whose end was changed.
        step: Step,
        /// New time at which the step ends.
        completion: Completion,
    },
    /// The interval of heartbeats was changed; `None` stops them.
    HeartbeatsSet(Option<Duration>),
    /// The scheduler, the controllers and the pods of the workload cluster were switched on or off.
    WorkloadsSet(bool),
}

/// The reason for which the world refused a command.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// An API server's object store refused the request.
    #[error("the API server refused the request: {0}")]
    Cluster(objects::Status),
    /// A vCenter refused the request, or the command names a vCenter, a kubelet or an object that
    /// does not exist.
    #[error("{0}")]
    VCenter(#[from] VcFault),
    /// A command about a Supervisor is invalid, or the world has no Supervisor.
    #[error("{0}")]
    Supervisor(String),
}

impl Event {
    /// True if the event may change what a waiting client sees. False only for the beginning and
    /// the end of a call on a session.
    pub fn wakes_waiters(&self) -> bool {
        !matches!(
            self,
            Self::VCenter {
                event: VcEvent::Login(LoginEvent::CallBegan { .. } | LoginEvent::CallEnded { .. }),
                ..
            }
        )
    }
}

impl Event {
    /// True if the event changed the objects, the tags or the libraries of the vCenter called
    /// `name`, or added this vCenter.
    pub(crate) fn changes_inventory_of(&self, name: &str) -> bool {
        match self {
            Self::VCenter { vcenter, event } => {
                vcenter == name
                    && matches!(
                        event,
                        VcEvent::Object { .. } | VcEvent::Tag(_) | VcEvent::Library(_)
                    )
            }
            Self::VCenterAdded { vcenter, .. } => vcenter == name,
            _ => false,
        }
    }
}

/// The result of an accepted command.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// Success without a value.
    Done,
    /// The reply of an API server's object store.
    Object(objects::Reply),
    /// Token of the session that was opened or logged in.
    Session(String),
    /// The id of a new task or machine.
    Reference(MoRef),
    /// The id of a new tag, category, library or library item.
    Id(String),
}

/// An accepted command: its result and its events.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Applied {
    /// Value that the command returns, such as the id of a new machine.
    pub outcome: Outcome,
    /// The events of the reactions and session expiries that were due before the command, then
    /// those of the command. Empty if nothing changed.
    pub events: Vec<Event>,
}
