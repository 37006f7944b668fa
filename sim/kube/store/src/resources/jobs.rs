//! `jobs.batch`: pods that run to their end.
//!
//! The store keeps Jobs; the world makes pods of Jobs whose pods are all alike. The store does not
//! check `podFailurePolicy`, `successPolicy` and `managedBy`, and refuses changes of the template
//! also for a suspended Job.

use serde_json::{Value, json};

use super::checks;
use super::core::pods::template;
use crate::object::fields;
use crate::selector::validate_label_selector;
use crate::{Check, FieldErrors, LabelSelector, ResourceDef, SelectableField, Strategy};

const LEGACY_UID: &str = "controller-uid";
const LEGACY_NAME: &str = "job-name";
const UID: &str = "batch.kubernetes.io/controller-uid";
const NAME: &str = "batch.kubernetes.io/job-name";

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        categories: &["all"],
        status: true,
        selectable: const {
            &[SelectableField {
                name: "status.successful",
                pointer: "/status/succeeded",
                default: "0",
            }]
        },
        strategy: Strategy {
            generation: true,
            default: Some(default),
            identify: Some(generate_selector),
            begin: checks::no_status,
            validate: |job, errors| {
                // A Job of an update has its uid, and a new one has the labels made of it.
                validate_generated_selector(job, errors);
                validate_spec(job, errors);
            },
            validate_update,
            validate_status: |job, _, errors| {
                const COUNTS: [&str; 4] =
                    ["status.active", "status.succeeded", "status.failed", "status.ready"];
                checks::nonnegative(job, &COUNTS, errors);
            },
            checks: &[Check::MetadataChange, Check::Whole, Check::Change],
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("batch", "jobs", "Job")
    }
}

/// Follows `kubernetes: pkg/apis/batch/v1/defaults.go`, `SetDefaults_Job`.
fn default(job: &mut Value) {
    let spec = fields::map_mut(job, "spec");
    let is_set = |spec: &serde_json::Map<String, Value>, field| {
        spec.get(field).is_some_and(|it: &Value| !it.is_null())
    };
    if !is_set(spec, "completions") && !is_set(spec, "parallelism") {
        spec.insert("completions".into(), 1.into());
    }
    fields::default_to(spec, "parallelism", 1);
    let limit = if is_set(spec, "backoffLimitPerIndex") { i32::MAX } else { 6 };
    fields::default_to(spec, "backoffLimit", limit);
    fields::default_to(spec, "completionMode", "NonIndexed");
    fields::default_to(spec, "suspend", false);
    let policy = if is_set(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    fields::default_to(spec, "podReplacementPolicy", policy);
    fields::default_to(spec, "manualSelector", false);
    template::default(&mut job["spec"], "template");
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    let metadata = fields::map_mut(job, "metadata");
    let has_labels =
        metadata.get("labels").and_then(Value::as_object).is_some_and(|it| !it.is_empty());
    if labels.is_object() && !has_labels {
        metadata.insert("labels".into(), labels);
    }
}

/// Selects the pods by the uid of their Job, unless the client brings a selector.
fn generate_selector(job: &mut Value, uid: &str) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let name = fields::text(job, "/metadata/name").to_owned();
    // In the real server, a Job that gets the labels of its template shares them with it.
    let is_shared = job["metadata"]["labels"].is_object()
        && job["metadata"]["labels"] == job["spec"]["template"]["metadata"]["labels"];
    let spec = fields::map_mut(job, "spec");
    let template = spec.entry("template").or_insert(Value::Null);
    let metadata = fields::map_mut(template, "metadata");
    let labels = fields::as_map(metadata.entry("labels").or_insert(json!({})));
    for (label, value) in [(LEGACY_NAME, &*name), (NAME, &*name), (LEGACY_UID, uid), (UID, uid)] {
        fields::default_to(labels, label, value);
    }
    labels.sort_keys();
    let labels = labels.clone();
    let selector = fields::as_map(spec.entry("selector").or_insert(Value::Null));
    let selected = fields::as_map(selector.entry("matchLabels").or_insert(Value::Null));
    fields::default_to(selected, UID, uid);
    selected.sort_keys();
    if is_shared {
        fields::map_mut(job, "metadata").insert("labels".into(), labels.into());
    }
}

