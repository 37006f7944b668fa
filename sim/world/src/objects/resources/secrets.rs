//! `secrets`: data that nobody prints.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::objects::{FieldErrors, GroupResource, ResourceDef, SelectableField, Strategy, fields};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::core("secrets"),
        version: "v1".into(),
        kind: "Secret".into(),
        singular: "secret".into(),
        short_names: &[],
        categories: &[],
        namespaced: true,
        confidential: true,
        returns_deleted: false,
        status: false,
        registry: "secrets".into(),
        custom: None,
        deprecation: "",
        selectable: const { &[SelectableField { name: "type", pointer: "/type", default: "" }] },
        strategy: Strategy { default, validate, validate_update, ..Strategy::PLAIN },
    }
}

/// `stringData` is a way to write `data`; nobody can read it.
fn default(secret: &mut Value) {
    let secret = fields::as_map(secret);
    fields::default_to(secret, "type", "Opaque");
    let Some(Value::Object(plain)) = secret.shift_remove("stringData") else { return };
    let data = fields::as_map(secret.entry("data").or_insert(Value::Null));
    for (key, text) in plain {
        data.insert(key, STANDARD.encode(text.as_str().unwrap_or_default()).into());
    }
}

fn validate(secret: &Value, errors: &mut FieldErrors) {
    for (key, value) in fields::map(secret, "/data").into_iter().flatten() {
        if STANDARD.decode(value.as_str().unwrap_or_default()).is_err() {
            // Never the value itself.
            errors.invalid(format!("data[{key}]"), &"<omitted>".into(), "illegal base64 data");
        }
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    if new["type"] != old["type"] {
        errors.invalid("type", &new["type"], "field is immutable");
    }
    if old["immutable"] == true {
        if new["immutable"] != true {
            errors.forbidden("immutable", "field is immutable when `immutable` is set");
        }
        if new.get("data") != old.get("data") {
            errors.forbidden("data", "field is immutable when `immutable` is set");
        }
    }
}
