//! The resources of the core group.

mod configmaps;
pub(super) mod endpoints;
pub(crate) mod namespaces;
mod nodes;
mod persistentvolumeclaims;
mod persistentvolumes;
pub(crate) mod pods;
mod podtemplates;
mod replicationcontrollers;
mod secrets;
mod serviceaccounts;
mod services;

use crate::ResourceDef;

/// Returns the definitions of the resources of the core group.
pub(super) fn definitions() -> [ResourceDef; 12] {
    [
        configmaps::definition(),
        endpoints::definition(),
        namespaces::definition(),
        nodes::definition(),
        persistentvolumeclaims::definition(),
        persistentvolumes::definition(),
        pods::definition(),
        podtemplates::definition(),
        replicationcontrollers::definition(),
        secrets::definition(),
        serviceaccounts::definition(),
        services::definition(),
    ]
}
