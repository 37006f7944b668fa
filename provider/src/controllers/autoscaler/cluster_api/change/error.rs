//! Reasons why a change fails.

use std::time::Duration;

use tonic::Status;

use super::super::{
    super::{instance::one_line, server::status},
    objects::UnreadableLedger,
};
use crate::cluster::ClusterError;

/// Reason why a change failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error(transparent)]
    Request(#[from] ClusterError),
    #[error(
        "the group has {replicas} replicas by now, and {more} more exceed its maximum of {max}"
    )]
    AboveMax { replicas: u32, more: u32, max: u32 },
    #[error(
        "the group has {replicas} replicas by now, and {fewer} fewer go below {floor}; nothing was changed"
    )]
    Below { replicas: u32, fewer: u32, floor: u32 },
    #[error(
        "the answer to the change of the size was lost, and another client has changed the size, which is {replicas} now"
    )]
    Unknown { replicas: u32 },
    #[error(
        "the MachineDeployment rolls out, and a lower size could delete a machine that the request does not name; the request can be repeated after the roll-out"
    )]
    RollingOut,
    #[error(
        "the {kind} has the annotation cluster.x-k8s.io/paused, so Cluster API does not follow a lower size; remove the annotation"
    )]
    Paused { kind: &'static str },
    #[error(
        "Machine {machine} has the annotation cluster.x-k8s.io/delete-machine of another client, and a lower size would delete it instead of a named one; remove the annotation, or delete the Machine"
    )]
    ForeignMark { machine: String },
    #[error(transparent)]
    UnreadableLedger(#[from] UnreadableLedger),
    #[error("a machine exists by now; nothing was changed")]
    Exists,
    #[error(
        "{kind} {name} was deleted and created again; repeat the request for the new group, of which nothing was changed"
    )]
    Recreated { kind: &'static str, name: String },
    #[error("the server no longer knows the object of the group")]
    Gone,
    #[error(
        "the change did not end within {budget:?}; the server undoes or completes it, and a repeated request takes effect once"
    )]
    Late { budget: Duration },
}

impl ChangeError {
    pub(crate) fn status(&self) -> Status {
        let text = one_line(&self.to_string());
        match self {
            Self::Request(err) => status::of(err),
            Self::AboveMax { .. }
            | Self::Below { .. }
            | Self::RollingOut
            | Self::Paused { .. }
            | Self::Recreated { .. }
            | Self::ForeignMark { .. }
            | Self::UnreadableLedger(_)
            | Self::Exists => Status::failed_precondition(text),
            Self::Unknown { .. } => Status::aborted(text),
            Self::Gone => Status::not_found(text),
            Self::Late { .. } => Status::unavailable(text),
        }
    }
}

/// Pause before a request that failed is repeated.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// True if the request may have taken effect, although its answer did not arrive or is a server error.
pub(crate) fn is_lost(err: &ClusterError) -> bool {
    err.lost_the_answer()
        // A body that breaks off is no JSON.
        || matches!(err, ClusterError::Malformed { .. })
        || matches!(err.code(), Some(500 | 502..=504))
}
