//! `configmaps`: configuration data for programs.

use serde_json::Value;

use crate::object::names;
use crate::{FieldErrors, GroupResource, ResourceDef, Strategy};

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: GroupResource::core("configmaps"),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        singular: "configmap".into(),
        short_names: &["cm"],
        categories: &[],
        namespaced: true,
        hides_content_in_errors: false,
        returns_deleted: false,
        status: false,
        scales: false,
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

/// Checks that an update of an immutable ConfigMap or Secret changes neither `immutable` nor
/// `fields`.
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

/// Maximum size of the data of a ConfigMap or a Secret, in bytes (1 MiB).
const MAX_BYTES: usize = 1 << 20;

/// Checks the keys of `field` in a ConfigMap or a Secret. Returns the total size of the texts under
/// these keys, in bytes. `is_taken` is true for keys that another field has.
pub(super) fn validate_keys(
    object: &Value,
    field: &str,
    is_taken: impl Fn(&str) -> bool,
    errors: &mut FieldErrors,
) -> usize {
    let mut n_bytes = 0;
    for (key, value) in object[field].as_object().into_iter().flatten() {
        let path = format!("{field}[{key}]");
        for why in names::config_key_problems(key) {
            errors.invalid(path.as_str(), &key.as_str().into(), &why);
        }
        if is_taken(key) {
            let why = "duplicate of key present in binaryData";
            errors.invalid(path, &key.as_str().into(), why);
        }
        n_bytes += value.as_str().unwrap_or_default().len();
    }
    n_bytes
}

/// Returns the total number of bytes to which the base64 texts of `field` decode.
pub(super) fn decoded(object: &Value, field: &str) -> usize {
    let texts = object[field].as_object().into_iter().flatten();
    let texts = texts.map(|(_, value)| value.as_str().unwrap_or_default());
    texts.map(|text| text.trim_end_matches('=').len() * 3 / 4).sum()
}

/// Refuses more than [`MAX_BYTES`] of data, as the real server does.
pub(super) fn refuse_large(n_bytes: usize, field: &str, errors: &mut FieldErrors) {
    if n_bytes > MAX_BYTES {
        errors.too_long(field, MAX_BYTES);
    }
}

fn validate(map: &Value, errors: &mut FieldErrors) {
    let is_binary = |key: &str| map["binaryData"].get(key).is_some();
    let n_bytes = validate_keys(map, "data", is_binary, errors);
    validate_keys(map, "binaryData", |_| false, errors);
    // The error is about the whole object.
    refuse_large(n_bytes + decoded(map, "binaryData"), "[]", errors);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_config_map_above_one_mebibyte_of_text_and_binary_data_is_refused() {
        let told = |n_plain: usize, n_binary: usize| {
            let mut errors = FieldErrors::default();
            let encoded = "QUJD".repeat(n_binary / 3);
            let map = json!({"data": {"a": "x".repeat(n_plain)}, "binaryData": {"b": encoded}});
            validate(&map, &mut errors);
            errors.to_string()
        };
        assert_eq!(told(MAX_BYTES - 3, 3), "[]");
        let want = "[]: Too long: may not be more than 1048576 bytes";
        assert_eq!(told(MAX_BYTES - 2, 3), want);
        assert_eq!(told(MAX_BYTES + 1, 0), want);
    }
}
