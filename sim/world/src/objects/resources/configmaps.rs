//! `configmaps`: data for programs.

use serde_json::Value;

use crate::objects::{FieldErrors, GroupResource, ResourceDef, Strategy, fields, names};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::core("configmaps"),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        singular: "configmap".into(),
        short_names: &["cm"],
        categories: &[],
        namespaced: true,
        confidential: false,
        returns_deleted: false,
        status: false,
        registry: "configmaps".into(),
        custom: None,
        deprecation: "",
        selectable: &[],
        strategy: Strategy {
            validate,
            validate_update: |new, old, errors| {
                validate_immutable(new, old, &["data", "binaryData"], errors);
            },
            ..Strategy::PLAIN
        },
    }
}

/// What was declared immutable stays so, and so do these fields of it. Secrets have the same rule.
pub(super) fn validate_immutable(
    new: &Value,
    old: &Value,
    fields: &[&'static str],
    errors: &mut FieldErrors,
) {
    if old["immutable"] != true {
        return;
    }
    let why = "field is immutable when `immutable` is set";
    if new["immutable"] != true {
        errors.forbidden("immutable", why);
    }
    for field in fields.iter().filter(|field| new.get(**field) != old.get(**field)) {
        errors.forbidden(*field, why);
    }
}

fn validate(map: &Value, errors: &mut FieldErrors) {
    let binary = fields::map(map, "/binaryData");
    for (key, _) in fields::map(map, "/data").into_iter().flatten() {
        for why in names::config_key_problems(key) {
            errors.invalid(format!("data[{key}]"), &key.as_str().into(), &why);
        }
        if binary.is_some_and(|binary| binary.contains_key(key)) {
            let why = "duplicate of key present in binaryData";
            errors.invalid(format!("data[{key}]"), &key.as_str().into(), why);
        }
    }
    for (key, _) in binary.into_iter().flatten() {
        for why in names::config_key_problems(key) {
            errors.invalid(format!("binaryData[{key}]"), &key.as_str().into(), &why);
        }
    }
}
