//! The garbage collector, for pods and ReplicaSets: removes those whose owners are gone.

pub(crate) mod lost;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::owned::without_finalizer;
use super::{is_terminating, key_of, list, namespace, text};
use crate::objects::{
    Action, Command, Deletion, GroupResource, Key, PatchKind, Propagation, Store,
};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Kinds of owners with their groups and resources, and the resource of what they own.
const OWNERS: [(&str, &str, &str, (&str, &str)); 5] = [
    ("Pod", "", "pods", ("", "pods")),
    ("Deployment", "apps", "deployments", ("apps", "replicasets")),
    ("ReplicaSet", "apps", "replicasets", ("", "pods")),
    ("DaemonSet", "apps", "daemonsets", ("", "pods")),
    ("Job", "batch", "jobs", ("", "pods")),
];

/// Returns the deletions of the pods and ReplicaSets without owners, and the ends of the deletions of
/// owners.
pub(super) fn collect(store: &Store, _now: Timestamp) -> Vec<Command> {
    let mut commands = Vec::new();
    for resource in [GroupResource::of("apps", "replicasets"), GroupResource::core("pods")] {
        let gone = store.all(&resource).filter(|it| is_garbage(store, it));
        let gone = gone.filter(|it| !is_terminating(it));
        commands.extend(gone.map(|it| Command::delete(key_of(resource.clone(), it))));
    }
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
    with_deletion(delete, Deletion { grace_seconds: Some(0), ..Deletion::default() })
}

fn with_deletion(delete: Command, how: Deletion) -> Command {
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
    resource: &GroupResource,
) -> Vec<Command> {
    let finalizers = list(owner, "/metadata/finalizers");
    let waits_for = |finalizer: &&str| finalizers.iter().any(|it| it == finalizer);
    let Some(finalizer) = [ORPHAN, FOREGROUND].into_iter().find(waits_for) else {
        return Vec::new();
    };
    let dependents = dependents(store, owner, resource);
    if dependents.is_empty() {
        return vec![without_finalizer(owners.clone(), owner, finalizer)];
    }
    if finalizer == ORPHAN {
        return dependents.into_iter().map(|it| freed(it, owner, resource)).collect();
    }
    let staying = dependents.into_iter().filter(|it| !is_terminating(it));
    staying.map(|it| deleted_first(store, it, resource)).collect()
}

/// The objects of a resource with a reference to `owner`.
fn dependents<'a>(store: &'a Store, owner: &Value, resource: &'a GroupResource) -> Vec<&'a Value> {
    let all = store.all(resource).map(Arc::as_ref);
    all.filter(|it: &&Value| namespace(it) == namespace(owner))
        .filter(|it| list(it, "/metadata/ownerReferences").iter().any(|it| is_to(it, owner)))
        .collect()
}

/// True if an owner reference means `owner`.
fn is_to(reference: &Value, owner: &Value) -> bool {
    reference["uid"] == owner["metadata"]["uid"]
}

/// Returns the request that removes the reference of an object to `owner`.
fn freed(object: &Value, owner: &Value, resource: &GroupResource) -> Command {
    let references = list(object, "/metadata/ownerReferences");
    let rest: Vec<&Value> = references.iter().filter(|it| !is_to(it, owner)).collect();
    let patch = json!({"metadata": {"ownerReferences": rest}});
    Command::patch(key_of(resource.clone(), object), PatchKind::Merge, patch)
}

/// Returns the deletion of an object whose owner waits for it: in the foreground if the object has
/// dependents itself.
fn deleted_first(store: &Store, object: &Value, resource: &GroupResource) -> Command {
    let delete = Command::delete(key_of(resource.clone(), object));
    let below = OWNERS.into_iter().find(|it| resource_of(it.1, it.2) == *resource);
    let has_dependents = below.is_some_and(|(_, _, _, (group, below))| {
        !dependents(store, object, &resource_of(group, below)).is_empty()
    });
    if !has_dependents {
        return delete;
    }
    with_deletion(
        delete,
        Deletion { propagation: Some(Propagation::Foreground), ..Deletion::default() },
    )
}
