//! Objects that controllers own: references, pods of a template, and hashes of templates.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{is_terminating, key_of, list, name, namespace, number, text, uid};
use crate::objects::{Command, GroupResource, PatchKind, Store};

/// The owner reference of a controller of this apiVersion and kind.
pub(super) fn reference(owner: &Value, api_version: &str, kind: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "name": name(owner), "uid": uid(owner),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// True if `owner` controls the object.
fn is_of(object: &Value, owner: &Value) -> bool {
    let is_it = |it: &Value| it["controller"] == true && it["uid"] == owner["metadata"]["uid"];
    list(object, "/metadata/ownerReferences").iter().any(is_it)
}

/// The objects of a resource that `owner` controls.
pub(super) fn owned<'a>(
    store: &'a Store,
    resource: &'a GroupResource,
    owner: &Value,
) -> Vec<&'a Value> {
    let all = store.all(resource).map(Arc::as_ref);
    all.filter(|it: &&Value| namespace(it) == namespace(owner) && is_of(it, owner)).collect()
}

/// Returns the request that creates a pod of `template` for its owner. `change` completes the pod.
pub(super) fn pod(
    owner: &Value,
    template: &Value,
    reference: Value,
    change: impl FnOnce(&mut Value),
) -> Command {
    let mut pod = json!({
        "metadata": {
            "generateName": format!("{}-", name(owner)),
            "ownerReferences": [reference],
        },
        "spec": template["spec"],
    });
    for field in ["labels", "annotations", "finalizers"] {
        if !template["metadata"][field].is_null() {
            pod["metadata"][field] = template["metadata"][field].clone();
        }
    }
    change(&mut pod);
    Command::create(GroupResource::core("pods"), namespace(owner), pod)
}

/// Returns the request that removes a finalizer of an object.
pub(super) fn without_finalizer(
    resource: impl Into<GroupResource>,
    object: &Value,
    finalizer: &str,
) -> Command {
    let finalizers = list(object, "/metadata/finalizers");
    let rest: Vec<&Value> = finalizers.iter().filter(|it| *it != finalizer).collect();
    let rest = if rest.is_empty() { Value::Null } else { json!(rest) };
    let patch = json!({"metadata": {"finalizers": rest}});
    Command::patch(key_of(resource, object), PatchKind::Merge, patch)
}

/// True if the pod counts as a replica: it has not ended and is not being deleted.
pub(super) fn is_active(pod: &Value) -> bool {
    super::fit::occupies(pod) && !is_terminating(pod)
}

/// Sorts pods so that those that are missed least come first, as a ReplicaSet deletes them.
///
/// Follows `kubernetes: pkg/controller/controller_utils.go`, `ActivePodsWithRanks`.
pub(super) fn sort_by_value(pods: &mut [&Value]) {
    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    pods.sort_by_cached_key(|pod| {
        let cost = pod["metadata"]["annotations"][COST].as_str();
        (
            !text(pod, "/spec/nodeName").is_empty(),
            text(pod, "/status/phase") == "Running",
            super::has_condition(pod, "Ready"),
            cost.and_then(|it| it.parse::<i64>().ok()).unwrap_or_default(),
            std::cmp::Reverse(text(pod, "/metadata/creationTimestamp").to_owned()),
            std::cmp::Reverse(name(pod).to_owned()),
        )
    });
}

/// A short text that depends on the template only, as the real controllers append it to names.
pub(super) fn hash(template: &Value) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    const OFFSET: u32 = 2_166_136_261;
    const PRIME: u32 = 16_777_619;
    let mixed = template
        .to_string()
        .bytes()
        .fold(OFFSET, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME));
    let digits = mixed.to_string();
    digits.bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

/// `metadata.generation` of an object.
pub(super) fn generation(object: &Value) -> i64 {
    number(object, "/metadata/generation").unwrap_or_default()
}
