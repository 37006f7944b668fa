//! The collector of pods whose Node does not exist.
//!
//! Follows `kubernetes: pkg/controller/podgc/gc_controller.go`. The real collector looks every 20 s.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::{is_terminating, key_of, list, seconds, set_condition, text};
use super::at_once;
use crate::objects::{Command, GroupResource, Key, PatchKind, Store};

/// Time for which a Node with pods may be missing. No timing changes it, as a template that names a
/// missing Node makes a pod in each of these periods.
pub(crate) const QUARANTINE: Duration = Duration::from_secs(40);

/// Names of the Nodes that pods have and that do not exist.
pub(crate) fn missing_nodes(store: &Store) -> BTreeSet<&str> {
    let pods = GroupResource::core("pods");
    let left = store.all(&pods).map(Arc::as_ref).filter(|pod| !is_collected(pod));
    let nodes: BTreeSet<&str> = left.map(|pod| text(pod, "/spec/nodeName")).collect();
    nodes.into_iter().filter(|it| !it.is_empty() && store.get(&Key::node(*it)).is_none()).collect()
}

/// Returns the requests that fail and remove the pods of a Node; none if the Node exists.
pub(crate) fn collect(store: &Store, node: &str, now: Timestamp) -> Vec<Command> {
    if store.get(&Key::node(node)).is_some() {
        return Vec::new();
    }
    let pods = GroupResource::core("pods");
    let lost = store.all(&pods).map(Arc::as_ref);
    lost.filter(|pod| text(pod, "/spec/nodeName") == node && !is_collected(pod))
        .flat_map(|pod| failure(pod, now).into_iter().chain([at_once(pod)]))
        .collect()
}

/// True if the pod is deleted without a grace period, and only finalizers keep it.
fn is_collected(pod: &Value) -> bool {
    is_terminating(pod) && pod["metadata"]["deletionGracePeriodSeconds"] == 0
}

/// Returns the request that marks a pod as failed; `None` if the pod has ended.
fn failure(pod: &Value, now: Timestamp) -> Option<Command> {
    if ["Succeeded", "Failed"].contains(&text(pod, "/status/phase")) {
        return None;
    }
    let mut conditions = list(pod, "/status/conditions").to_vec();
    set_condition(
        &mut conditions,
        json!({
            "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": seconds(now), "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        }),
    );
    let patch = json!({"status": {"phase": "Failed", "conditions": conditions}});
    Some(Command::patch(key_of("pods", pod), PatchKind::StrategicMerge, patch).on_status())
}
