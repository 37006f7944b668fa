//! Checks of Node objects: initialization, provider IDs, addresses, labels, taints and zones.

mod additions;
pub(super) mod addresses;
mod contract;
pub(super) mod identity;
mod initialization;
mod labels;
mod node_ip;
mod waiting;
pub(super) mod zones;

use super::Check;
use crate::scenario::Backend;

/// Returns the checks of this module for a backend.
pub(super) fn checks(backend: Backend) -> Vec<Check> {
    [
        additions::checks(backend),
        addresses::checks(backend),
        contract::checks(backend),
        identity::checks(backend),
        initialization::checks(backend),
        labels::checks(backend),
        node_ip::checks(),
        waiting::checks(backend),
        zones::checks(backend),
    ]
    .into_iter()
    .flatten()
    .collect()
}
