//! Reads of single machines by name.

use tokio::time::Instant;

use crate::{instances::supervisor::machine::MachineName, model::Unknown};

/// Result of a read of one machine by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::instances::supervisor) enum ReadResult {
    /// A machine of that name exists. The view contains the machine now, unless the view knows of a
    /// later deletion.
    Seen,
    /// No machine has that name.
    NotFound,
    /// The read failed.
    Failed(Unknown),
}

/// A read of one machine by its name, for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::instances::supervisor) struct ReadByName {
    /// Name of the machine that was read. It may differ from the node's name.
    pub machine: MachineName,
    /// Start of the read. A proof is as old as the start of its evidence.
    pub began_at: Instant,
    /// End of the read. The age of an answer counts from the end, so that a slow read is not
    /// repeated at once.
    pub ended_at: Instant,
    /// Result of the read.
    pub read: ReadResult,
}
