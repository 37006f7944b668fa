//! The controller of DaemonSets: one pod on each Node that the template selects and tolerates.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::owned::{generation, hash, is_active, owned, pod, reference};
use super::{
    affinity, count, has_condition, is_terminating, key_of, list, name, status_update, taints, text,
};
use crate::objects::{Command, GroupResource, Store};

const HASH: &str = "controller-revision-hash";
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Taints that every pod of a DaemonSet tolerates, with their effects.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// Taint that pods in the network of their Node tolerate, too.
const NO_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Returns the creations and deletions of pods, and the statuses of the DaemonSets.
pub(super) fn settle(store: &Store, _now: Timestamp) -> Vec<Command> {
    let sets = GroupResource::of("apps", "daemonsets");
    store.all(&sets).flat_map(|set| settle_one(store, &sets, Arc::as_ref(set))).collect()
}

fn settle_one(store: &Store, sets: &GroupResource, set: &Value) -> Vec<Command> {
    let (pods, nodes) = (GroupResource::core("pods"), GroupResource::core("nodes"));
    let mut ours: Vec<&Value> = owned(store, &pods, set);
    ours.retain(|pod| is_active(pod));
    let model = json!({"spec": with_tolerations(&set["spec"]["template"]["spec"])});
    let nodes: Vec<&Value> = store.all(&nodes).map(Arc::as_ref).collect();
    let wanted: Vec<&str> =
        nodes.iter().filter(|node| runs_on(&model, node)).map(|node| name(node)).collect();
    let revision = hash(&set["spec"]["template"]);
    let mut commands: Vec<Command> =
        status_update(sets, set, status(set, &ours, &wanted, &revision)).into_iter().collect();
    if is_terminating(set) {
        return commands;
    }
    // A pod goes with its Node, or when the template changes (unless updates wait for a deletion), or
    // if another pod of the set is there.
    let waits = set["spec"]["updateStrategy"]["type"] == "OnDelete";
    let is_kept = |pod: &Value| waits || pod["metadata"]["labels"][HASH] == revision.as_str();
    let mut served: Vec<&str> = Vec::new();
    for pod in &ours {
        let node = node_of(pod);
        if wanted.contains(&node) && is_kept(pod) && !served.contains(&node) {
            served.push(node);
        } else {
            commands.push(Command::delete(key_of("pods", pod)));
        }
    }
    let missing = wanted.iter().filter(|node| !served.contains(node));
    commands.extend(missing.map(|node| new_pod(set, node, &revision)));
    commands
}

fn runs_on(model: &Value, node: &Value) -> bool {
    affinity::selects(model, node)
        && taints::tolerates(list(model, "/spec/tolerations"), node, &["NoSchedule", "NoExecute"])
}

fn with_tolerations(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let mut tolerations = list(&spec, "/tolerations").to_vec();
    let on_host = (spec["hostNetwork"] == true).then_some(NO_NETWORK);
    for (key, effect) in TOLERATED.into_iter().chain(on_host) {
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    spec["tolerations"] = tolerations.into();
    spec
}

/// The Node of a pod: the one that it has, or the only one that its affinity names.
fn node_of(pod: &Value) -> &str {
    match text(pod, "/spec/nodeName") {
        "" => affinity::named(pod).and_then(|names| names.into_iter().next()).unwrap_or_default(),
        node => node,
    }
}

fn new_pod(set: &Value, node: &str, revision: &str) -> Command {
    let template = &set["spec"]["template"];
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    pod(set, template, reference(set, "apps/v1", "DaemonSet"), |pod| {
        pod["spec"] = with_tolerations(&template["spec"]);
        let generation = &set["metadata"]["annotations"][TEMPLATE_GENERATION];
        pod["metadata"]["labels"][HASH] = revision.into();
        pod["metadata"]["labels"]["pod-template-generation"] = generation.clone();
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        // The terms of the template stay, each with the name of the Node in addition.
        let affinity = &mut pod["spec"]["affinity"]["nodeAffinity"][required];
        let mut terms = list(affinity, "/nodeSelectorTerms").to_vec();
        if terms.is_empty() {
            terms.push(json!({}));
        }
        terms.iter_mut().for_each(|term| term["matchFields"] = json!([field]));
        affinity["nodeSelectorTerms"] = terms.into();
    })
}

fn status(set: &Value, pods: &[&Value], wanted: &[&str], revision: &str) -> Value {
    let on = |node: &&&str| pods.iter().any(|pod| node_of(pod) == **node);
    let n_misscheduled = pods.iter().filter(|pod| !wanted.contains(&node_of(pod))).count();
    let placed = || pods.iter().filter(|pod| wanted.contains(&node_of(pod)));
    let n_ready = placed().filter(|pod| has_condition(pod, "Ready")).count();
    let is_current = |pod: &&&Value| pod["metadata"]["labels"][HASH] == revision;
    let mut status = Map::new();
    for (field, n) in [
        ("currentNumberScheduled", wanted.iter().filter(on).count()),
        ("numberMisscheduled", n_misscheduled),
        ("desiredNumberScheduled", wanted.len()),
        ("numberReady", n_ready),
    ] {
        status.insert(field.into(), n.into());
    }
    status.insert("observedGeneration".into(), generation(set).into());
    count(&mut status, "updatedNumberScheduled", placed().filter(is_current).count());
    count(&mut status, "numberAvailable", n_ready);
    count(&mut status, "numberUnavailable", wanted.len().saturating_sub(n_ready));
    status.into()
}
