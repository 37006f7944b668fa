//! Events of the world, and results of commands.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::completion::{Completion, Step};
use crate::reactions::{Held, Kubelet, Reaction};
use crate::supervisor::{Operator, Supervisor};
use crate::vcenter::{LoginEvent, MoRef, VCenter, VcEvent, VcFault};
use crate::{Time, objects};

/// A Kubernetes API server of the world.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum ControlPlane {
    /// The API server of the workload cluster, which has the Nodes that a provider manages.
    #[default]
    Workload,
    /// The API server of the Supervisor, which has the VirtualMachines that the Nodes run on.
    Supervisor,
}

/// A change of the world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Event {
    /// An object of the workload cluster changed.
    Cluster(objects::Event),
    /// An object of the Supervisor changed.
    Supervisor(objects::Event),
    /// An API server forgot older changes of its objects.
    ClusterCompacted {
        /// The API server.
        plane: ControlPlane,
        /// Number of changes that it keeps per resource.
        keep: usize,
    },
    /// Every watch of an API server ended.
    WatchesEnded {
        /// The API server.
        plane: ControlPlane,
    },
    /// The workload cluster was backed up.
    ClusterBackedUp,
    /// The workload cluster was restored from its backup.
    ClusterRestored,
    /// The settings of VM Operator changed.
    OperatorSet(Operator),
    /// A quota was set, or removed if it has no limits.
    QuotaSet(objects::Quota),
    /// A Supervisor was founded.
    SupervisorFounded(Box<Supervisor>),
    /// A vCenter was added.
    VCenterAdded {
        /// Its name.
        vcenter: String,
        /// Its initial state.
        with: Box<VCenter>,
    },
    /// A vCenter changed.
    VCenter {
        /// The vCenter.
        vcenter: String,
        /// The event.
        event: VcEvent,
    },
    /// A reaction was put into the queue.
    Scheduled {
        /// Its number.
        id: u64,
        /// The time at which it is due; `None` if it waits for [`Command::Tell`](crate::Command::Tell).
        at: Option<Time>,
        /// The step for which it is held; `None` if it has a time.
        held: Option<Held>,
        /// The reaction.
        reaction: Reaction,
    },
    /// A reaction left the queue, because it happens now or was canceled.
    Unscheduled {
        /// Its number.
        id: u64,
        /// The time at which it was due; `None` if it was held.
        at: Option<Time>,
    },
    /// A kubelet started, stopped or was added.
    KubeletSet {
        /// Its node.
        node: String,
        /// The new state; `None` removes the kubelet.
        kubelet: Option<Kubelet>,
    },
    /// A kubelet renewed its lease.
    KubeletBeat {
        /// Its node.
        node: String,
    },
    /// The time at which a step ends was changed.
    TimingSet {
        /// The step.
        step: Step,
        /// The time at which it ends.
        completion: Completion,
    },
    /// The interval of heartbeats was changed.
    HeartbeatsSet(Option<Duration>),
}

/// The reason why the world refused a command.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The object store refused the request.
    #[error("the cluster refused: {0}")]
    Cluster(objects::Status),
    /// A vCenter refused the request.
    #[error("{0}")]
    VCenter(#[from] VcFault),
    /// A command about a Supervisor is invalid, or the world has no Supervisor.
    #[error("{0}")]
    Supervisor(String),
}

impl Event {
    /// True if waiting clients must look again after this event: all but the beginning and the end of a session's call.
    pub fn concerns_others(&self) -> bool {
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
    /// True if the event changed the objects or the tags of the vCenter called `name`.
    pub(crate) fn changes_inventory_of(&self, name: &str) -> bool {
        match self {
            Self::VCenter { vcenter, event } => {
                vcenter == name && matches!(event, VcEvent::Object { .. } | VcEvent::Tag(_))
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
    /// The object store's answer.
    Object(objects::Reply),
    /// The token of a new session.
    Session(String),
    /// A task or a machine.
    Reference(MoRef),
    /// The id of a new tag or category.
    Id(String),
}

/// An accepted command: its result and its events.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The result.
    pub outcome: Outcome,
    /// The events in order, those of reactions that were due before included. Empty when nothing changed.
    pub events: Vec<Event>,
}
