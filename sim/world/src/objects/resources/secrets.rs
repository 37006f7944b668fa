//! `secrets`: data that nobody prints.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::objects::{
    FieldErrors, GroupResource, ResourceDef, SelectableField, Strategy, fields, names,
};

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
        strategy: Strategy { default: Some(default), validate, validate_update, ..Strategy::PLAIN },
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

/// Keys that secrets of a type must have.
const REQUIRED: [(&str, &[&str]); 5] = [
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
    ("kubernetes.io/basic-auth", &["username", "password"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
];

fn validate(secret: &Value, errors: &mut FieldErrors) {
    let data = fields::map(secret, "/data");
    for (key, _) in data.into_iter().flatten() {
        for why in names::config_key_problems(key) {
            errors.invalid(format!("data[{key}]"), &key.as_str().into(), &why);
        }
    }
    let kind = fields::text(secret, "/type");
    let has = |key: &str| data.is_some_and(|data| data.contains_key(key));
    for key in REQUIRED.iter().filter(|(of, _)| *of == kind).flat_map(|(_, keys)| *keys) {
        // Either half of a login is enough.
        if !has(key)
            && !(kind == "kubernetes.io/basic-auth" && (has("username") || has("password")))
        {
            errors.required(format!("data[{key}]"), "");
        }
    }
    let account = "/metadata/annotations/kubernetes.io~1service-account.name";
    if kind == "kubernetes.io/service-account-token" && fields::text(secret, account).is_empty() {
        errors.required("metadata.annotations[kubernetes.io/service-account.name]", "");
    }
}

fn validate_update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    if new["type"] != old["type"] {
        errors.invalid("type", &new["type"], "field is immutable");
    }
    super::configmaps::validate_immutable(new, old, &["data"], errors);
}
