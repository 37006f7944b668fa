//! Checks of the deletion of Nodes and of the shutdown taint.

pub(super) mod deletion;
mod not_ready;
pub(crate) mod required_deletions;
mod shutdown;

use super::Check;
use crate::scenario::Backend;

/// Returns the checks of this module for a backend.
pub(super) fn checks(backend: Backend) -> Vec<Check> {
    [
        deletion::checks(backend),
        not_ready::checks(backend),
        required_deletions::checks(backend),
        shutdown::checks(backend),
    ]
    .into_iter()
    .flatten()
    .collect()
}
