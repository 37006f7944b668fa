//! `deviceclasses.resource.k8s.io`: kinds of devices that claims may ask for.

use crate::object::fields;
use crate::{Check, ResourceDef, Strategy};

/// Maximum number of selectors and of configurations.
const MAX: usize = 32;

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        namespaced: false,
        returns_deleted: true,
        strategy: Strategy {
            generation: true,
            validate: |class, errors| {
                for field in ["selectors", "config"] {
                    let n_found = fields::list(&class["spec"], &format!("/{field}")).len();
                    if n_found > MAX {
                        errors.too_many(format!("spec.{field}"), n_found, MAX);
                    }
                }
            },
            checks: &[Check::Metadata, Check::MetadataChange, Check::Whole],
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("resource.k8s.io", "deviceclasses", "DeviceClass")
    }
}
