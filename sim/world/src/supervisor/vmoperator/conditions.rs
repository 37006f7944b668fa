//! Conditions of a VirtualMachine: the prerequisites of its machine, and the state of the machine.

use serde_json::{Map, Value, json};

/// The condition types of the prerequisites, in the order in which VM Operator checks them. It
/// stops at the first prerequisite that is not met.
const ORDER: [&str; 6] = [
    "VirtualMachineClassReady",
    "VirtualMachineImageReady",
    "VirtualMachineConditionVMSetResourcePolicyReady",
    "VirtualMachineBootstrapReady",
    "VirtualMachineStorageReady",
    "VirtualMachineConditionPlacementReady",
];

/// Results of the checks of a VirtualMachine's prerequisites.
pub(crate) struct Prerequisites {
    /// The condition type and the result of each check that applies, in order.
    pub(crate) all: Vec<(&'static str, Result<(), Missing>)>,
}

/// The reason why a prerequisite is not met.
pub(crate) struct Missing {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Prerequisites {
    /// True if all prerequisites are met, so that VM Operator can create the machine.
    pub(crate) fn are_met(&self) -> bool {
        self.all.iter().all(|(_, met)| met.is_ok())
    }

    /// The conditions to report: all up to and including the first that is not met.
    pub(super) fn conditions(&self) -> impl Iterator<Item = Condition> + '_ {
        debug_assert!(
            self.all.iter().all(|(name, _)| ORDER.contains(name)),
            "a prerequisite has an unknown condition type"
        );
        let n_met = self.all.iter().take_while(|(_, met)| met.is_ok()).count();
        self.all.iter().take(n_met + 1).map(|(kind, met)| match met {
            Ok(()) => Condition::met(kind),
            Err(Missing { reason, message }) => Condition::unmet(kind, reason, message),
        })
    }
}

/// True if the status has at least one condition of a prerequisite, and all of them are met.
pub(super) fn are_met(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let told = || {
        let all = conditions.into_iter().flatten();
        all.filter(|it| it["type"].as_str().is_some_and(|kind| ORDER.contains(&kind)))
    };
    told().next().is_some() && told().all(|it| it["status"] == "True")
}

/// A condition that the status should have.
pub(super) struct Condition {
    kind: &'static str,
    is_met: bool,
    reason: String,
    message: String,
}

impl Condition {
    pub(super) fn met(kind: &'static str) -> Self {
        Self { kind, is_met: true, reason: "True".into(), message: String::new() }
    }

    pub(super) fn unmet(kind: &'static str, reason: &str, message: &str) -> Self {
        Self { kind, is_met: false, reason: reason.into(), message: message.into() }
    }

    /// Returns the condition with another reason.
    pub(super) fn with_reason(self, reason: &str) -> Self {
        Self { reason: reason.into(), ..self }
    }

    fn write(&self, before: &Value, now: &str) -> Value {
        let status = if self.is_met { "True" } else { "False" };
        let since = match before["status"] == status {
            true => before["lastTransitionTime"].clone(),
            false => now.into(),
        };
        let mut out = Map::new();
        out.insert("lastTransitionTime".into(), since);
        out.insert("message".into(), self.message.as_str().into());
        out.insert("reason".into(), self.reason.as_str().into());
        out.insert("status".into(), status.into());
        out.insert("type".into(), self.kind.into());
        out.into()
    }
}

/// Returns all conditions of a status, sorted by type as VM Operator keeps them: the `wanted` ones,
/// and those in `before` that have other types. A condition keeps its transition time if its status
/// does not change.
pub(super) fn write(before: &Value, wanted: &[Condition], now: &str) -> Value {
    let known = |kind: &str| {
        let mut all = before.as_array().into_iter().flatten();
        all.find(|it| it["type"] == kind).cloned().unwrap_or_default()
    };
    let mut all: Vec<Value> =
        wanted.iter().map(|condition| condition.write(&known(condition.kind), now)).collect();
    // Conditions of other types stay.
    let others = before.as_array().into_iter().flatten();
    all.extend(others.filter(|it| !wanted.iter().any(|mine| it["type"] == mine.kind)).cloned());
    all.sort_by(|a, b| a["type"].as_str().cmp(&b["type"].as_str()));
    json!(all)
}
