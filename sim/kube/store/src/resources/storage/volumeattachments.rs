//! `volumeattachments.storage.k8s.io`: requests to attach a volume to a Node. Nothing attaches it.
//!
//! The store does not check inline volumes.

use serde_json::{Value, json};

use super::csinodes::validate_driver_name;
use crate::object::fields;
use crate::resources::checks;
use crate::{Check, FieldErrors, ResourceDef, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        namespaced: false,
        returns_deleted: true,
        status: true,
        strategy: Strategy {
            unconditional_update: false,
            begin: |attachment| checks::reset_status(attachment, json!({"attached": false})),
            validate,
            validate_update: |new, old, errors| {
                if new["spec"] != old["spec"] {
                    errors.invalid("spec", &internal(&new["spec"]), checks::IMMUTABLE);
                }
            },
            validate_status: |new, _, errors| validate(new, errors),
            checks: &[Check::Metadata, Check::Whole, Check::Change],
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("storage.k8s.io", "volumeattachments", "VolumeAttachment")
    }
}

/// Follows `kubernetes: pkg/apis/storage/validation/validation.go`, `ValidateVolumeAttachment`.
fn validate(attachment: &Value, errors: &mut FieldErrors) {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let spec = &attachment["spec"];
    validate_driver_name(fields::text(spec, "/attacher"), "spec.attacher", errors);
    let source = &spec["source"];
    let volume = source["persistentVolumeName"].as_str();
    match (volume, source["inlineVolumeSpec"].is_object()) {
        (None, false) => errors.required("spec.source", ONE),
        (Some(_), true) => errors.forbidden("spec.source", ONE),
        (Some(""), false) => {
            let why = "must specify non empty persistentVolumeName";
            errors.required("spec.source.persistentVolumeName", why);
        }
        _ => {}
    }
    checks::name(fields::text(spec, "/nodeName"), "spec.nodeName", errors);
    if let Some(volume) = volume {
        checks::name(volume, "spec.source.persistentVolumeName", errors);
    }
}

/// The spec with the names of the real server's internal fields, as its messages print it.
fn internal(spec: &Value) -> Value {
    json!({
        "Attacher": spec["attacher"],
        "Source": {
            "PersistentVolumeName": spec["source"]["persistentVolumeName"],
            "InlineVolumeSpec": spec["source"]["inlineVolumeSpec"],
        },
        "NodeName": spec["nodeName"],
    })
}
