//! What happens in the world, and what a command answers.

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
    /// The workload cluster's, whose Nodes a provider looks after.
    #[default]
    Workload,
    /// The Supervisor's, whose VirtualMachines they run on.
    Supervisor,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Event {
    /// An object of the workload cluster changed.
    Cluster(objects::Event),
    /// An object of the Supervisor changed.
    Supervisor(objects::Event),
    /// An API server forgot older changes of its objects.
    ClusterCompacted {
        /// Which.
        plane: ControlPlane,
        /// Changes it remembers per resource.
        keep: usize,
    },
    /// Every watch of an API server came to its end.
    WatchesEnded {
        /// Whose.
        plane: ControlPlane,
    },
    /// The workload cluster was backed up.
    ClusterBackedUp,
    /// The workload cluster was restored from its backup.
    ClusterRestored,
    /// VM Operator is another one from now on.
    OperatorSet(Operator),
    /// A quota was set, or lifted if it has no limits.
    QuotaSet(objects::Quota),
    /// A Supervisor was founded.
    SupervisorFounded(Box<Supervisor>),
    /// A vCenter was added.
    VCenterAdded {
        /// Its name.
        vcenter: String,
        /// What it is.
        with: Box<VCenter>,
    },
    /// Something happened in a vCenter.
    VCenter {
        /// Which.
        vcenter: String,
        /// What.
        event: VcEvent,
    },
    /// A reaction will happen.
    Scheduled {
        /// Its number.
        id: u64,
        /// When, or `None` if somebody has to tell it to.
        at: Option<Time>,
        /// What it waits for.
        held: Option<Held>,
        /// The reaction.
        reaction: Reaction,
    },
    /// A reaction happened or was told to.
    Unscheduled {
        /// Its number.
        id: u64,
        /// When it was due.
        at: Option<Time>,
    },
    /// A kubelet started, stopped or was added.
    KubeletSet {
        /// Its node.
        node: String,
        /// What it is now; `None` when its machine is gone.
        kubelet: Option<Kubelet>,
    },
    /// A kubelet renewed its lease.
    KubeletBeat {
        /// Its node.
        node: String,
    },
    /// When a step ends was changed.
    TimingSet {
        /// The step.
        step: Step,
        /// When it ends.
        completion: Completion,
    },
    /// How often kubelets report was changed.
    HeartbeatsSet(Option<Duration>),
}

/// Why the world refused a command.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The object store refused.
    #[error("the cluster refused: {0}")]
    Cluster(objects::Status),
    /// A vCenter refused.
    #[error("{0}")]
    VCenter(#[from] VcFault),
    /// A command about a Supervisor makes no sense.
    #[error("{0}")]
    Supervisor(String),
}

impl Event {
    /// Whether others may wait for it. Nobody waits for the beginning or the end of a session's call.
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
    /// Whether it changed the objects or the tags of this vCenter.
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

/// What a command answered.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing to say.
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

/// An accepted command: what it answered and what happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The answer.
    pub outcome: Outcome,
    /// What happened, in order. Empty when nothing changed.
    pub events: Vec<Event>,
}
