//! `replicationcontrollers`: the older form of ReplicaSets. Nothing makes pods of them.

use serde_json::{Value, json};

use super::pods::template;
use crate::object::fields;
use crate::resources::checks;
use crate::{Check, FieldErrors, LabelSelector, ResourceDef, SelectableField, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        short_names: &["rc"],
        categories: &["all"],
        status: true,
        scales: true,
        registry: "controllers".into(),
        selectable: const {
            &[SelectableField {
                name: "status.replicas",
                pointer: "/status/replicas",
                default: "0",
            }]
        },
        strategy: Strategy {
            generation: true,
            default: Some(default),
            begin: |controller| checks::reset_status(controller, json!({"replicas": 0})),
            validate,
            validate_status: |controller, _, errors| {
                const COUNTS: [&str; 5] = [
                    "status.replicas",
                    "status.fullyLabeledReplicas",
                    "status.readyReplicas",
                    "status.availableReplicas",
                    "status.observedGeneration",
                ];
                checks::nonnegative(controller, &COUNTS, errors);
                let counts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
                checks::status_counts(controller, &counts, "readyReplicas", errors);
            },
            warn: checks::warn_about_name,
            repeats_warnings: false,
            checks: &[Check::MetadataChange, Check::Whole],
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("", "replicationcontrollers", "ReplicationController")
    }
}

fn default(controller: &mut Value) {
    let spec = fields::map_mut(controller, "spec");
    fields::default_to(spec, "replicas", 1);
    if !spec.get("template").is_some_and(Value::is_object) {
        return;
    }
    template::default(&mut controller["spec"], "template");
    let labels = controller["spec"]["template"]["metadata"]["labels"].clone();
    if !labels.is_object() {
        return;
    }
    let is_empty =
        |map: Option<&Value>| map.and_then(Value::as_object).is_none_or(serde_json::Map::is_empty);
    for place in ["metadata", "spec"] {
        let field = if place == "spec" { "selector" } else { "labels" };
        let map = fields::map_mut(controller, place);
        if is_empty(map.get(field)) {
            map.insert(field.into(), labels.clone());
        }
    }
}

/// Follows `kubernetes: pkg/apis/core/validation/validation.go`,
/// `ValidateReplicationControllerSpec`.
fn validate(controller: &Value, errors: &mut FieldErrors) {
    let (spec, template) = (&controller["spec"], &controller["spec"]["template"]);
    checks::nonnegative(controller, &["spec.minReadySeconds"], errors);
    let selector = LabelSelector::from_labels(&spec["selector"]);
    if selector.is_empty() {
        errors.required("spec.selector", "");
    }
    checks::nonnegative(controller, &["spec.replicas"], errors);
    if template.is_null() {
        return errors.required("spec.template", "");
    }
    if !selector.is_empty() {
        template::validate_labels(template, &selector, "spec.template", errors);
    }
    template::validate(template, "spec.template", errors);
    template::validate_endless(template, "spec.template", "ReplicationController", errors);
}
