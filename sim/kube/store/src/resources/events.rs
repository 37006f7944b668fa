//! `events`: messages of controllers and kubelets for people.

use serde_json::Value;

use crate::object::{fields, meta, names};
use crate::{Check, FieldErrors, GroupResource, NameRule, ResourceDef, SelectableField, Strategy};

const MAX_TEXT: usize = 128;
const MAX_NOTE: usize = 1024;

const fn field(name: &'static str, pointer: &'static str) -> SelectableField {
    SelectableField { name, pointer, default: "" }
}

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::core("events"),
        version: "v1".into(),
        kind: "Event".into(),
        singular: "event".into(),
        short_names: &["ev"],
        categories: &[],
        namespaced: true,
        hides_content_in_errors: false,
        returns_deleted: false,
        status: false,
        scales: false,
        registry: "events".into(),
        custom: None,
        deprecation: "",
        selectable: const {
            &[
                field("involvedObject.kind", "/involvedObject/kind"),
                field("involvedObject.namespace", "/involvedObject/namespace"),
                field("involvedObject.name", "/involvedObject/name"),
                field("involvedObject.uid", "/involvedObject/uid"),
                field("involvedObject.apiVersion", "/involvedObject/apiVersion"),
                field("involvedObject.resourceVersion", "/involvedObject/resourceVersion"),
                field("involvedObject.fieldPath", "/involvedObject/fieldPath"),
                field("reason", "/reason"),
                field("reportingComponent", "/reportingComponent"),
                field("source", "/source/component"),
                field("type", "/type"),
            ]
        },
        strategy: Strategy {
            names: NameRule::Subdomain,
            create_on_update: true,
            validate,
            checks: &[Check::Whole],
            requires_standard_finalizers: false,
            uses_gc_finalizers: false,
            ..Strategy::PLAIN
        },
    }
}

/// Checks an event; follows `kubernetes: pkg/apis/core/validation/events.go`,
/// `legacyValidateEvent`.
fn validate(event: &Value, errors: &mut FieldErrors) {
    let about = fields::text(event, "/involvedObject/namespace");
    let namespace = meta::text(event, "namespace");
    let misplaced = "does not match event.namespace";
    if event["eventTime"].is_null() {
        // Events about cluster-wide objects live in `default`.
        if !(namespace == about || about.is_empty() && namespace == "default") {
            errors.invalid("involvedObject.namespace", &about.into(), misplaced);
        }
    } else {
        if about.is_empty() && !matches!(namespace, "default" | "kube-system") {
            errors.invalid("involvedObject.namespace", &about.into(), misplaced);
        }
        validate_report(event, errors);
    }
    for why in names::name_problems(NameRule::Subdomain, namespace) {
        errors.invalid("namespace", &namespace.into(), &why);
    }
}

/// Checks the fields that an event with an `eventTime` must have, and the length of its message.
fn validate_report(event: &Value, errors: &mut FieldErrors) {
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    let reporter = text("reportingComponent");
    if reporter.is_empty() {
        errors.required("reportingComponent", "");
    }
    for why in names::qualified_name_problems(reporter) {
        errors.invalid("reportingComponent", &reporter.into(), &why);
    }
    for field in ["reportingInstance", "action", "reason"] {
        if text(field).is_empty() {
            errors.required(field, "");
        }
        if text(field).len() > MAX_TEXT {
            let why = format!("can have at most {MAX_TEXT} characters");
            errors.invalid(field, &"".into(), &why);
        }
    }
    if text("message").len() > MAX_NOTE {
        let why = format!("can have at most {MAX_NOTE} characters");
        errors.invalid("message", &"".into(), &why);
    }
}
