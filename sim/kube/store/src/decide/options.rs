//! Options of deletions.
//!
//! Checks follow `apimachinery: pkg/apis/meta/v1/validation`.

use serde_json::Value;

use crate::object::fields;
use crate::{Deletion, FieldErrors, Preconditions, Propagation, Status};

/// Options of a deletion, as clients give them in a `DeleteOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeleteOptions {
    /// Conditions that the object must meet.
    pub preconditions: Preconditions,
    /// Propagation and grace period.
    pub how: Deletion,
    /// True if the request only asks for the answer.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Reads and checks the fields of a `DeleteOptions`, whose types the caller has checked. Null
    /// has no options.
    ///
    /// # Errors
    /// 422 for invalid options.
    pub fn read(given: &Value) -> Result<Self, Status> {
        let text = |pointer| given.pointer(pointer).and_then(Value::as_str);
        let mut errors = FieldErrors::default();
        let policy = text("/propagationPolicy");
        let orphans = given.get("orphanDependents").and_then(Value::as_bool);
        if let (Some(policy), Some(_)) = (policy, orphans) {
            errors.invalid(
                "propagationPolicy",
                &policy.into(),
                "orphanDependents and deletionPropagation cannot be both set",
            );
        }
        let policies = ["Foreground", "Background", "Orphan", "nil"];
        if let Some(policy) = policy.filter(|it| !policies[..3].contains(it)) {
            errors.not_supported("propagationPolicy", policy, &policies);
        }
        let dry_runs: Vec<&str> =
            fields::list(given, "/dryRun").iter().filter_map(Value::as_str).collect();
        if dry_runs.iter().any(|it| *it != "All") {
            errors.none_supported("dryRun", &dry_runs, &["All"]);
        }
        if !errors.is_empty() {
            return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", errors));
        }
        let propagation = match (policy, orphans) {
            (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some(_), _) | (None, Some(false)) => Some(Propagation::Background),
            (None, None) => None,
        };
        let preconditions = Preconditions {
            uid: text("/preconditions/uid").map(str::to_owned),
            resource_version: text("/preconditions/resourceVersion").map(str::to_owned),
        };
        let grace_seconds = given.get("gracePeriodSeconds").and_then(Value::as_i64);
        let how = Deletion { propagation, grace_seconds };
        Ok(Self { preconditions, how, dry_run: !dry_runs.is_empty() })
    }
}
