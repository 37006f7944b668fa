//! The workload cluster's scheduler, the controllers of its workloads, and the pods on its Nodes.
//!
//! The functions are pure: from the objects and the time they return the requests that these
//! components would send. `act/workloads.rs` decides when to call them. Each of [`STAGES`] looks at
//! the objects as the stages before it left them, so that one pass settles most changes.
//!
//! The parts are as large as workloads need that an autoscaler moves. Left out are preemption,
//! scores other than free room, Indexed Jobs, the clean-up of finished Jobs, StatefulSets and
//! ReplicationControllers, and evictions by taints.

mod affinity;
mod budgets;
mod daemons;
mod deployments;
mod fit;
pub(crate) mod garbage;
mod jobs;
mod owned;
mod pods;
mod replicas;
mod schedule;
mod taints;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use pods::{complete, due, start, stop};

use crate::objects::{Command, GroupResource, Key, Store};
use crate::reactions::{Reaction, Step};

/// State of the scheduler and the controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Workloads {
    /// True if the scheduler, the controllers and the pods run.
    pub run: bool,
    /// True if a pass is in the queue of reactions.
    pub(crate) is_due: bool,
    /// The step of each pod that is in the queue of reactions, by the uid of the pod.
    pub(crate) pods: BTreeMap<String, Step>,
    /// Names of the Nodes whose pods a look in the queue of reactions will remove.
    pub(crate) missing_nodes: BTreeSet<String>,
}

impl Workloads {
    /// Notes a reaction that was put into the queue.
    pub(crate) fn record_pending(&mut self, reaction: &Reaction) {
        match reaction {
            Reaction::Workloads => self.is_due = true,
            Reaction::Pod { uid, step, .. } => {
                self.pods.insert(uid.clone(), *step);
            }
            Reaction::NodeMissing { node } => {
                self.missing_nodes.insert(node.clone());
            }
            _ => {}
        }
    }

    /// Notes that a reaction has left the queue.
    pub(crate) fn clear_pending(&mut self, reaction: &Reaction) {
        match reaction {
            Reaction::Workloads => self.is_due = false,
            Reaction::Pod { uid, step, .. } if self.pods.get(uid) == Some(step) => {
                self.pods.remove(uid);
            }
            Reaction::NodeMissing { node } => {
                self.missing_nodes.remove(node);
            }
            _ => {}
        }
    }

    /// True for a world in which nothing of this has ever run.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A component: returns the requests that it sends about the objects at this time.
type Stage = fn(&Store, Timestamp) -> Vec<Command>;

/// The components, in the order of one pass. Owners come before what they own.
pub(crate) const STAGES: [Stage; 7] = [
    garbage::collect,
    deployments::settle,
    replicas::settle,
    daemons::settle,
    jobs::settle,
    schedule::place,
    budgets::settle,
];

/// True if a change of an object of this resource may concern one of the components.
pub(crate) fn concerns(resource: &GroupResource) -> bool {
    matches!(
        (resource.group.as_ref(), resource.resource.as_ref()),
        ("", "pods" | "nodes")
            | ("apps", "deployments" | "replicasets" | "daemonsets")
            | ("batch", "jobs")
            | ("policy", "poddisruptionbudgets")
    )
}

// Access to the fields of objects, for the modules below.

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn map<'a>(object: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    object.pointer(pointer).and_then(Value::as_object)
}

fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn key_of(resource: impl Into<GroupResource>, object: &Value) -> Key {
    Key::new(resource, namespace(object), name(object))
}

fn seconds(now: Timestamp) -> Value {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string().into()
}

/// True if the object has a condition of this type that is true.
fn has_condition(object: &Value, kind: &str) -> bool {
    let is_it = |it: &Value| it["type"] == kind && it["status"] == "True";
    list(object, "/status/conditions").iter().any(is_it)
}

/// Sets a condition in a list. A condition whose status stays keeps its `lastTransitionTime`, and
/// one that stays as a whole keeps every time.
fn set_condition(conditions: &mut Vec<Value>, mut condition: Value) {
    const TIMES: [&str; 3] = ["lastTransitionTime", "lastUpdateTime", "lastProbeTime"];
    let Some(before) = conditions.iter_mut().find(|it| it["type"] == condition["type"]) else {
        return conditions.push(condition);
    };
    let said = |it: &Value| (it["reason"].clone(), it["message"].clone());
    let is_same = before["status"] == condition["status"];
    for time in TIMES {
        let is_kept = is_same && (time == "lastTransitionTime" || said(before) == said(&condition));
        if is_kept && !before[time].is_null() {
            condition[time] = before[time].clone();
        }
    }
    *before = condition;
}

/// Returns the request that sets the status of an object; `None` if the status stays.
fn status_update(resource: &GroupResource, object: &Value, status: Value) -> Option<Command> {
    if object["status"] == status {
        return None;
    }
    let mut changed = object.clone();
    changed["status"] = status;
    Some(Command::update(key_of(resource.clone(), object), changed).on_status())
}

/// Adds a count to a status, unless it is zero, which Go leaves out.
fn count(status: &mut Map<String, Value>, field: &str, n: usize) {
    if n > 0 {
        status.insert(field.into(), n.into());
    }
}
