//! The built-in resources: one file of data and strategy each.

mod configmaps;
mod events;
mod leases;
mod namespaces;
mod nodes;
mod pods;
mod secrets;
mod serviceaccounts;
mod services;

use jiff::Timestamp;
use serde_json::json;

use super::{Command, GroupResource, MergeRule, ResourceDef, Store};

/// Lists that merge in the metadata of every object; each definition names them too.
const FINALIZERS: MergeRule = MergeRule::set("metadata.finalizers");
const OWNERS: MergeRule = MergeRule::by_key("metadata.ownerReferences", "uid");

/// All of them.
pub(super) fn builtin() -> Vec<ResourceDef> {
    vec![
        configmaps::definition(),
        events::definition(),
        leases::definition(),
        namespaces::definition(),
        nodes::definition(),
        pods::definition(),
        secrets::definition(),
        serviceaccounts::definition(),
        services::definition(),
    ]
}

/// Makes the namespaces that every cluster has.
pub(super) fn found(store: &mut Store, now: Timestamp) {
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
