//! The subresource `eviction` of pods: a deletion that respects the disruption budgets.
//!
//! Follows `kubernetes: pkg/registry/core/pod/storage/eviction.go`. The store counts an eviction in
//! the status of the budget, and a controller computes the rest of that status.

use std::sync::Arc;

use serde_json::{Value, json};

use super::create::settle_namespace;
use super::delete::check_preconditions;
use super::{Request, body, pods, seconds};
use crate::object::{fields, meta};
use crate::{
    Cause, Decision, DeleteOptions, Details, Effect, Event, GroupResource, Key, LabelSelector, Op,
    Reply, Status, Store,
};

const VIOLATION: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const SEVERAL: &str = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
/// Versions of an eviction. A Cluster Autoscaler sends the older one, which has the same fields.
const VERSIONS: [&str; 2] = ["policy/v1", "policy/v1beta1"];
/// Maximum number of evicted pods that a budget may list.
const MAX_DISRUPTED: usize = 2_000;

impl Store {
    /// Decides an eviction: marks the pod, counts it in its budget, and deletes it.
    ///
    /// # Errors
    /// 400 for an unreadable body or another name or namespace in it, 404 if the pod does not
    /// exist, 409 for unmet preconditions, 422 for invalid options, 429 if the budget does not allow
    /// an eviction now, 500 if the pod has several budgets, or the failure of a deletion.
    pub(super) fn evict(&self, request: Request<'_>, eviction: Value) -> Result<Decision, Status> {
        let body::Body { mut object, warnings } =
            body::read_part(&request, eviction, &VERSIONS, "Eviction")?;
        settle_namespace(&request.key, &mut object)?;
        if meta::text(&object, "name") != request.key.name {
            let why = "name in URL does not match name in Eviction object";
            return Err(Status::bad_request(why));
        }
        let options = DeleteOptions::read(&object["deleteOptions"])?;
        let pod = self.get(&request.key);
        let pod = pod.ok_or_else(|| Status::not_found(&request.def.id, &request.key.name))?;
        let budget = if ignores_budgets(pod) { None } else { self.budget_of(pod)? };
        let mut events = Vec::new();
        if let Some((key, budget)) = budget
            && !spares_budget(pod, budget)
        {
            let counted = count(budget, pod, seconds(request.now))?;
            events.extend(self.change(key, Op::Modified, Effect::Updated, counted).events);
        }
        check_preconditions(&request, &options.preconditions, pod)?;
        if request.dry_run || options.dry_run {
            return Ok(Decision { events: Vec::new(), reply: success(warnings) });
        }
        let mut pod = pod.clone();
        if let Some(marked) = marked(&request, &pod) {
            let key = request.key.clone();
            events.extend(self.change(key, Op::Modified, Effect::Updated, marked).events);
            self.number(&mut events);
            pod = events.last().map_or(pod, |event| event.object.clone());
        }
        events.extend(self.delete_object(&request, &pod, &options.how).events);
        self.number(&mut events);
        Ok(Decision { events, reply: success(warnings) })
    }

    /// Gives the events the next revisions, one after the other.
    fn number(&self, events: &mut [Event]) {
        for (event, revision) in events.iter_mut().zip(self.revision + 1..) {
            event.revision = revision;
            meta::set_revision(Arc::make_mut(&mut event.object), revision);
        }
    }

    /// Finds the budget of a pod, with its key; `None` if the pod has none.
    ///
    /// # Errors
    /// 500 if the pod has several budgets.
    fn budget_of(&self, pod: &Value) -> Result<Option<(Key, &Arc<Value>)>, Status> {
        let budgets = GroupResource::of("policy", "poddisruptionbudgets");
        let namespace = meta::text(pod, "namespace");
        let is_ours = |budget: &&Arc<Value>| {
            let selector = LabelSelector::from_object(&budget["spec"]["selector"]);
            meta::text(budget, "namespace") == namespace
                && selector.is_some_and(|it| it.matches(pod))
        };
        let found: Vec<&Arc<Value>> = self.all(&budgets).filter(is_ours).collect();
        match found.as_slice() {
            [] => Ok(None),
            [one] => {
                let key = Key::new(budgets.clone(), namespace, meta::text(one, "name"));
                Ok(Some((key, one)))
            }
            _ => Err(Status::new(500, "", SEVERAL)),
        }
    }
}

