//! `daemonsets.apps`: one pod of a template on each Node.
//!
//! The store keeps DaemonSets; the world makes pods of them.

use serde_json::{Value, json};

use crate::object::fields;
use crate::resources::checks;
use crate::resources::core::pods::template;
use crate::selector::validate_label_selector;
use crate::{Check, FieldErrors, LabelSelector, ResourceDef, Strategy};

/// Annotation in which `apps/v1` shows `spec.templateGeneration` of the internal type.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        short_names: &["ds"],
        categories: &["all"],
        status: true,
        strategy: Strategy {
            generation: true,
            default: Some(default),
            begin: |set| {
                note_template_generation(set, template_generation(set).max(1));
                let zero = [
                    "currentNumberScheduled",
                    "numberMisscheduled",
                    "desiredNumberScheduled",
                    "numberReady",
                ];
                let status = zero.into_iter().map(|field| (field.to_owned(), 0.into()));
                checks::reset_status(set, Value::Object(status.collect()));
            },
            carry_over: |old, new| {
                let before = template_generation(old);
                let is_same = old["spec"]["template"] == new["spec"]["template"];
                note_template_generation(new, if is_same { before } else { before + 1 });
            },
            validate,
            validate_update: |new, old, errors| {
                let (new, old) = (&new["spec"]["selector"], &old["spec"]["selector"]);
                checks::immutable(new, old, "spec.selector", errors);
            },
            validate_status,
            checks: &[Check::MetadataChange, Check::Change, Check::Whole],
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("apps", "daemonsets", "DaemonSet")
    }
}

fn template_generation(set: &Value) -> i64 {
    let noted = set["metadata"]["annotations"][TEMPLATE_GENERATION].as_str();
    noted.and_then(|it| it.parse().ok()).unwrap_or_default()
}

fn note_template_generation(set: &mut Value, generation: i64) {
    let metadata = fields::map_mut(set, "metadata");
    let annotations = fields::as_map(metadata.entry("annotations").or_insert(json!({})));
    annotations.insert(TEMPLATE_GENERATION.into(), generation.to_string().into());
    annotations.sort_keys();
}

/// Follows `kubernetes: pkg/apis/apps/v1/defaults.go`, `SetDefaults_DaemonSet`.
fn default(set: &mut Value) {
    let spec = fields::map_mut(set, "spec");
    fields::default_to(spec, "revisionHistoryLimit", 10);
    let strategy = fields::as_map(spec.entry("updateStrategy").or_insert(Value::Null));
    fields::default_if_empty(strategy, "type", "RollingUpdate");
    if strategy.get("type") == Some(&"RollingUpdate".into()) {
        let rolling = fields::as_map(strategy.entry("rollingUpdate").or_insert(Value::Null));
        fields::default_to(rolling, "maxUnavailable", 1);
        fields::default_to(rolling, "maxSurge", 0);
    }
    template::default(&mut set["spec"], "template");
}

/// Follows `kubernetes: pkg/apis/apps/validation/validation.go`, `ValidateDaemonSetSpec`.
fn validate(set: &Value, errors: &mut FieldErrors) {
    let (spec, template) = (&set["spec"], &set["spec"]["template"]);
    let given = &spec["selector"];
    validate_label_selector(given, "spec.selector", errors);
    match LabelSelector::from_object(given) {
        Some(selector) => template::validate_labels(template, &selector, "spec.template", errors),
        None if given.is_null() => template::refuse_labels(template, "spec.template", errors),
        None => {}
    }
    if !given.is_null() && checks::is_empty(given) {
        errors.invalid("spec.selector", given, "empty selector is invalid for daemonset");
    }
    template::validate(template, "spec.template", errors);
    template::validate_endless(template, "spec.template", "DaemonSet", errors);
    checks::nonnegative(set, &["spec.minReadySeconds"], errors);
    validate_strategy(&spec["updateStrategy"], errors);
    checks::nonnegative(set, &["spec.revisionHistoryLimit"], errors);
}

fn validate_strategy(strategy: &Value, errors: &mut FieldErrors) {
    const FIELD: &str = "spec.updateStrategy.rollingUpdate";
    let rolling = &strategy["rollingUpdate"];
    match fields::text(strategy, "/type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            let paths = [format!("{FIELD}.maxUnavailable"), format!("{FIELD}.maxSurge")];
            let n_unavailable = checks::int_or_percent(unavailable, &paths[0], errors);
            let n_surge = checks::int_or_percent(surge, &paths[1], errors);
            checks::at_most_all(unavailable, &paths[0], errors);
            checks::at_most_all(surge, &paths[1], errors);
            if n_unavailable != 0 && n_surge != 0 {
                let why = "may not be set when maxUnavailable is non-zero";
                errors.invalid(&*paths[1], surge, why);
            } else if n_unavailable == 0 && n_surge == 0 {
                errors.required(&*paths[0], "cannot be 0 when maxSurge is 0");
            }
        }
        // The real server prints the strategy with the names of its internal fields.
        other => {
            let shown = json!({"Type": other, "RollingUpdate": rolling});
            let known = ["RollingUpdate", "OnDelete"].map(Value::from);
            errors.not_among("spec.updateStrategy", &shown, &known);
        }
    }
}

fn validate_status(new: &Value, old: &Value, errors: &mut FieldErrors) {
    const COUNTS: [&str; 9] = [
        "status.currentNumberScheduled",
        "status.numberMisscheduled",
        "status.desiredNumberScheduled",
        "status.numberReady",
        "status.observedGeneration",
        "status.updatedNumberScheduled",
        "status.numberAvailable",
        "status.numberUnavailable",
        "status.collisionCount",
    ];
    checks::nonnegative(new, &COUNTS, errors);
    checks::collisions(new, old, errors);
}
