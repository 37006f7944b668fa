//! The status of a NodeGroup, which says what the server decided and how large the group is. Pure.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::decide::{Decision, Verdict};

/// Type of the condition.
const ACCEPTED: &str = "Accepted";

/// Size of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    /// Wanted number of machines.
    pub(super) target: usize,
    /// Number of machines that have run and are not being deleted.
    pub(super) machines: usize,
}

fn condition(status: &Value) -> Option<&Value> {
    status["conditions"].as_array()?.iter().find(|it| it["type"] == ACCEPTED)
}

/// Returns status, reason and message of the condition.
fn texts(verdict: &Verdict) -> (&'static str, &'static str, String) {
    match verdict {
        Verdict::Accepted(group) => ("True", "Accepted", format!("The server scales {}", group.id)),
        Verdict::Refused { reason, message } => ("False", reason.as_str(), message.clone()),
    }
}

/// True if the status says that the object is a group.
pub(super) fn is_accepted(status: &Value) -> bool {
    condition(status).is_some_and(|it| it["status"] == "True")
}

/// True if the status already has this verdict.
pub(super) fn has_condition(status: &Value, verdict: &Verdict) -> bool {
    let (is, reason, message) = texts(verdict);
    condition(status)
        .is_some_and(|it| it["status"] == is && it["reason"] == reason && it["message"] == message)
}

/// Returns the merge patch of the status after which it says `decision` and `size`; `None` if the
/// status does already. Without `size`, which is not known before the first view of the machines,
/// the sizes stay as they are.
pub(super) fn patch(
    status: &Value,
    decision: &Decision,
    size: Option<Size>,
    now: Timestamp,
) -> Option<Value> {
    let mut wanted = Map::new();
    wanted.insert("observedGeneration".to_owned(), decision.generation.into());
    match decision.verdict.group() {
        Some(group) => {
            wanted.insert("id".to_owned(), group.id.as_str().into());
            if let Some(size) = size {
                wanted.insert("targetSize".to_owned(), size.target.into());
                wanted.insert("machines".to_owned(), size.machines.into());
            }
        }
        None => {
            for key in ["id", "targetSize", "machines"] {
                wanted.insert(key.to_owned(), Value::Null);
            }
        }
    }
    let is_current = |it: &Value| it["observedGeneration"] == decision.generation;
    let is_kept =
        has_condition(status, &decision.verdict) && condition(status).is_some_and(is_current);
    wanted.retain(|key, value| status.get(&**key).unwrap_or(&Value::Null) != value);
    if !is_kept {
        wanted.insert("conditions".to_owned(), conditions(status, decision, now));
    }
    (!wanted.is_empty()).then_some(Value::Object(wanted))
}

/// Returns the conditions with that of the server. Those of others stay. The time of the transition
/// changes only with the status of the condition.
fn conditions(status: &Value, decision: &Decision, now: Timestamp) -> Value {
    let (is, reason, message) = texts(&decision.verdict);
    let before = condition(status).filter(|it| it["status"] == is);
    let since = before.map(|it| it["lastTransitionTime"].clone()).filter(Value::is_string);
    let since = since.unwrap_or_else(|| now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into());
    let ours = json!({
        "type": ACCEPTED, "status": is, "reason": reason, "message": message,
        "observedGeneration": decision.generation, "lastTransitionTime": since,
    });
    let others = status["conditions"].as_array().into_iter().flatten();
    let others = others.filter(|it| it["type"] != ACCEPTED).cloned();
    others.chain([ours]).collect()
}

#[cfg(test)]
mod tests;
