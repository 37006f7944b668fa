//! Requests that the controllers of kube-controller-manager send about Nodes.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::objects::{Command, GroupResource, Key, PatchKind, Store};

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Conditions that a kubelet reports. The control plane sets them to Unknown when the kubelet is
/// silent.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Returns the request that sets the [`REPORTED`] conditions of a Node to Unknown, because its
/// kubelet has been silent for the grace period. `None` if the Node does not exist or all these
/// conditions are Unknown already.
pub(crate) fn mark_silent(store: &Store, name: &str, now: Timestamp) -> Option<Command> {
    let key = Key::node(name);
    let node = store.get(&key)?;
    let known = node["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let now = seconds(now);
    let unknown = |kind: &&str| {
        let before = known.iter().find(|condition| condition["type"] == *kind);
        let is_unknown = before.is_some_and(|condition| condition["status"] == "Unknown");
        let last =
            before.map_or(&node["metadata"]["creationTimestamp"], |it| &it["lastHeartbeatTime"]);
        (!is_unknown).then(|| {
            let (reason, message) = match before {
                Some(_) => ("NodeStatusUnknown", "Kubelet stopped posting node status."),
                None => ("NodeStatusNeverUpdated", "Kubelet never posted node status."),
            };
            json!({
                "type": kind, "status": "Unknown", "lastHeartbeatTime": last,
                "lastTransitionTime": now, "reason": reason, "message": message,
            })
        })
    };
    let conditions: Vec<Value> = REPORTED.iter().filter_map(unknown).collect();
    let patch = json!({"status": {"conditions": conditions}});
    (!conditions.is_empty())
        .then(|| Command::patch(key, PatchKind::StrategicMerge, patch).on_status())
}

/// Returns the request that gives a Node the taints for the status of its Ready condition: none for
/// True, `not-ready` for False, and `unreachable` for Unknown or a missing condition. `ready`
/// overrides the present status of the condition. `None` if the Node does not exist or has the
/// right taints.
pub(crate) fn settle_taints(
    store: &Store,
    name: &str,
    ready: Option<&str>,
    now: Timestamp,
) -> Option<Command> {
    let key = Key::node(name);
    let node = store.get(&key)?;
    let known = node["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let current = known.iter().find(|condition| condition["type"] == "Ready");
    let ready = ready.or_else(|| current?["status"].as_str()).unwrap_or("Unknown");
    let wanted = match ready {
        "True" => None,
        "False" => Some(NOT_READY),
        _ => Some(UNREACHABLE),
    };
    let before = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let is_ours = |taint: &Value| taint["key"] == UNREACHABLE || taint["key"] == NOT_READY;
    let is_wanted = |taint: &Value| wanted.is_some_and(|key| taint["key"] == key);
    let mut after: Vec<Value> =
        before.iter().filter(|taint| !is_ours(taint) || is_wanted(taint)).cloned().collect();
    for effect in ["NoSchedule", "NoExecute"] {
        let Some(key) = wanted else { break };
        if !after.iter().any(|taint| taint["key"] == key && taint["effect"] == effect) {
            after.push(json!({"key": key, "effect": effect, "timeAdded": seconds(now)}));
        }
    }
    let taints = if after.is_empty() { Value::Null } else { after.clone().into() };
    let patch = json!({"spec": {"taints": taints}});
    (after != before).then(|| Command::patch(key, PatchKind::StrategicMerge, patch))
}

/// Returns the request that deletes the lease of a deleted Node, as the garbage collector does;
/// `None` if the lease does not exist.
pub(crate) fn collect_lease(store: &Store, name: &str) -> Option<Command> {
    let leases = GroupResource::of("coordination.k8s.io", "leases");
    let key = Key::new(leases, "kube-node-lease", name);
    store.get(&key).map(|_| Command::delete(key))
}

/// The time in whole seconds, as JSON text in the format of RFC 3339.
pub(super) fn seconds(now: Timestamp) -> Value {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string().into()
}
