//! The garbage collector, for pods and ReplicaSets: removes those whose owners or Nodes are gone.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{is_terminating, key_of, list, namespace, text};
use crate::objects::{Action, Command, Deletion, GroupResource, Key, PatchKind, Store};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Kinds of owners with their groups and resources, and the resource of what they own.
const OWNERS: [(&str, &str, &str, (&str, &str)); 4] = [
    ("Deployment", "apps", "deployments", ("apps", "replicasets")),
    ("ReplicaSet", "apps", "replicasets", ("", "pods")),
    ("DaemonSet", "apps", "daemonsets", ("", "pods")),
    ("Job", "batch", "jobs", ("", "pods")),
];

/// Returns the deletions of the pods and ReplicaSets without owners, the deletions of the pods on
/// Nodes that do not exist, and the ends of the deletions of owners.
pub(super) fn collect(store: &Store, _now: Timestamp) -> Vec<Command> {
    let mut commands = Vec::new();
    for resource in [GroupResource::of("apps", "replicasets"), GroupResource::core("pods")] {
        let gone = store.all(&resource).filter(|it| is_garbage(store, it));
        let gone = gone.filter(|it| !is_terminating(it));
        commands.extend(gone.map(|it| Command::delete(key_of(resource.clone(), it))));
    }
    let pods = GroupResource::core("pods");
    let homeless = store.all(&pods).filter(|pod| {
        let node = text(pod, "/spec/nodeName");
        !node.is_empty() && store.get(&Key::node(node)).is_none()
    });
    commands.extend(homeless.map(|pod| at_once(pod)));
    for (_, group, resource, dependents) in OWNERS {
        let (owners, dependents) =
            (resource_of(group, resource), resource_of(dependents.0, dependents.1));
        let ending = store.all(&owners).filter(|it| is_terminating(it));
        commands.extend(ending.flat_map(|owner| end(store, &owners, owner, &dependents)));
    }
    commands
}

fn resource_of(group: &'static str, resource: &'static str) -> GroupResource {
    if group.is_empty() {
        GroupResource::core(resource)
    } else {
        GroupResource::of(group, resource)
    }
}

/// Returns the deletion of a pod without a grace period.
pub(super) fn at_once(pod: &Value) -> Command {
    let delete = Command::delete(key_of("pods", pod));
    let how = Deletion { grace_seconds: Some(0), ..Deletion::default() };
    let Action::Delete { preconditions, .. } = delete.action else { return delete };
    Command { action: Action::Delete { preconditions, how }, ..delete }
}

/// True if the object has owners, all of kinds that the collector knows, and none of them exists.
fn is_garbage(store: &Store, object: &Value) -> bool {
    let owners = list(object, "/metadata/ownerReferences");
    let is_gone = |owner: &Value| {
        let Some((_, group, resource, _)) = known(owner) else { return false };
        let key = Key::new(resource_of(group, resource), namespace(object), text(owner, "/name"));
        store.get(&key).is_none_or(|it| it["metadata"]["uid"] != owner["uid"])
    };
    !owners.is_empty() && owners.iter().all(is_gone)
}

fn known(
    owner: &Value,
) -> Option<(&'static str, &'static str, &'static str, (&'static str, &'static str))> {
    let group = text(owner, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
    OWNERS.into_iter().find(|it| (it.0, it.1) == (text(owner, "/kind"), group))
}

/// Carries on the deletion of an owner that waits for its dependents or leaves them behind.
fn end(
    store: &Store,
    owners: &GroupResource,
    owner: &Arc<Value>,
    dependents: &GroupResource,
) -> Vec<Command> {
    let finalizers = list(owner, "/metadata/finalizers");
    let has = |finalizer: &str| finalizers.iter().any(|it| it == finalizer);
    let is_own = |it: &Value| it["uid"] == owner["metadata"]["uid"];
    let ours: Vec<&Arc<Value>> = store
        .all(dependents)
        .filter(|it| namespace(it) == namespace(owner))
        .filter(|it| list(it, "/metadata/ownerReferences").iter().any(is_own))
        .collect();
    let without = |finalizer: &str| {
        let rest: Vec<&Value> = finalizers.iter().filter(|it| *it != finalizer).collect();
        let rest = if rest.is_empty() { Value::Null } else { json!(rest) };
        let patch = json!({"metadata": {"finalizers": rest}});
        Command::patch(key_of(owners.clone(), owner), PatchKind::Merge, patch)
    };
    if has(ORPHAN) {
        let freed = ours.iter().map(|it| {
            let rest: Vec<&Value> =
                list(it, "/metadata/ownerReferences").iter().filter(|it| !is_own(it)).collect();
            let patch = json!({"metadata": {"ownerReferences": rest}});
            Command::patch(key_of(dependents.clone(), it), PatchKind::Merge, patch)
        });
        return freed.chain([without(ORPHAN)]).collect();
    }
    match (has(FOREGROUND), ours.is_empty()) {
        (true, true) => vec![without(FOREGROUND)],
        (true, false) => {
            let staying = ours.iter().filter(|it| !is_terminating(it));
            staying.map(|it| Command::delete(key_of(dependents.clone(), it))).collect()
        }
        (false, _) => Vec::new(),
    }
}
