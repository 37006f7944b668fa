//! The built-in resources. One file per resource has its data and its strategy.

mod bootstrap;
mod clusterrolebindings;
mod clusterroles;
mod configmaps;
pub(crate) mod customresourcedefinitions;
pub(crate) mod endpoints;
mod endpointslices;
mod events;
mod leases;
mod namespaces;
mod nodes;
mod pods;
mod rolebindings;
mod roles;
mod secrets;
mod serviceaccounts;
mod services;

use jiff::Timestamp;
use serde_json::json;

use crate::{Command, GroupResource, ResourceDef, Store};

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

/// Creates the initial objects of every cluster: RBAC roles, RBAC bindings and system namespaces.
pub(crate) fn found(store: &mut Store, now: Timestamp) {
    bootstrap::found(store, now);
    let namespaces = GroupResource::core("namespaces");
    for name in namespaces::SYSTEM {
        let object = json!({"metadata": {"name": name}});
        let command = Command::create(namespaces.clone(), "", object);
        let Ok(decision) = store.decide(now, command) else { continue };
        for event in &decision.events {
            store.fold(event);
        }
    }
}
