//! `persistentvolumes`: volumes that claims bind. Nothing binds them.
//!
//! The store checks what all volumes have in common, not their sources and node affinity.

use serde_json::{Value, json};

use crate::object::fields;
use crate::resources::checks;
use crate::{Check, FieldErrors, ResourceDef, Strategy};

/// Fields of the spec that are not the source of the volume.
const COMMON: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        short_names: &["pv"],
        namespaced: false,
        returns_deleted: true,
        status: true,
        strategy: Strategy {
            default: Some(|volume| {
                fields::default_if_empty(fields::map_mut(volume, "status"), "phase", "Pending");
                let spec = fields::map_mut(volume, "spec");
                fields::default_if_empty(spec, "persistentVolumeReclaimPolicy", "Retain");
                fields::default_to(spec, "volumeMode", "Filesystem");
            }),
            begin: |volume| checks::reset_status(volume, json!({"phase": "Pending"})),
            validate,
            validate_update,
            checks: &[Check::Metadata, Check::Whole, Check::Change],
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("", "persistentvolumes", "PersistentVolume")
    }
}

fn source(volume: &Value) -> Value {
    let mut spec = volume["spec"].clone();
    COMMON.iter().for_each(|field| {
        fields::as_map(&mut spec).shift_remove(*field);
    });
    spec
}

/// Follows `kubernetes: pkg/apis/core/validation/validation.go`, `ValidatePersistentVolumeSpec`.
fn validate(volume: &Value, errors: &mut FieldErrors) {
    const POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
    const MODES: [&str; 2] = ["Block", "Filesystem"];
    let spec = &volume["spec"];
    checks::access_modes(spec, "", errors);
    let capacity = fields::map(spec, "/capacity");
    if capacity.is_none_or(serde_json::Map::is_empty) {
        errors.required("spec.capacity", "");
    }
    if capacity.is_none_or(|it| it.len() != 1 || !it.contains_key("storage")) {
        errors.not_among("spec.capacity", &spec["capacity"], &["storage".into()]);
    }
    for (resource, amount) in capacity.into_iter().flatten() {
        let text = amount.as_str().unwrap_or_default();
        if text.starts_with('-') || text == "0" {
            let why = "must be greater than zero";
            errors.invalid(format!("spec.capacity[{resource}]"), amount, why);
        }
    }
    let policy = fields::text(spec, "/persistentVolumeReclaimPolicy");
    if !POLICIES.contains(&policy) {
        errors.not_supported("spec.persistentVolumeReclaimPolicy", policy, &POLICIES);
    }
    if fields::as_map(&mut source(volume)).is_empty() {
        errors.required("spec", "must specify a volume type");
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

/// Checks an update. The real server appends a listing of the differences to the message about the
/// source; this function does not.
fn validate_update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    if source(new) != source(old) {
        let why = "spec.persistentvolumesource is immutable after creation\n";
        errors.forbidden("spec.persistentvolumesource", why);
    }
    checks::immutable(&new["spec"]["volumeMode"], &old["spec"]["volumeMode"], "volumeMode", errors);
}
