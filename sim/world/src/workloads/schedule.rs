//! The scheduler: binds each waiting pod to a Node, or says why it fits on none.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fit::requests::{self, Amounts};
use super::fit::{Misfit, Room, rooms, unsupported};
use super::{affinity, is_terminating, key_of, list, name, number, seconds, taints, text};
use crate::objects::{Action, Command, GroupResource, PatchKind, Store, Subresource};

/// Name of the scheduler in `spec.schedulerName` of the pods that it places.
const NAME: &str = "default-scheduler";
const NO_NODE: &str = "no nodes available to schedule pods";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// Returns the bindings of the waiting pods, and the conditions of those that fit nowhere.
pub(super) fn place(store: &Store, now: Timestamp) -> Vec<Command> {
    let (pods, nodes) = (GroupResource::core("pods"), GroupResource::core("nodes"));
    let all: Vec<&Value> = store.all(&pods).map(Arc::as_ref).collect();
    let mut waiting: Vec<&Value> = all.iter().copied().filter(|pod| waits(pod)).collect();
    if waiting.is_empty() {
        return Vec::new();
    }
    waiting.sort_by_key(|pod| {
        let priority = number(pod, "/spec/priority").unwrap_or_default();
        let created = text(pod, "/metadata/creationTimestamp");
        (Reverse(priority), created, super::namespace(pod), name(pod))
    });
    let mut rooms = rooms(store.all(&nodes).map(Arc::as_ref), &all);
    waiting.into_iter().filter_map(|pod| decide(pod, &mut rooms, now)).collect()
}

/// True if the pod waits for this scheduler.
fn waits(pod: &Value) -> bool {
    text(pod, "/spec/nodeName").is_empty()
        && text(pod, "/spec/schedulerName") == NAME
        && text(pod, "/status/phase") == "Pending"
        && list(pod, "/spec/schedulingGates").is_empty()
        && !is_terminating(pod)
}

fn decide(pod: &Value, rooms: &mut [Room<'_>], now: Timestamp) -> Option<Command> {
    if let Some(field) = unsupported(pod) {
        let message = format!(
            "this simulated scheduler does not support {field}: remove the field, or bind the pod to a Node through its subresource binding"
        );
        return condition(pod, "SchedulerError", &message, now);
    }
    let wanted = requests::of_pod(pod);
    let named = affinity::named(pod);
    let is_left_out =
        |room: &Room<'_>| named.as_ref().is_some_and(|names| !names.contains(name(room.node)));
    let mut misfits = Vec::new();
    let mut best: Option<(i128, usize)> = None;
    for (at, room) in rooms.iter().enumerate() {
        if is_left_out(room) {
            let why = "node(s) didn't satisfy plugin(s) [NodeAffinity]".to_owned();
            misfits.push(Misfit { reasons: vec![why], is_for_lack_of_room: false });
            continue;
        }
        match room.admits(pod, &wanted) {
            Err(misfit) => misfits.push(misfit),
            Ok(()) => {
                let score = score(pod, room, &wanted);
                if best.is_none_or(|(before, _)| score > before) {
                    best = Some((score, at));
                }
            }
        }
    }
    let Some((_, at)) = best else {
        return condition(pod, "Unschedulable", &message(pod, &misfits), now);
    };
    let room = rooms.get_mut(at)?;
    room.take(pod);
    Some(binding(pod, name(room.node)))
}

/// Prefers Nodes without soft taints, then those with most room.
fn score(pod: &Value, room: &Room<'_>, wanted: &Amounts) -> i128 {
    const SOFT: i128 = 1_000_000;
    let tolerations = list(pod, "/spec/tolerations");
    let is_soft = !taints::tolerates(tolerations, room.node, &["PreferNoSchedule"]);
    room.score(wanted) - if is_soft { SOFT } else { 0 }
}

/// The text of `FitError` in kube-scheduler 1.36, with that of the preemption that it tries next.
/// This scheduler never removes a pod for another one.
fn message(pod: &Value, misfits: &[Misfit]) -> String {
    if misfits.is_empty() {
        return NO_NODE.to_owned();
    }
    let reasons = misfits.iter().flat_map(|misfit| misfit.reasons.iter().map(String::as_str));
    let fit = histogram(misfits.len(), reasons);
    if text(pod, "/spec/preemptionPolicy") == "Never" {
        return format!("{fit} preemption: not eligible due to preemptionPolicy=Never.");
    }
    let helps =
        misfits.iter().map(|it| if it.is_for_lack_of_room { NO_VICTIMS } else { NOT_HELPFUL });
    format!("{fit} preemption: {}", histogram(misfits.len(), helps))
}

fn histogram<'a>(n_nodes: usize, reasons: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    reasons.for_each(|reason| *counts.entry(reason).or_default() += 1);
    let mut parts: Vec<String> =
        counts.into_iter().map(|(reason, n)| format!("{n} {reason}")).collect();
    parts.sort();
    format!("0/{n_nodes} nodes are available: {}.", parts.join(", "))
}

fn binding(pod: &Value, node: &str) -> Command {
    let object = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name(pod), "namespace": super::namespace(pod), "uid": super::uid(pod)},
        "target": {"kind": "Node", "name": node},
    });
    let key = key_of("pods", pod);
    let create = Command::create(key.resource.clone(), key.namespace.clone(), object.clone());
    Command {
        key,
        action: Action::Create { object },
        subresource: Some(Subresource::Binding),
        ..create
    }
}

/// Returns the request that says why the pod has no Node; `None` if the pod says so already.
fn condition(pod: &Value, reason: &str, message: &str, now: Timestamp) -> Option<Command> {
    let before = list(pod, "/status/conditions").iter().find(|it| it["type"] == "PodScheduled");
    let is_same = |it: &&Value| it["status"] == "False";
    let since = before.filter(is_same).map(|it| it["lastTransitionTime"].clone());
    if before.is_some_and(|it| it["reason"] == reason && it["message"] == message) {
        return None;
    }
    let condition = json!({
        "type": "PodScheduled", "status": "False", "lastProbeTime": null,
        "lastTransitionTime": since.unwrap_or_else(|| seconds(now)),
        "reason": reason, "message": message,
    });
    let patch = json!({"status": {"conditions": [condition]}});
    let patch = Command::patch(key_of("pods", pod), PatchKind::StrategicMerge, patch);
    Some(patch.on_status())
}
