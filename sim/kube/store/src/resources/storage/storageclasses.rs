//! `storageclasses.storage.k8s.io`: kinds of volumes that claims may ask for.
//!
//! The store does not check `allowedTopologies`.

use serde_json::Value;

use crate::object::{fields, names};
use crate::resources::checks;
use crate::{Check, FieldErrors, ResourceDef, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        short_names: &["sc"],
        namespaced: false,
        returns_deleted: true,
        strategy: Strategy {
            default: Some(|class| {
                let class = fields::as_map(class);
                fields::default_to(class, "reclaimPolicy", "Delete");
                fields::default_to(class, "volumeBindingMode", "Immediate");
            }),
            validate,
            validate_update: |new, old, errors| {
                for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
                    checks::immutable(&new[field], &old[field], field, errors);
                }
            },
            checks: &[Check::Metadata, Check::Whole, Check::MetadataChange, Check::Change],
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("storage.k8s.io", "storageclasses", "StorageClass")
    }
}

/// Follows `kubernetes: pkg/apis/storage/validation/validation.go`, `ValidateStorageClass`.
fn validate(class: &Value, errors: &mut FieldErrors) {
    const MAX_PARAMETERS: usize = 512;
    const MAX_BYTES: usize = 256 << 10;
    let provisioner = fields::text(class, "/provisioner");
    if provisioner.is_empty() {
        errors.required("provisioner", "");
    } else {
        for why in names::qualified_name_problems(&provisioner.to_lowercase()) {
            errors.invalid("provisioner", &provisioner.to_lowercase().into(), &why);
        }
    }
    let parameters = fields::map(class, "/parameters");
    let n_bytes: usize = parameters
        .into_iter()
        .flatten()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if parameters.is_some_and(|it| it.len() > MAX_PARAMETERS) {
        errors.too_long("parameters", MAX_PARAMETERS);
    } else {
        if parameters.is_some_and(|it| it.contains_key("")) {
            errors.invalid("parameters", &"".into(), "field can not be empty.");
        }
        if n_bytes > MAX_BYTES {
            errors.too_long("parameters", MAX_BYTES);
        }
    }
    let policy = fields::text(class, "/reclaimPolicy");
    if !["", "Delete", "Retain"].contains(&policy) {
        errors.not_supported("reclaimPolicy", policy, &["Delete", "Retain"]);
    }
    let mode = fields::text(class, "/volumeBindingMode");
    let known = ["Immediate", "WaitForFirstConsumer"];
    if !known.contains(&mode) {
        errors.not_supported("volumeBindingMode", mode, &known);
    }
}
