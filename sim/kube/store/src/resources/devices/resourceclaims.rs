//! `resourceclaims.resource.k8s.io`: requests for devices. Nothing allocates devices.

use serde_json::Value;

use crate::object::{fields, names};
use crate::resources::checks;
use crate::{Check, FieldErrors, NameRule, ResourceDef, Strategy};

/// Maximum number of requests, constraints and configurations.
const MAX: usize = 32;

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        returns_deleted: true,
        status: true,
        strategy: Strategy {
            default: Some(default),
            begin: checks::no_status,
            validate,
            validate_update: |new, old, errors| {
                checks::immutable(&new["spec"], &old["spec"], "spec", errors);
            },
            checks: &[Check::Metadata, Check::MetadataChange, Check::Change],
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("resource.k8s.io", "resourceclaims", "ResourceClaim")
    }
}

fn default(claim: &mut Value) {
    let count = |request: &mut Value| {
        let request = fields::as_map(request);
        fields::default_if_empty(request, "allocationMode", "ExactCount");
        if request.get("allocationMode") == Some(&"ExactCount".into()) {
            fields::default_if_empty(request, "count", 1);
        }
    };
    let Some(devices) = claim.pointer_mut("/spec/devices") else { return };
    for request in fields::list_mut(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly").filter(|it| it.is_object()) {
            count(exactly);
        }
        fields::list_mut(request, "firstAvailable").for_each(count);
    }
}

/// Follows `kubernetes: pkg/apis/resource/validation/validation.go`, `validateDeviceClaim`.
fn validate(claim: &Value, errors: &mut FieldErrors) {
    let devices = &claim["spec"]["devices"];
    for field in ["requests", "constraints", "config"] {
        let n_found = fields::list(devices, &format!("/{field}")).len();
        if n_found > MAX {
            errors.too_many(format!("spec.devices.{field}"), n_found, MAX);
        }
    }
    let requests = fields::list(devices, "/requests");
    for (at, request) in requests.iter().enumerate() {
        let path = format!("spec.devices.requests[{at}]");
        let name = fields::text(request, "/name");
        validate_name(name, &format!("{path}.name"), errors);
        if requests[..at].iter().any(|it| fields::text(it, "/name") == name) {
            errors.duplicate(&*path, &name.into(), "");
        }
        validate_request(request, &path, errors);
    }
}

fn validate_name(name: &str, path: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    for why in names::name_problems(NameRule::Label, name) {
        errors.invalid(path, &name.into(), &why);
    }
}

fn validate_request(request: &Value, path: &str, errors: &mut FieldErrors) {
    let alternatives = fields::list(request, "/firstAvailable");
    match (request["exactly"].is_object(), alternatives.is_empty()) {
        (false, true) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required";
            errors.required(path, why);
        }
        (true, false) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.invalid(path, &Value::Null, why);
        }
        (true, true) => validate_device(&request["exactly"], &format!("{path}.exactly"), errors),
        (false, false) => {
            for (at, one) in alternatives.iter().enumerate() {
                let path = format!("{path}.firstAvailable[{at}]");
                validate_name(fields::text(one, "/name"), &format!("{path}.name"), errors);
                validate_device(one, &path, errors);
            }
        }
    }
}

fn validate_device(request: &Value, path: &str, errors: &mut FieldErrors) {
    const MODES: [&str; 2] = ["All", "ExactCount"];
    match fields::text(request, "/deviceClassName") {
        "" => errors.required(format!("{path}.deviceClassName"), ""),
        class => checks::name(class, &format!("{path}.deviceClassName"), errors),
    }
    let count = request["count"].as_i64().unwrap_or_default();
    match fields::text(request, "/allocationMode") {
        "All" if count != 0 => {
            let why = "must not be specified when allocationMode is 'All'";
            errors.invalid(format!("{path}.count"), &count.into(), why);
        }
        "ExactCount" if count <= 0 => {
            errors.invalid(format!("{path}.count"), &count.into(), "must be greater than zero");
        }
        "All" | "ExactCount" => {}
        other => errors.not_supported(format!("{path}.allocationMode"), other, &MODES),
    }
}