/// Checks that the template has the labels that the API server generates, and that the selector
/// selects by them.
fn validate_generated_selector(job: &Value, errors: &mut FieldErrors) {
    let spec = &job["spec"];
    if spec["manualSelector"] == true || spec["selector"].is_null() {
        return;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    // A new Job has no uid yet; its template has it in one of the labels unless the client set
    // both.
    let uid = match fields::text(job, "/metadata/uid") {
        "" => labels[UID].as_str().unwrap_or_default(),
        uid => uid,
    };
    let name = fields::text(job, "/metadata/name");
    let expected = [(LEGACY_UID, uid), (LEGACY_NAME, name), (UID, uid), (NAME, name)];
    for (label, value) in expected {
        const FIELD: &str = "spec.template.metadata.labels";
        match labels[label].as_str() {
            Some(found) if found == value => {}
            Some(_) => {
                let why = format!("must be '{value}'");
                errors.invalid(FIELD, labels, &why);
            }
            None => errors.required(FIELD, &format!("must be '{value}'")),
        }
    }
    let labels: serde_json::Map<String, Value> =
        expected.iter().map(|(label, value)| ((*label).to_owned(), (*value).into())).collect();
    let selector = LabelSelector::from_object(&spec["selector"]);
    let generated = json!({"metadata": {"labels": labels}});
    if selector.is_some_and(|it| !it.matches(&generated)) {
        errors.invalid("spec.selector", &spec["selector"], "`selector` not auto-generated");
    }
}

/// Follows `kubernetes: pkg/apis/batch/validation/validation.go`, `ValidateJobSpec`.
fn validate_spec(job: &Value, errors: &mut FieldErrors) {
    const NUMBERS: [&str; 7] = [
        "spec.parallelism",
        "spec.completions",
        "spec.activeDeadlineSeconds",
        "spec.backoffLimit",
        "spec.ttlSecondsAfterFinished",
        "spec.backoffLimitPerIndex",
        "spec.maxFailedIndexes",
    ];
    const MODES: [&str; 2] = ["NonIndexed", "Indexed"];
    let (spec, template) = (&job["spec"], &job["spec"]["template"]);
    checks::nonnegative(job, &NUMBERS, errors);
    let mode = fields::text(spec, "/completionMode");
    if !MODES.contains(&mode) {
        errors.not_supported("spec.completionMode", mode, &MODES);
    }
    if mode == "Indexed" && spec["completions"].is_null() {
        errors.required("spec.completions", "when completion mode is Indexed");
    }
    for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        if mode == "NonIndexed" && spec[field].is_number() {
            let why = "requires indexed completion mode";
            errors.invalid(format!("spec.{field}"), &spec[field], why);
        }
    }
    let policy = fields::text(spec, "/podReplacementPolicy");
    let known = ["Failed", "TerminatingOrFailed"];
    if !known.contains(&policy) {
        errors.not_supported("spec.podReplacementPolicy", policy, &known);
    }
    template::validate(template, "spec.template", errors);
    const RESTARTS: &str = "spec.template.spec.restartPolicy";
    match fields::text(template, "/spec/restartPolicy") {
        "OnFailure" | "Never" => {}
        "Always" | "" => errors.required(RESTARTS, r#"valid values: "OnFailure", "Never""#),
        other => errors.not_supported(RESTARTS, other, &["OnFailure", "Never"]),
    }
    if spec["selector"].is_null() {
        errors.required("spec.selector", "");
    } else {
        validate_label_selector(&spec["selector"], "spec.selector", errors);
    }
    match LabelSelector::from_object(&spec["selector"]) {
        Some(selector) => template::validate_labels(template, &selector, "spec.template", errors),
        None if spec["selector"].is_null() => {
            template::refuse_labels(template, "spec.template", errors)
        }
        None => {}
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    const FIXED: [&str; 7] = [
        "selector",
        "template",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ];
    let (new, old) = (&new["spec"], &old["spec"]);
    let is_elastic = new["completionMode"] == "Indexed"
        && new["completions"] == new["parallelism"]
        && new["completions"].is_number();
    if !is_elastic {
        checks::immutable(&new["completions"], &old["completions"], "spec.completions", errors);
    }
    for field in FIXED {
        checks::immutable(&new[field], &old[field], &format!("spec.{field}"), errors);
    }
}
