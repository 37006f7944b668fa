//! Checks of the work of a provider while and after servers, watches, sessions and answers fail.

mod apiserver;
mod backoff;
mod isolation;
mod recovery;
mod robustness;
mod sessions;
mod steadiness;

use super::Check;
use crate::scenario::Backend;

/// Returns the checks of this module for a backend.
pub(super) fn checks(backend: Backend) -> Vec<Check> {
    [
        apiserver::checks(),
        backoff::checks(backend),
        isolation::checks(backend),
        recovery::checks(backend),
        robustness::checks(backend),
        sessions::checks(backend),
        steadiness::checks(backend),
    ]
    .into_iter()
    .flatten()
    .collect()
}