/// Returns the pod with the condition that names its eviction; `None` if it has the condition.
fn marked(request: &Request<'_>, pod: &Value) -> Option<Value> {
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": seconds(request.now),
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
    });
    let mut marked = pod.clone();
    if !pods::set_condition(&mut marked, condition) {
        return None;
    }
    body::reorder(request.def, &mut marked);
    Some(marked)
}

/// True if the eviction of a pod disrupts nothing, because the pod does not run or ends already.
fn ignores_budgets(pod: &Value) -> bool {
    matches!(fields::text(pod, "/status/phase"), "Succeeded" | "Failed" | "Pending")
        || meta::is_terminating(pod)
}

/// True if the eviction of a pod that is not ready may leave the budget as it is.
fn spares_budget(pod: &Value, budget: &Value) -> bool {
    let status = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
    let is_healthy = status("currentHealthy") >= status("desiredHealthy");
    !pods::is_ready(pod)
        && (budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
            || is_healthy && status("desiredHealthy") > 0)
}

/// Returns the budget with one eviction less, that of `pod` at `now`.
///
/// # Errors
/// 429 if the budget allows no eviction, 403 if its status makes no sense.
fn count(budget: &Value, pod: &Value, now: Value) -> Result<Value, Status> {
    let (name, status) = (meta::text(budget, "name"), &budget["status"]);
    let number = |field: &str| status[field].as_i64().unwrap_or_default();
    let generation = budget["metadata"]["generation"].as_i64().unwrap_or_default();
    if number("observedGeneration") < generation {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(too_many(10, why));
    }
    let refused = |why: &str| {
        let resource = GroupResource::of("policy", "poddisruptionbudget");
        Err(Status::forbidden(&resource, name, why))
    };
    let n_disrupted = fields::map(status, "/disruptedPods").map_or(0, serde_json::Map::len);
    match number("disruptionsAllowed") {
        ..0 => return refused("pdb disruptions allowed is negative"),
        _ if n_disrupted > MAX_DISRUPTED => {
            return refused(
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            );
        }
        0 => return Err(too_many(0, exhausted(budget))),
        _ => {}
    }
    let mut counted = budget.clone();
    let status = fields::map_mut(&mut counted, "status");
    let left = number("disruptionsAllowed") - 1;
    status.insert("disruptionsAllowed".into(), left.into());
    let disrupted = fields::as_map(status.entry("disruptedPods").or_insert(Value::Null));
    disrupted.insert(meta::text(pod, "name").into(), now.clone());
    if left == 0 {
        pods::set_condition(
            &mut counted,
            json!({
                "type": "DisruptionAllowed", "status": "False", "observedGeneration": number("observedGeneration"),
                "lastTransitionTime": now, "reason": "InsufficientPods", "message": "",
            }),
        );
    }
    Ok(counted)
}

/// Returns the reason why a budget allows no eviction.
fn exhausted(budget: &Value) -> String {
    let (name, status) = (meta::text(budget, "name"), &budget["status"]);
    let number = |field: &str| status[field].as_i64().unwrap_or_default();
    let is_it = |it: &&Value| it["type"] == "DisruptionAllowed" && it["status"] == "False";
    let condition = fields::list(status, "/conditions").iter().find(is_it);
    let text = |field: &str| condition.and_then(|it| it[field].as_str()).unwrap_or_default();
    let (reason, message) = (text("reason"), text("message"));
    let (desired, current) = (number("desiredHealthy"), number("currentHealthy"));
    match () {
        () if reason == "SyncFailed" && !message.is_empty() => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        ),
        () if current <= desired => format!(
            "The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        ),
        () if !message.is_empty() => format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
        ),
        () => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

fn too_many(retry_after_seconds: u32, why: String) -> Status {
    let cause = Cause { reason: "DisruptionBudget".into(), message: why, field: String::new() };
    let details = Details { causes: vec![cause], retry_after_seconds, ..Details::default() };
    let status = Status::new(429, "TooManyRequests", VIOLATION);
    Status { details: Some(Box::new(details)), ..status }
}

/// The answer to a request that made nothing that has a body of its own.
pub(super) fn success(warnings: Vec<String>) -> Reply {
    let object = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    Reply { object: Arc::new(object), effect: Effect::Created, warnings }
}
