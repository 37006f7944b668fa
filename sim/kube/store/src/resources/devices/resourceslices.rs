//! `resourceslices.resource.k8s.io`: devices that a driver offers, usually on one Node.

use serde_json::Value;

use crate::object::fields;
use crate::resources::checks;
use crate::{Check, FieldErrors, ResourceDef, SelectableField, Strategy};

const PLACES: &str = "`nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection`";

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        namespaced: false,
        returns_deleted: true,
        selectable: const {
            &[
                SelectableField { name: "spec.nodeName", pointer: "/spec/nodeName", default: "" },
                SelectableField { name: "spec.driver", pointer: "/spec/driver", default: "" },
            ]
        },
        strategy: Strategy {
            generation: true,
            validate,
            validate_update: |new, old, errors| {
                for (field, path) in [
                    ("/spec/pool/name", "spec.pool.name"),
                    ("/spec/driver", "spec.driver"),
                    ("/spec/nodeName", "spec.nodeName"),
                ] {
                    let value = |slice: &Value| slice.pointer(field).cloned().unwrap_or_default();
                    checks::immutable(&value(new), &value(old), path, errors);
                }
            },
            checks: &[Check::MetadataChange, Check::Whole, Check::Change],
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("resource.k8s.io", "resourceslices", "ResourceSlice")
    }
}

/// Follows `kubernetes: pkg/apis/resource/validation/validation.go`, `validateResourceSliceSpec`.
fn validate(slice: &Value, errors: &mut FieldErrors) {
    const MAX_DEVICES: usize = 128;
    let spec = &slice["spec"];
    validate_head(spec, errors);
    let mut set: Vec<&str> = Vec::new();
    match spec["nodeName"].as_str() {
        Some("") => {
            let why = "must be either unset or set to a non-empty string";
            errors.invalid("spec.nodeName", &"".into(), why);
        }
        Some(node) => {
            set.push("`nodeName`");
            checks::name(node, "spec.nodeName", errors);
        }
        None => {}
    }
    if spec["nodeSelector"].is_object() {
        set.push("`nodeSelector`");
    }
    for field in ["allNodes", "perDeviceNodeSelection"] {
        match spec[field].as_bool() {
            Some(true) => set.push(if field == "allNodes" {
                "`allNodes`"
            } else {
                "`perDeviceNodeSelection`"
            }),
            Some(false) => {
                let why = "must be either unset or set to true";
                errors.invalid(format!("spec.{field}"), &false.into(), why);
            }
            None => {}
        }
    }
    match set.len() {
        0 => errors.required("spec", &format!("exactly one of {PLACES} is required")),
        1 => {}
        _ => {
            let why = format!("exactly one of {PLACES} is required, but multiple fields are set");
            errors.invalid("spec", &format!("{{{}}}", set.join(", ")).into(), &why);
        }
    }
    let n_devices = fields::list(spec, "/devices").len();
    if n_devices > MAX_DEVICES {
        errors.too_many("spec.devices", n_devices, MAX_DEVICES);
    }
}

/// Checks the names of driver and pool.
fn validate_head(spec: &Value, errors: &mut FieldErrors) {
    for (pointer, path) in [("/driver", "spec.driver"), ("/pool/name", "spec.pool.name")] {
        match fields::text(spec, pointer) {
            "" => errors.required(path, ""),
            name => name.split('/').for_each(|part| checks::name(part, path, errors)),
        }
    }
    let count = spec["pool"]["resourceSliceCount"].as_i64().unwrap_or_default();
    if count <= 0 {
        errors.invalid("spec.pool.resourceSliceCount", &count.into(), "must be greater than zero");
    }
    let generation = &spec["pool"]["generation"];
    if generation.as_i64().is_some_and(|it| it < 0) {
        let why = "must be greater than or equal to zero";
        errors.invalid("spec.pool.generation", generation, why);
    }
}
