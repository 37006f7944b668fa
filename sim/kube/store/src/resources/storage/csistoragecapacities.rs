//! `csistoragecapacities.storage.k8s.io`: free space for volumes of a class in a part of the
//! cluster.

use serde_json::Value;

use crate::object::fields;
use crate::resources::checks;
use crate::selector::validate_label_selector;
use crate::{Check, FieldErrors, ResourceDef, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        strategy: Strategy {
            unconditional_update: false,
            validate,
            validate_update: |new, old, errors| {
                for field in ["nodeTopology", "storageClassName"] {
                    checks::immutable(&new[field], &old[field], field, errors);
                }
            },
            checks: &[Check::Metadata, Check::Whole, Check::MetadataChange, Check::Change],
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("storage.k8s.io", "csistoragecapacities", "CSIStorageCapacity")
    }
}

fn validate(capacity: &Value, errors: &mut FieldErrors) {
    validate_label_selector(&capacity["nodeTopology"], "nodeTopology", errors);
    checks::name(fields::text(capacity, "/storageClassName"), "storageClassName", errors);
    let amount = &capacity["capacity"];
    if amount.as_str().is_some_and(|it| it.starts_with('-')) {
        errors.invalid("capacity", amount, "must be greater than or equal to 0");
    }
}
