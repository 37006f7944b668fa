//! Decoding and checks of embedded objects, which a schema declares by
//! `x-kubernetes-embedded-resource`.
//!
//! Follows `apiextensions-apiserver: pkg/apiserver/schema/objectmeta`.

use serde_json::{Map, Value};

use super::structural::{AdditionalProperties, Structural};
use crate::object::{meta, names};
use crate::schema::{GoDecoder, decode_metadata};
use crate::{FieldErrors, NameRule};

/// Decodes the metadata of embedded objects: drops unknown fields of metadata and adds complaints
/// about them to `unknown`. The caller decodes the metadata of the root object.
///
/// # Errors
/// The real server's error text for an apiVersion, kind or metadata of the wrong type.
pub(super) fn coerce(
    schema: &Structural,
    value: &mut Value,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    match value {
        Value::Object(map) => {
            if schema.is_embedded {
                coerce_types(map, path, unknown)?;
            }
            for (name, value) in map.iter_mut() {
                if let Some((known, path)) = below(schema, name, path) {
                    coerce(known, value, &path, unknown)?;
                }
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter_mut().enumerate() {
                if let Some(items) = &schema.items {
                    coerce(items, value, &format!("{path}[{at}]"), unknown)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn coerce_types(
    map: &mut Map<String, Value>,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    for field in ["apiVersion", "kind"] {
        if let Some(value) = map.get(field).filter(|value| !value.is_string()) {
            return Err(format!("{path}.{field}: Invalid value: {value}: must be a string"));
        }
    }
    let Some(metadata) = map.get_mut("metadata") else { return Ok(()) };
    let read = decode_metadata(metadata, GoDecoder::Json)
        .map_err(|why| format!("{path}.metadata: Invalid value: {metadata}: {why}"))?;
    let here =
        |complaint: String| complaint.replacen("\"metadata", &format!("\"{path}.metadata"), 1);
    unknown.extend(read.unknown.into_iter().map(here));
    *metadata = read.object;
    Ok(())
}

/// Checks apiVersion, kind and metadata of all embedded objects in a value.
pub(crate) fn validate(schema: &Structural, value: &Value, path: &str, errors: &mut FieldErrors) {
    match value {
        Value::Object(map) => {
            if schema.is_embedded {
                validate_object(value, path, errors);
            }
            for (name, value) in map {
                if let Some((known, path)) = below(schema, name, path) {
                    validate(known, value, &path, errors);
                }
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                if let Some(items) = &schema.items {
                    validate(items, value, &format!("{path}[{at}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn validate_object(object: &Value, path: &str, errors: &mut FieldErrors) {
    let field =
        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for name in ["apiVersion", "kind"] {
        if object.get(name).is_none() {
            errors.required(field(name), "");
        }
    }
    for name in ["apiVersion", "kind"] {
        let Some(value) = object.get(name) else { continue };
        match value.as_str() {
            None => errors.invalid(field(name), value, "must be a string"),
            Some("") => errors.invalid(field(name), value, "must not be empty"),
            Some(text) => {
                if let Some(why) = type_problem(name, text) {
                    errors.invalid(field(name), value, &why);
                }
            }
        }
    }
    if object["metadata"].is_object() {
        let mut named = object.clone();
        if meta::text(&named, "name").is_empty() {
            // An embedded object may have no name. The check requires one, so it gets a valid one.
            named["metadata"]["name"] = "fakename".into();
        }
        let namespaced = !meta::text(&named, "namespace").is_empty();
        let mut found = FieldErrors::default();
        meta::validate(&named, NameRule::PathSegment, namespaced, &mut found);
        if path.is_empty() {
            errors.append(found);
        } else {
            errors.add_below(path, found);
        }
    }
}

fn type_problem(field: &str, text: &str) -> Option<String> {
    if field == "apiVersion" {
        let is_odd = text.matches('/').count() > 1;
        return is_odd.then(|| format!("unexpected GroupVersion string: {text}"));
    }
    let why = names::name_problems(NameRule::Label1035, &text.to_lowercase()).join(",");
    (!why.is_empty()).then(|| format!("may have mixed case, but should otherwise match: {why}"))
}

/// Returns the schema and the path of the field `name`; `None` if `schema` does not describe the
/// field.
fn below<'a>(schema: &'a Structural, name: &str, path: &str) -> Option<(&'a Structural, String)> {
    if let Some(known) = schema.properties.get(name) {
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        return Some((known, path));
    }
    match &schema.others {
        Some(AdditionalProperties::Like(like)) => Some((like, format!("{path}[{name}]"))),
        _ => None,
    }
}
