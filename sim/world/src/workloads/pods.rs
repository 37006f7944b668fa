//! Pods on the Nodes: what a kubelet reports when it starts a pod, and when a pod ends.
//!
//! No container runs. A pod starts a moment after it got its Node, is ready at once, and ends when
//! it is deleted, or by itself if its containers need not run for ever.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::garbage::at_once;
use super::{is_terminating, key_of, list, seconds, text};
use crate::objects::{Command, GroupResource, PatchKind, Store};
use crate::reactions::Step;

/// The step that comes next for a pod on a Node with a running kubelet; `None` if none does.
pub(crate) fn due(pod: &Value) -> Option<Step> {
    let phase = text(pod, "/status/phase");
    match phase {
        _ if text(pod, "/spec/nodeName").is_empty() => None,
        _ if is_terminating(pod) => Some(Step::PodStop),
        "Pending" => Some(Step::PodStart),
        "Running" if text(pod, "/spec/restartPolicy") != "Always" => Some(Step::PodComplete),
        _ => None,
    }
}

/// Returns the request that reports a started pod.
pub(crate) fn start(store: &Store, pod: &Value, now: Timestamp) -> Command {
    let now = seconds(now);
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
        })
    };
    const TRUE: [&str; 4] =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"];
    let host = host_address(store, text(pod, "/spec/nodeName"));
    let address = match pod["spec"]["hostNetwork"] == true {
        true => host.clone(),
        false => free_address(store),
    };
    let running = json!({"running": {"startedAt": now}});
    let (conditions, statuses) =
        (TRUE.map(condition), containers(pod, "/spec/containers", &running));
    let mut status = json!({
        "phase": "Running", "startTime": now, "conditions": conditions,
        "containerStatuses": statuses,
    });
    let ended = json!({"terminated": {
        "exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now,
    }});
    let init = containers(pod, "/spec/initContainers", &ended);
    if !init.is_empty() {
        status["initContainerStatuses"] = init.into();
    }
    for (one, all, address) in [("hostIP", "hostIPs", host), ("podIP", "podIPs", address)] {
        if let Some(address) = address {
            status[all] = json!([{"ip": address}]);
            status[one] = address.into();
        }
    }
    report(pod, status)
}

/// Returns the request that reports a pod whose containers have ended well.
pub(crate) fn complete(pod: &Value, now: Timestamp) -> Command {
    let now = seconds(now);
    let ended = json!({"terminated": {
        "exitCode": 0, "reason": "Completed", "startedAt": pod["status"]["startTime"], "finishedAt": now,
    }});
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "False", "lastProbeTime": null, "lastTransitionTime": now,
            "reason": "PodCompleted",
        })
    };
    let mut statuses = containers(pod, "/spec/containers", &ended);
    for status in &mut statuses {
        (status["ready"], status["started"]) = (false.into(), false.into());
    }
    let conditions = ["PodReadyToStartContainers", "Ready", "ContainersReady"].map(condition);
    let status =
        json!({"phase": "Succeeded", "containerStatuses": statuses, "conditions": conditions});
    report(pod, status)
}

/// Returns the request with which a kubelet removes a deleted pod that has ended.
pub(crate) fn stop(pod: &Value) -> Command {
    at_once(pod)
}

fn report(pod: &Value, status: Value) -> Command {
    let patch = json!({"status": status});
    Command::patch(key_of("pods", pod), PatchKind::StrategicMerge, patch).on_status()
}

fn containers(pod: &Value, pointer: &str, state: &Value) -> Vec<Value> {
    let running = !state["running"].is_null();
    let status = |container: &Value| {
        let (name, image) = (text(container, "/name"), text(container, "/image"));
        json!({
            "name": name, "image": image, "imageID": format!("simulated://{image}"),
            "containerID": format!("containerd://{}-{name}", super::uid(pod)),
            "ready": true, "restartCount": 0, "started": running, "state": state, "lastState": {},
        })
    };
    list(pod, pointer).iter().map(status).collect()
}

fn host_address(store: &Store, node: &str) -> Option<String> {
    let node = store.get(&crate::objects::Key::node(node))?;
    let internal = list(node, "/status/addresses").iter().find(|it| it["type"] == "InternalIP")?;
    internal["address"].as_str().map(str::to_owned)
}

/// The lowest address of 10.244.0.0/16 that no pod has; `None` if every address is taken.
fn free_address(store: &Store) -> Option<String> {
    let pods = GroupResource::core("pods");
    let taken: BTreeSet<&str> =
        store.all(&pods).map(Arc::as_ref).map(|pod| text(pod, "/status/podIP")).collect();
    let mut all = (0..=255_u8).flat_map(|high| (2..=254_u8).map(move |low| (high, low)));
    all.find_map(|(high, low)| {
        let address = format!("10.244.{high}.{low}");
        (!taken.contains(address.as_str())).then_some(address)
    })
}
