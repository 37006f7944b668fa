//! `poddisruptionbudgets.policy`: the number of pods that evictions must leave.
//!
//! The store keeps the budgets and lets evictions use them up; the world computes their status.

use serde_json::{Value, json};

use super::checks;
use crate::object::fields;
use crate::selector::validate_label_selector;
use crate::{Check, FieldErrors, ResourceDef, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        short_names: &["pdb"],
        status: true,
        strategy: Strategy {
            generation: true,
            unconditional_update: false,
            begin: |budget| {
                let status = json!({
                    "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
                });
                checks::reset_status(budget, status);
            },
            validate,
            validate_status: |budget, _, errors| {
                const COUNTS: [&str; 4] = [
                    "status.disruptionsAllowed",
                    "status.currentHealthy",
                    "status.desiredHealthy",
                    "status.expectedPods",
                ];
                checks::nonnegative(budget, &COUNTS, errors);
            },
            checks: &[Check::Whole],
            status_checks: &[Check::Status],
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("policy", "poddisruptionbudgets", "PodDisruptionBudget")
    }
}

/// Follows `kubernetes: pkg/apis/policy/validation/validation.go`.
fn validate(budget: &Value, errors: &mut FieldErrors) {
    const POLICIES: [&str; 2] = ["AlwaysAllow", "IfHealthyBudget"];
    let spec = &budget["spec"];
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        // The real server prints the names of its internal fields.
        let shown = json!({
            "MinAvailable": spec["minAvailable"], "Selector": spec["selector"],
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec["unhealthyPodEvictionPolicy"],
        });
        errors.invalid("spec", &shown, "minAvailable and maxUnavailable cannot be both set");
    }
    for field in ["minAvailable", "maxUnavailable"] {
        if !spec[field].is_null() {
            let path = format!("spec.{field}");
            checks::int_or_percent(&spec[field], &path, errors);
            checks::at_most_all(&spec[field], &path, errors);
        }
    }
    validate_label_selector(&spec["selector"], "spec.selector", errors);
    let policy = fields::text(spec, "/unhealthyPodEvictionPolicy");
    if spec["unhealthyPodEvictionPolicy"].is_string() && !POLICIES.contains(&policy) {
        errors.not_supported("spec.unhealthyPodEvictionPolicy", policy, &POLICIES);
    }
}
