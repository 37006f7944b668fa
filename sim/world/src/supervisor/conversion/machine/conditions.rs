//! Conversion of a machine's conditions: v1alpha1 has one condition for all prerequisites, and a
//! phase.

use serde_json::{Value, json};

use crate::supervisor::conversion::document::{Document, list, text, value_at};

const CONDITIONS: &str = "/status/conditions";

const PREREQUISITES: &str = "VirtualMachinePrereqReady";
const CLASS: &str = "VirtualMachineClassReady";
const IMAGE: &str = "VirtualMachineImageReady";
const POLICY: &str = "VirtualMachineConditionVMSetResourcePolicyReady";
const BOOTSTRAP: &str = "VirtualMachineBootstrapReady";

/// Reasons of v1alpha1 for a missing class; [`NO_IMAGE`] has those for a missing image.
const NO_CLASS: [&str; 2] = ["VirtualMachineClassNotFound", "VirtualMachineClassBindingNotFound"];
const NO_IMAGE: [&str; 4] = [
    "VirtualMachineImageNotFound",
    "VirtualMachineImageNotReady",
    "ContentSourceBindingNotFound",
    "ContentLibraryProviderNotFound",
];

/// The position of the last condition of a type; `None` if the list has none.
fn position(conditions: &[Value], of: &str) -> Option<usize> {
    conditions.iter().rposition(|it| text(it, "/type") == of)
}

fn status<'a>(conditions: &'a [Value], of: &str) -> Option<&'a str> {
    position(conditions, of).map(|at| text(&conditions[at], "/status"))
}

/// Converts from the hub to v1alpha1: derives the phase and the condition of the prerequisites from
/// the other conditions.
pub(super) fn merge_prerequisites(hub: &Value, spoke: &mut Document) {
    let mut conditions = list(hub, CONDITIONS).to_vec();
    let created = conditions.iter().find(|it| text(it, "/type") == "VirtualMachineCreated");
    spoke.put(
        "/status/phase",
        match created.map(|it| text(it, "/status")) {
            Some("True") => "Created",
            Some(_) => "Creating",
            None => "Unknown",
        },
    );
    if let Some(sum) = prerequisites(&conditions) {
        match position(&conditions, PREREQUISITES) {
            Some(at) => conditions[at] = sum,
            None => conditions.push(sum),
        }
    }
    spoke.put(CONDITIONS, conditions);
}

fn prerequisites(conditions: &[Value]) -> Option<Value> {
    let is_true = |of| status(conditions, of) == Some("True");
    let is_fine = |of| status(conditions, of).is_none_or(|status| status == "True");
    let since =
        |of| position(conditions, of).map(|at| conditions[at]["lastTransitionTime"].clone());
    if is_true(CLASS) && is_true(IMAGE) && is_fine(POLICY) && is_fine(BOOTSTRAP) {
        let since = since(PREREQUISITES).or_else(|| since(IMAGE));
        return Some(json!({"type": PREREQUISITES, "status": "True", "lastTransitionTime": since}));
    }
    let (of, reason) = [(CLASS, NO_CLASS[0]), (IMAGE, NO_IMAGE[0])]
        .into_iter()
        .find(|(of, _)| status(conditions, of) == Some("False"))?;
    let cause = &conditions[position(conditions, of)?];
    Some(json!({
        "type": PREREQUISITES,
        "status": "False",
        "severity": "Error",
        "lastTransitionTime": cause["lastTransitionTime"],
        "reason": reason,
        "message": text(cause, "/message"),
    }))
}

/// Converts from v1alpha1 to the hub, in which every condition has a reason. A condition without a
/// reason gets its status as the reason.
pub(super) fn up(hub: &mut Document) {
    for condition in hub.elements(CONDITIONS) {
        if text(condition, "/reason").is_empty() {
            condition["reason"] = condition["status"].clone();
        }
    }
}

/// Splits the combined condition of the prerequisites, for a v1alpha1 object without an annotation:
/// removes the combined condition, and adds conditions of the single prerequisites as far as they
/// are known. Adds none if at least one prerequisite already has its own condition. Changes nothing
/// in an object without the combined condition.
///
/// As VM Operator does, derives the new conditions from the condition after the removed one, or
/// from the removed one if it was the last.
pub(super) fn split_prerequisites(hub: &mut Document) {
    let mut conditions = list(&hub.0, CONDITIONS).to_vec();
    let Some(at) = position(&conditions, PREREQUISITES) else { return };
    let removed = conditions.remove(at);
    if [CLASS, IMAGE, POLICY, BOOTSTRAP].iter().all(|of| position(&conditions, of).is_none()) {
        // VM Operator's conversion reads the same position after the removal, so it reads the next
        // condition.
        let seen = conditions.get(at).unwrap_or(&removed).clone();
        let has_policy = !text(&hub.0, "/spec/reserved/resourcePolicyName").is_empty();
        let has_bootstrap = value_at(&hub.0, "/spec/bootstrap").is_some();
        conditions.extend(parts(&seen, has_policy, has_bootstrap));
    }
    hub.put(CONDITIONS, conditions);
}

fn parts(seen: &Value, has_policy: bool, has_bootstrap: bool) -> Vec<Value> {
    let reason = text(seen, "/reason");
    let part = |of: &str, status: &str, reason: &str| {
        let since = &seen["lastTransitionTime"];
        json!({"type": of, "status": status, "lastTransitionTime": since, "reason": reason})
    };
    let plain = |of: &str, status: &str| part(of, status, status);
    let (mut parts, rest) = match text(seen, "/status") {
        "True" => (vec![plain(CLASS, "True"), plain(IMAGE, "True")], "True"),
        "False" if NO_CLASS.contains(&reason) => {
            (vec![part(CLASS, "False", reason), plain(IMAGE, "Unknown")], "Unknown")
        }
        "False" if NO_IMAGE.contains(&reason) => {
            (vec![plain(CLASS, "True"), part(IMAGE, "False", reason)], "Unknown")
        }
        "False" => (Vec::new(), "Unknown"),
        _ => return Vec::new(),
    };
    if has_policy {
        parts.push(plain(POLICY, rest));
    }
    if has_bootstrap {
        parts.push(plain(BOOTSTRAP, rest));
    }
    parts
}
