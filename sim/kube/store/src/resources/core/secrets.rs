//! `secrets`: data that messages must not contain.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::configmaps;
use crate::object::fields;
use crate::schema::base64;
use crate::values::text::{json_problem, json_type};
use crate::{FieldErrors, GroupResource, ResourceDef, SelectableField, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::core("secrets"),
        version: "v1".into(),
        kind: "Secret".into(),
        singular: "secret".into(),
        short_names: &[],
        categories: &[],
        namespaced: true,
        hides_content_in_errors: true,
        returns_deleted: false,
        status: false,
        scales: false,
        registry: "secrets".into(),
        custom: None,
        deprecation: "",
        selectable: const { &[SelectableField { name: "type", pointer: "/type", default: "" }] },
        strategy: Strategy {
            default: Some(default),
            validate,
            validate_update,
            warn,
            ..Strategy::PLAIN
        },
    }
}

/// Sets the default type, and moves `stringData`, which clients can only write, to `data`.
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
    configmaps::validate_keys(secret, "data", |_| false, errors);
    configmaps::refuse_large(configmaps::decoded(secret, "data"), "data", errors);
    let data = fields::map(secret, "/data");
    let has = |key: &str| data.is_some_and(|data| data.contains_key(key));
    let mut need = |key: &str| errors.required(format!("data[{key}]"), "");
    match fields::text(secret, "/type") {
        "kubernetes.io/service-account-token" => {
            let account = "/metadata/annotations/kubernetes.io~1service-account.name";
            if fields::text(secret, account).is_empty() {
                errors.required("metadata.annotations[kubernetes.io/service-account.name]", "");
            }
        }
        "kubernetes.io/dockercfg" => validate_login(secret, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => validate_login(secret, ".dockerconfigjson", errors),
        // User name or password alone is enough.
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            need("username");
            need("password");
        }
        "kubernetes.io/ssh-auth" if plain(secret, "ssh-privatekey").is_empty() => {
            need("ssh-privatekey");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)) {
                need(key);
            }
        }
        _ => {}
    }
}

/// Checks the login to an image registry in the data under `key`: a JSON object or null.
fn validate_login(secret: &Value, key: &str, errors: &mut FieldErrors) {
    let field = format!("data[{key}]");
    if secret["data"].get(key).is_none() {
        return errors.required(field, "");
    }
    let bytes = plain(secret, key);
    let why = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_type(&other)
        ),
        Err(_) => json_problem(&bytes).unwrap_or_default(),
    };
    errors.invalid(field, &"<secret contents redacted>".into(), &why);
}

/// Returns the bytes stored under `key`; no bytes if the key is missing or has no valid base64.
fn plain(secret: &Value, key: &str) -> Vec<u8> {
    base64(secret["data"][key].as_str().unwrap_or_default()).unwrap_or_default()
}

/// Returns a warning about a Secret of type `kubernetes.io/tls` whose certificate or key has no PEM
/// data. The store accepts such a Secret. Does not check if certificate and key match.
fn warn(secret: &Value) -> Vec<String> {
    let lacks = |key: &str| !plain(secret, key).windows(BLOCK.len()).any(|it| it == BLOCK);
    let what = match fields::text(secret, "/type") {
        "kubernetes.io/tls" if lacks("tls.crt") => "certificate",
        "kubernetes.io/tls" if lacks("tls.key") => "key",
        _ => return Vec::new(),
    };
    vec![format!("tls: failed to find any PEM data in {what} input")]
}

/// Beginning of a PEM block.
const BLOCK: &[u8] = b"-----BEGIN ";

fn validate_update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    if new["type"] != old["type"] {
        errors.invalid("type", &new["type"], "field is immutable");
    }
    configmaps::validate_immutable(new, old, &["data"], errors);
}
