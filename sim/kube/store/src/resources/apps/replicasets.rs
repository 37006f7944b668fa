//! `replicasets.apps`: a number of pods of one template.
//!
//! The store keeps ReplicaSets; the world makes pods of them.

use serde_json::{Value, json};

use crate::object::fields;
use crate::resources::checks;
use crate::resources::core::pods::template;
use crate::{Check, FieldErrors, ResourceDef, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        short_names: &["rs"],
        categories: &["all"],
        status: true,
        scales: true,
        strategy: Strategy {
            generation: true,
            default: Some(|set| {
                fields::default_to(fields::map_mut(set, "spec"), "replicas", 1);
                template::default(&mut set["spec"], "template");
            }),
            begin: |set| checks::reset_status(set, json!({"replicas": 0})),
            validate: |set, errors| {
                checks::nonnegative(set, &["spec.replicas", "spec.minReadySeconds"], errors);
                // The real server names the Deployment here, too.
                checks::selector_and_template(set, "deployment", "ReplicaSet", errors);
            },
            validate_update: |new, old, errors| {
                let (new, old) = (&new["spec"]["selector"], &old["spec"]["selector"]);
                checks::immutable(new, old, "spec.selector", errors);
            },
            validate_status: |set, _, errors| validate_status(set, errors),
            warn: checks::warn_about_name,
            repeats_warnings: false,
            checks: &[Check::MetadataChange, Check::Whole, Check::Change],
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("apps", "replicasets", "ReplicaSet")
    }
}

fn validate_status(set: &Value, errors: &mut FieldErrors) {
    const COUNTS: [&str; 6] = [
        "status.replicas",
        "status.fullyLabeledReplicas",
        "status.readyReplicas",
        "status.availableReplicas",
        "status.observedGeneration",
        "status.terminatingReplicas",
    ];
    checks::nonnegative(set, &COUNTS, errors);
    let counts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    checks::status_counts(set, &counts, "readyReplicas", errors);
}
