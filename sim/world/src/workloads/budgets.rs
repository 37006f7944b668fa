//! The controller of PodDisruptionBudgets: how many pods evictions may take.
//!
//! Follows `kubernetes: pkg/controller/disruption/disruption.go`. An evicted pod that is not gone
//! counts as gone as long as it exists; the real controller gives up after two minutes.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::owned::generation;
use super::{
    has_condition, is_terminating, list, map, name, namespace, number, seconds, set_condition,
    status_update, text, uid,
};
use crate::objects::{Command, GroupResource, Key, LabelSelector, Store};

/// Returns the statuses of the budgets.
pub(super) fn settle(store: &Store, now: Timestamp) -> Vec<Command> {
    let budgets = GroupResource::of("policy", "poddisruptionbudgets");
    let all = store.all(&budgets).map(Arc::as_ref);
    all.filter_map(|budget| status_update(&budgets, budget, status(store, budget, now))).collect()
}

fn status(store: &Store, budget: &Value, now: Timestamp) -> Value {
    let resource = GroupResource::core("pods");
    let selector = LabelSelector::from_object(&budget["spec"]["selector"]);
    let pods: Vec<&Value> = store
        .all(&resource)
        .map(Arc::as_ref)
        .filter(|pod: &&Value| namespace(pod) == namespace(budget))
        .filter(|pod| selector.as_ref().is_some_and(|it| it.matches(pod)))
        .collect();
    let exists = |gone: &str| pods.iter().any(|pod| name(pod) == gone && !is_terminating(pod));
    let disrupted: Map<String, Value> = map(budget, "/status/disruptedPods")
        .into_iter()
        .flatten()
        .filter(|(pod, _)| exists(pod))
        .map(|(pod, since)| (pod.clone(), since.clone()))
        .collect();
    let is_healthy = |pod: &&&Value| {
        !is_terminating(pod) && !disrupted.contains_key(name(pod)) && has_condition(pod, "Ready")
    };
    let n_healthy = i64::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i64::MAX);
    let (n_expected, n_desired) = expected(store, budget, &pods);
    let allowed = if n_expected > 0 { (n_healthy - n_desired).max(0) } else { 0 };
    let mut conditions = list(budget, "/status/conditions").to_vec();
    let (is_so, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    set_condition(
        &mut conditions,
        json!({
            "type": "DisruptionAllowed", "status": is_so, "observedGeneration": generation(budget),
            "lastTransitionTime": seconds(now), "reason": reason, "message": "",
        }),
    );
    let mut status = json!({
        "observedGeneration": generation(budget), "disruptionsAllowed": allowed,
        "currentHealthy": n_healthy, "desiredHealthy": n_desired, "expectedPods": n_expected,
        "conditions": conditions,
    });
    if !disrupted.is_empty() {
        status["disruptedPods"] = disrupted.into();
    }
    status
}

/// Numbers of the pods that should exist and of those that must stay healthy.
fn expected(store: &Store, budget: &Value, pods: &[&Value]) -> (i64, i64) {
    let spec = &budget["spec"];
    let scale = || scale_of_owners(store, pods);
    match (&spec["maxUnavailable"], &spec["minAvailable"]) {
        (Value::Null, Value::Number(least)) => {
            let n_pods = i64::try_from(pods.len()).unwrap_or(i64::MAX);
            (n_pods, least.as_i64().unwrap_or_default())
        }
        (Value::Null, least) => {
            let n = scale();
            (n, scaled(least, n))
        }
        (most, _) => {
            let n = scale();
            (n, (n - scaled(most, n)).max(0))
        }
    }
}

/// A number, or a share of `n` in percent, rounded up.
fn scaled(value: &Value, n: i64) -> i64 {
    let percent = value.as_str().and_then(|it| it.strip_suffix('%')?.parse::<i64>().ok());
    match percent {
        Some(percent) => (n * percent + 99) / 100,
        None => value.as_i64().unwrap_or_default(),
    }
}

/// Sum of the replicas of the controllers that own the pods, each counted once.
fn scale_of_owners(store: &Store, pods: &[&Value]) -> i64 {
    let controllers = pods.iter().filter_map(|pod| scaled_controller(store, pod));
    let scale = |it: &Value| number(it, "/spec/replicas").unwrap_or_default();
    let scales: BTreeMap<&str, i64> = controllers.map(|it| (uid(it), scale(it))).collect();
    scales.values().sum()
}

/// The object that scales a pod: the Deployment of its ReplicaSet, else its controller.
fn scaled_controller<'a>(store: &'a Store, pod: &Value) -> Option<&'a Value> {
    let controller = controller(store, pod)?;
    let is_of_deployment = owner(controller).is_some_and(|it| it["kind"] == "Deployment");
    let above = is_of_deployment.then(|| self::controller(store, controller)).flatten();
    above.or(Some(controller))
}

/// The object that controls an object, if it has a scale and exists.
fn controller<'a>(store: &'a Store, object: &Value) -> Option<&'a Value> {
    let owner = owner(object)?;
    let resource = match text(owner, "/kind") {
        "Deployment" => GroupResource::of("apps", "deployments"),
        "ReplicaSet" => GroupResource::of("apps", "replicasets"),
        "StatefulSet" => GroupResource::of("apps", "statefulsets"),
        "ReplicationController" => GroupResource::core("replicationcontrollers"),
        _ => return None,
    };
    let found = store.get(&Key::new(resource, namespace(object), text(owner, "/name")))?;
    (owner["uid"] == uid(found)).then_some(found)
}

/// The owner reference of the controller of an object.
fn owner(object: &Value) -> Option<&Value> {
    list(object, "/metadata/ownerReferences").iter().find(|it| it["controller"] == true)
}
