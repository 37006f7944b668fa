//! The controller of Deployments: one ReplicaSet per template, of which the newest has the pods.
//!
//! A rollout makes all new pods at once, and removes the old ones when the new ones are ready. The
//! real controller does it in steps by `maxSurge` and `maxUnavailable`. With the strategy `Recreate`
//! the old pods end first.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::owned::{generation, hash, owned, reference};
use super::{
    count, is_terminating, key_of, name, namespace, number, seconds, set_condition, status_update,
    text,
};
use crate::objects::{Command, GroupResource, PatchKind, Store};

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// Returns the ReplicaSets to create and to scale, and the statuses of the Deployments.
pub(super) fn settle(store: &Store, now: Timestamp) -> Vec<Command> {
    let deployments = GroupResource::of("apps", "deployments");
    let all = store.all(&deployments).map(Arc::as_ref);
    all.filter(|it| !is_terminating(it))
        .flat_map(|it| settle_one(store, &deployments, it, now))
        .collect()
}

fn settle_one(
    store: &Store,
    deployments: &GroupResource,
    deployment: &Value,
    now: Timestamp,
) -> Vec<Command> {
    let resource = GroupResource::of("apps", "replicasets");
    let sets: Vec<&Value> = owned(store, &resource, deployment);
    let template = hash(&deployment["spec"]["template"]);
    let is_new = |set: &&&Value| set["metadata"]["labels"][HASH] == template.as_str();
    let wanted = number(deployment, "/spec/replicas").unwrap_or(1);
    let current = sets.iter().find(is_new).copied();
    let old: Vec<&Value> = sets.iter().filter(|set| !is_new(set)).copied().collect();
    let mut commands: Vec<Command> = if is_paused(deployment) {
        let active = active_or_newest(&sets, current);
        active.and_then(|set| scaled(set, wanted)).into_iter().collect()
    } else if deployment["spec"]["strategy"]["type"] == "Recreate" && !are_empty(store, &old) {
        old.iter().filter_map(|set| scaled(set, 0)).collect()
    } else {
        let newest = match current {
            None => Some(new_set(deployment, &template, wanted, &sets)),
            Some(set) => scaled(set, wanted),
        };
        let ready = |set: &Value| number(set, "/status/readyReplicas").unwrap_or_default();
        let is_ready = current.is_some_and(|set| ready(set) >= wanted);
        let replaced = old.iter().filter(|_| is_ready);
        newest.into_iter().chain(replaced.filter_map(|set| scaled(set, 0))).collect()
    };
    let status = status(deployment, &sets, current, wanted, now);
    commands.extend(status_update(deployments, deployment, status));
    commands
}

fn is_paused(deployment: &Value) -> bool {
    deployment["spec"]["paused"] == true
}

/// The only ReplicaSet with replicas; if none has replicas, the one of the template or the newest.
/// `None` if several have replicas: a paused rollout stays as it is.
fn active_or_newest<'a>(sets: &[&'a Value], current: Option<&'a Value>) -> Option<&'a Value> {
    let is_active = |set: &&&Value| number(set, "/spec/replicas").is_some_and(|n| n > 0);
    let age =
        |set: &&Value| (text(set, "/metadata/creationTimestamp").to_owned(), name(set).to_owned());
    let active: Vec<&'a Value> = sets.iter().filter(is_active).copied().collect();
    match active.as_slice() {
        [] => current.or_else(|| sets.iter().copied().max_by_key(age)),
        [one] => Some(one),
        _ => None,
    }
}

/// True if the ReplicaSets want no pods, and all pods that they had have ended.
fn are_empty(store: &Store, sets: &[&Value]) -> bool {
    let pods = GroupResource::core("pods");
    let has_ended = |pod: &&Value| ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"));
    sets.iter().all(|set| {
        number(set, "/spec/replicas") == Some(0) && owned(store, &pods, set).iter().all(has_ended)
    })
}

fn new_set(deployment: &Value, hash: &str, wanted: i64, sets: &[&Value]) -> Command {
    let mut set = json!({
        "metadata": {
            "name": format!("{}-{hash}", name(deployment)),
            "labels": deployment["spec"]["template"]["metadata"]["labels"],
            "annotations": {REVISION: (sets.len() + 1).to_string()},
            "ownerReferences": [reference(deployment, "apps/v1", "Deployment")],
        },
        "spec": {
            "replicas": wanted,
            "selector": deployment["spec"]["selector"],
            "template": deployment["spec"]["template"],
        },
    });
    if let Some(seconds) = number(deployment, "/spec/minReadySeconds") {
        set["spec"]["minReadySeconds"] = seconds.into();
    }
    set["metadata"]["labels"][HASH] = hash.into();
    set["spec"]["template"]["metadata"]["labels"][HASH] = hash.into();
    set["spec"]["selector"]["matchLabels"][HASH] = hash.into();
    Command::create(GroupResource::of("apps", "replicasets"), namespace(deployment), set)
}

/// Returns the request that scales a ReplicaSet; `None` if it has this scale.
fn scaled(set: &Value, replicas: i64) -> Option<Command> {
    let patch = json!({"spec": {"replicas": replicas}});
    let key = key_of(GroupResource::of("apps", "replicasets"), set);
    (number(set, "/spec/replicas") != Some(replicas))
        .then(|| Command::patch(key, PatchKind::Merge, patch))
}

fn status(
    deployment: &Value,
    sets: &[&Value],
    current: Option<&Value>,
    wanted: i64,
    now: Timestamp,
) -> Value {
    let of = |set: &Value, field: &str| {
        let n = number(set, &format!("/status/{field}")).unwrap_or_default();
        usize::try_from(n).unwrap_or_default()
    };
    let sum = |field: &str| sets.iter().map(|set| of(set, field)).sum::<usize>();
    let wanted = usize::try_from(wanted).unwrap_or_default();
    let n_available = sum("availableReplicas");
    let n_updated = current.map_or(0, |set| of(set, "replicas"));
    let mut status = Map::new();
    status.insert("observedGeneration".into(), generation(deployment).into());
    count(&mut status, "replicas", sum("replicas"));
    count(&mut status, "updatedReplicas", n_updated);
    count(&mut status, "readyReplicas", sum("readyReplicas"));
    count(&mut status, "availableReplicas", n_available);
    count(&mut status, "unavailableReplicas", wanted.saturating_sub(n_available));
    let mut conditions = deployment["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let mut set = |kind: &str, status: &str, reason: &str, message: String| {
        let now = seconds(now);
        set_condition(
            &mut conditions,
            json!({
                "type": kind, "status": status, "lastUpdateTime": now, "lastTransitionTime": now,
                "reason": reason, "message": message,
            }),
        );
    };
    let (is_available, reason, said) = match n_available >= wanted {
        true => ("True", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        false => {
            let said = "Deployment does not have minimum availability.";
            ("False", "MinimumReplicasUnavailable", said)
        }
    };
    set("Available", is_available, reason, said.to_owned());
    if is_paused(deployment) {
        set("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused".to_owned());
    } else if let Some(current) = current {
        let is_done = of(current, "readyReplicas") >= wanted && sum("replicas") == n_updated;
        let (reason, said) = match is_done {
            true => ("NewReplicaSetAvailable", "has successfully progressed."),
            false => ("ReplicaSetUpdated", "is progressing."),
        };
        set("Progressing", "True", reason, format!("ReplicaSet {:?} {said}", name(current)));
    }
    status.insert("conditions".into(), conditions.into());
    status.into()
}
