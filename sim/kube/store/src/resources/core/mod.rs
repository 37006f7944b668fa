//! The resources of the core group.

mod configmaps;
pub(super) mod endpoints;
pub(crate) mod namespaces;
mod nodes;
mod pods;
mod secrets;
mod serviceaccounts;
mod services;

use crate::ResourceDef;

/// Returns the definitions of the resources of the core group.
pub(super) fn definitions() -> [ResourceDef; 8] {
    [
        configmaps::definition(),
        endpoints::definition(),
        namespaces::definition(),
        nodes::definition(),
        pods::definition(),
        secrets::definition(),
        serviceaccounts::definition(),
        services::definition(),
    ]
}
