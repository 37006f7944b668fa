//! The built-in resources. One file per resource has its data and its strategy.

mod clusterrolebindings;
pub(crate) mod clusterroles;
mod configmaps;
pub(crate) mod customresourcedefinitions;
pub(crate) mod endpoints;
mod endpointslices;
mod events;
mod leases;
pub(crate) mod namespaces;
mod nodes;
mod pods;
mod rolebindings;
mod roles;
mod secrets;
mod serviceaccounts;
mod services;

use crate::ResourceDef;

/// Returns the definitions of all built-in resources.
pub(crate) fn builtin() -> Vec<ResourceDef> {
    vec![
        clusterrolebindings::definition(),
        clusterroles::definition(),
        configmaps::definition(),
        customresourcedefinitions::definition(),
        endpoints::definition(),
        endpointslices::definition(),
        events::definition(),
        leases::definition(),
        namespaces::definition(),
        nodes::definition(),
        pods::definition(),
        rolebindings::definition(),
        roles::definition(),
        secrets::definition(),
        serviceaccounts::definition(),
        services::definition(),
    ]
}
