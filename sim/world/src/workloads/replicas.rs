//! The controller of ReplicaSets: as many pods of the template as wanted.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::owned::{generation, is_active, owned, pod, reference, sort_by_value};
use super::{count, has_condition, is_terminating, key_of, map, number, status_update};
use crate::objects::{Command, GroupResource, Store};

/// Returns the creations and deletions of pods, and the statuses of the ReplicaSets.
pub(super) fn settle(store: &Store, _now: Timestamp) -> Vec<Command> {
    let sets = GroupResource::of("apps", "replicasets");
    store.all(&sets).flat_map(|set| settle_one(store, &sets, Arc::as_ref(set))).collect()
}

fn settle_one(store: &Store, sets: &GroupResource, set: &Value) -> Vec<Command> {
    let resource = GroupResource::core("pods");
    let mut pods: Vec<&Value> = owned(store, &resource, set);
    pods.retain(|pod| is_active(pod));
    let wanted = usize::try_from(number(set, "/spec/replicas").unwrap_or(1)).unwrap_or_default();
    let mut commands: Vec<Command> = status(set, &pods)
        .and_then(|status| status_update(sets, set, status))
        .into_iter()
        .collect();
    if is_terminating(set) {
        return commands;
    }
    if pods.len() > wanted {
        sort_by_value(&mut pods);
        let surplus = pods.len() - wanted;
        let deletion = |pod: &&Value| Command::delete(key_of("pods", pod));
        commands.extend(pods.iter().take(surplus).map(deletion));
    }
    let missing = pods.len()..wanted;
    commands.extend(missing.map(|_| {
        pod(set, &set["spec"]["template"], reference(set, "apps/v1", "ReplicaSet"), |_| {})
    }));
    commands
}

/// The status of a ReplicaSet with these pods. Every ready pod counts as available.
fn status(set: &Value, pods: &[&Value]) -> Option<Value> {
    let labels = map(set, "/spec/template/metadata/labels")?;
    let is_labeled = |pod: &&&Value| {
        labels.iter().all(|(key, value)| pod["metadata"]["labels"].get(key) == Some(value))
    };
    let n_ready = pods.iter().filter(|pod| has_condition(pod, "Ready")).count();
    let mut status = Map::new();
    status.insert("replicas".into(), pods.len().into());
    count(&mut status, "fullyLabeledReplicas", pods.iter().filter(is_labeled).count());
    count(&mut status, "readyReplicas", n_ready);
    count(&mut status, "availableReplicas", n_ready);
    status.insert("observedGeneration".into(), generation(set).into());
    if let Some(conditions) = set["status"].get("conditions") {
        status.insert("conditions".into(), json!(conditions));
    }
    Some(status.into())
}
