//! `csinodes.storage.k8s.io`: drivers of volumes on a Node.

use serde_json::{Value, json};

use crate::object::{fields, names};
use crate::resources::checks;
use crate::{Check, FieldErrors, ResourceDef, Strategy};

const MAX_NODE_ID: usize = 256;

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        namespaced: false,
        returns_deleted: true,
        strategy: Strategy {
            unconditional_update: false,
            validate: |node, errors| {
                let drivers = fields::list(node, "/spec/drivers");
                for at in 0..drivers.len() {
                    validate_driver(drivers, at, errors);
                }
            },
            validate_update,
            checks: &[Check::Metadata, Check::Whole, Check::Change],
            ..Strategy::PLAIN
        },
        ..ResourceDef::builtin("storage.k8s.io", "csinodes", "CSINode")
    }
}

/// Follows `kubernetes: pkg/apis/storage/validation/validation.go`, `validateCSINodeDriver`.
fn validate_driver(drivers: &[Value], at: usize, errors: &mut FieldErrors) {
    let path = format!("spec.drivers[{at}]");
    let driver = &drivers[at];
    let name = fields::text(driver, "/name");
    validate_driver_name(name, &format!("{path}.name"), errors);
    let id = fields::text(driver, "/nodeID");
    if id.is_empty() {
        errors.required(format!("{path}.nodeID"), "");
    } else if id.len() > MAX_NODE_ID {
        let why = format!("must be {MAX_NODE_ID} characters or less");
        errors.invalid(format!("{path}.nodeID"), &id.into(), &why);
    }
    let count = &driver["allocatable"]["count"];
    if count.as_i64().is_some_and(|it| it < 0) {
        let why = "must be greater than or equal to 0";
        errors.invalid(format!("{path}.allocatable.count"), count, why);
    }
    if drivers[..at].iter().any(|it| fields::text(it, "/name") == name) {
        errors.duplicate(format!("{path}.name"), &name.into(), "");
    }
    let keys = fields::list(driver, "/topologyKeys");
    for (n, key) in keys.iter().enumerate() {
        let text = key.as_str().unwrap_or_default();
        if text.is_empty() {
            errors.required(&*path, "");
        }
        if keys[..n].contains(key) {
            errors.duplicate(&*path, key, "");
        }
        for why in names::qualified_name_problems(text) {
            errors.invalid(&*path, key, &why);
        }
    }
}

/// Checks the name of a driver.
pub(super) fn validate_driver_name(name: &str, path: &str, errors: &mut FieldErrors) {
    const MAX: usize = 63;
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name.len() > MAX {
        errors.too_long(path, MAX);
    }
    checks::name(&name.to_lowercase(), path, errors);
}

fn validate_update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let fixed = |driver: &Value| {
        let mut driver = driver.clone();
        fields::as_map(&mut driver).shift_remove("allocatable");
        driver
    };
    for before in fields::list(old, "/spec/drivers") {
        for after in fields::list(new, "/spec/drivers") {
            if before["name"] == after["name"] && fixed(after) != fixed(before) {
                // The real server prints the names of its internal fields.
                let shown = json!({
                    "Name": after["name"], "NodeID": after["nodeID"],
                    "TopologyKeys": after["topologyKeys"], "Allocatable": null,
                });
                errors.invalid("spec.drivers", &shown, checks::IMMUTABLE);
            }
        }
    }
}
