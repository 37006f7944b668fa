//! `persistentvolumeclaims`: requests for volumes. Nothing binds them.
//!
//! The store does not check data sources.

use serde_json::{Value, json};

use crate::object::fields;
use crate::resources::checks;
use crate::selector::validate_label_selector;
use crate::{Check, FieldErrors, ResourceDef, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        short_names: &["pvc"],
        returns_deleted: true,
        status: true,
        strategy: Strategy {
            default: Some(|claim| {
                fields::default_if_empty(fields::map_mut(claim, "status"), "phase", "Pending");
                fields::default_to(fields::map_mut(claim, "spec"), "volumeMode", "Filesystem");
            }),
            begin: |claim| {
                checks::reset_status(claim, json!({"phase": "Pending"}));
                agree_on_source(claim);
            },
            carry_over: |_, claim| agree_on_source(claim),
            validate,
            validate_update,
            checks: &[Check::MetadataChange, Check::Metadata, Check::Whole, Check::Change],
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("", "persistentvolumeclaims", "PersistentVolumeClaim")
    }
}

/// Copies `dataSource` to `dataSourceRef` or the reverse, if only one is set.
fn agree_on_source(claim: &mut Value) {
    let spec = fields::map_mut(claim, "spec");
    let given = |field: &str| spec.get(field).filter(|it| it.is_object()).cloned();
    match (given("dataSource"), given("dataSourceRef")) {
        (Some(source), None) => {
            spec.insert("dataSourceRef".into(), source);
        }
        (None, Some(source)) if source["namespace"].is_null() => {
            spec.insert("dataSource".into(), source);
        }
        _ => {}
    }
}

/// Follows `kubernetes: pkg/apis/core/validation/validation.go`,
/// `ValidatePersistentVolumeClaimSpec`.
fn validate(claim: &Value, errors: &mut FieldErrors) {
    const MODES: [&str; 2] = ["Block", "Filesystem"];
    const SIZE: &str = "spec.resources[storage]";
    let spec = &claim["spec"];
    if fields::list(spec, "/accessModes").is_empty() {
        errors.required("spec.accessModes", "at least 1 access mode is required");
    }
    validate_label_selector(&spec["selector"], "spec.selector", errors);
    if !fields::list(spec, "/accessModes").is_empty() {
        checks::access_modes(spec, "", errors);
    }
    match spec["resources"]["requests"]["storage"].as_str() {
        None => errors.required(SIZE, ""),
        Some(size) if size.starts_with('-') || size == "0" => {
            errors.invalid(SIZE, &size.into(), "must be greater than zero");
        }
        Some(_) => {}
    }
    let class = fields::text(spec, "/storageClassName");
    if !class.is_empty() {
        checks::name(class, "spec.storageClassName", errors);
    }
    let mode = fields::text(spec, "/volumeMode");
    if !MODES.contains(&mode) {
        errors.not_supported("spec.volumeMode", mode, &MODES);
    }
}

/// Checks an update. The real server appends a listing of the differences to the message; this
/// function does not.
fn validate_update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let is_bound = new["status"]["phase"] == "Bound";
    let fixed = |claim: &Value, other: &Value| {
        let mut spec = claim["spec"].clone();
        let is_unnamed = fields::text(old, "/spec/volumeName").is_empty();
        if is_unnamed {
            fields::as_map(&mut spec).shift_remove("volumeName");
        }
        if is_bound {
            fields::as_map(&mut spec).shift_remove("volumeAttributesClassName");
            if let Some(requests) = spec.pointer_mut("/resources/requests") {
                fields::copy(&other["spec"]["resources"]["requests"], requests, "storage");
            }
        }
        spec
    };
    if fixed(new, old) != fixed(old, old) {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n";
        errors.forbidden("spec", why);
    }
    checks::immutable(&new["spec"]["volumeMode"], &old["spec"]["volumeMode"], "volumeMode", errors);
}
