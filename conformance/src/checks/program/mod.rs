//! Checks of the provider as a program: flags, configuration, HTTPS endpoint, leader election,
//! metrics, Events and rights.

mod command_line;
mod configuration;
mod endpoint;
mod events;
mod leadership;
mod observability;
mod security;

use super::Check;
use crate::scenario::Backend;

/// Returns the checks of this module for a backend.
pub(super) fn checks(backend: Backend) -> Vec<Check> {
    [
        command_line::checks(backend),
        endpoint::checks(),
        events::checks(backend),
        leadership::checks(),
        observability::checks(backend),
        security::checks(backend),
    ]
    .into_iter()
    .flatten()
    .collect()
}
