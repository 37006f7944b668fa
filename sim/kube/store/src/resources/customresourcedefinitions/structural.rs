//! Checks that a schema is structural: every field has a type outside of `allOf`, `anyOf`, `oneOf`
//! and `not`, unless its `x-kubernetes-int-or-string` or `x-kubernetes-preserve-unknown-fields` is
//! true. Schemas inside `allOf`, `anyOf`, `oneOf` and `not` may only restrict the values of fields
//! that the schema defines outside of these four.
//!
//! Follows `apiextensions-apiserver: pkg/apiserver/schema/{validation,complete}.go`. Like the real
//! server, this module sorts the errors by their text.

use serde_json::{Value, json};

use crate::FieldErrors;
use crate::object::fields;
use crate::values::patterns;

/// Place of a schema: the root, the items of a list, or a field of a map or structure.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// Errors that keep a schema from being structural.
pub(super) fn problems(schema: &Value, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    invariants(schema, Level::Root, path, &mut errors);
    restrictions_have_fields(schema, Some(schema), path, path, &mut errors);
    errors.sort();
    errors
}

/// Reason for which a schema cannot be converted to a structural schema at all; `None` if it can.
pub(super) fn unreadable(schema: &Value) -> Option<String> {
    const UNSUPPORTED: [&str; 7] = [
        "id",
        "$schema",
        "$ref",
        "patternProperties",
        "dependencies",
        "additionalItems",
        "definitions",
    ];
    if let Some(field) = UNSUPPORTED.into_iter().find(|field| !is_zero(&schema[*field])) {
        let name = if field == "$schema" { "schema" } else { field };
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if schema[PRESERVE] == false {
        return Some(format!("internal error: '{PRESERVE}' must be true or undefined"));
    }
    if schema["items"].is_array() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".into());
    }
    super::inner(schema).find_map(|(_, it)| unreadable(it))
}

/// True for null, false, zero, and an empty text, list or map.
pub(super) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is) => !is,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    fields::map(schema, "/properties").into_iter().flatten()
}

fn invariants(schema: &Value, level: Level, path: &str, errors: &mut FieldErrors) {
    if fields::text(schema, "/type") == "array" && !schema["items"].is_object() {
        errors.required(format!("{path}.items"), "must be specified");
    }
    if schema["items"].is_object() {
        invariants(&schema["items"], Level::Item, &format!("{path}.items"), errors);
    }
    for (name, property) in properties(schema) {
        invariants(property, Level::Field, &format!("{path}.properties[{name}]"), errors);
    }
    let others = &schema["additionalProperties"];
    if !others.is_null() {
        let path = format!("{path}.additionalProperties");
        if level == Level::Root {
            errors.forbidden(path.as_str(), "must not be used at the root");
        }
        if others.is_object() {
            invariants(others, Level::Field, &path, errors);
        }
    }
    extensions(schema, path, errors);
    let (skip_any, skip_all) = int_or_string(schema);
    restrictions(schema, skip_any, skip_all, path, errors);
    types(schema, level, path, errors);
    metadata(schema, level, path, errors);
}

fn extensions(schema: &Value, path: &str, errors: &mut FieldErrors) {
    for field in [PRESERVE, EMBEDDED] {
        if schema[INT_OR_STRING] == true && schema[field] == true {
            let why = format!("must be false if {INT_OR_STRING} is true");
            errors.invalid(format!("{path}.{field}"), &true.into(), &why);
        }
    }
}

fn types(schema: &Value, level: Level, path: &str, errors: &mut FieldErrors) {
    let kind = fields::text(schema, "/type");
    let at = format!("{path}.type");
    let is_free = schema[PRESERVE] == true || schema[INT_OR_STRING] == true;
    if schema[EMBEDDED] == true && kind != "object" {
        let why = format!("must be object if {EMBEDDED} is true");
        match kind {
            "" => errors.required(at.as_str(), &why),
            _ => errors.invalid(at.as_str(), &kind.into(), &why),
        }
    } else if kind.is_empty() && !is_free {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.required(at.as_str(), why);
    }
    if schema[EMBEDDED] == true && !schema["additionalProperties"].is_null() {
        let why = format!("must not be used if {EMBEDDED} is set");
        errors.forbidden(format!("{path}.additionalProperties"), &why);
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.invalid(at, &kind.into(), "must be object at the root");
    }
}

/// Checks the schemas of `kind`, `apiVersion` and `metadata` in the schema of a whole or embedded
/// object, and that the schema of an embedded object has properties or preserves unknown fields.
fn metadata(schema: &Value, level: Level, path: &str, errors: &mut FieldErrors) {
    let is_object = level == Level::Root || schema[EMBEDDED] == true;
    let of = |name: &str| schema["properties"].get(name);
    for field in ["kind", "apiVersion"] {
        if let Some(known) = of(field).filter(|_| is_object)
            && known["type"] != "string"
        {
            let kind = fields::text(known, "/type");
            errors.invalid(
                format!("{path}.properties[{field}].type"),
                &kind.into(),
                "must be string",
            );
        }
    }
    if let Some(known) = of("metadata") {
        let path = format!("{path}.properties[metadata]");
        if is_object && known["type"] != "object" {
            let kind = fields::text(known, "/type");
            errors.invalid(format!("{path}.type"), &kind.into(), "must be object");
        }
        if level == Level::Root && says_more_than_names(known) {
            errors.forbidden(
                path,
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            );
        }
    }
    if schema[EMBEDDED] == true && schema[PRESERVE] != true && properties(schema).next().is_none() {
        let why = format!("must not be empty if {EMBEDDED} is true without {PRESERVE}");
        errors.required(format!("{path}.properties"), &why);
    }
}

fn says_more_than_names(metadata: &Value) -> bool {
    let is_name = |(name, _): (&String, &Value)| matches!(name.as_str(), "name" | "generateName");
    let says = |(field, value): (&String, &Value)| match field.as_str() {
        "type" | "default" => false,
        "properties" => !properties(metadata).all(is_name),
        _ => !is_zero(value),
    };
    metadata.as_object().into_iter().flatten().any(says)
}

/// Returns two flags. The first is true if `anyOf` is the list of the types integer and string that
/// `x-kubernetes-int-or-string` permits; the second is the same for the `anyOf` in the first
/// `allOf`. No other schema inside `allOf`, `anyOf`, `oneOf` or `not` may name types.
fn int_or_string(schema: &Value) -> (bool, bool) {
    let pattern = json!([{"type": "integer"}, {"type": "string"}]);
    (schema["anyOf"] == pattern, schema["allOf"][0]["anyOf"] == pattern)
}

fn restrictions(
    schema: &Value,
    skip_any: bool,
    skip_all: bool,
    path: &str,
    errors: &mut FieldErrors,
) {
    for (field, is_skipped) in [("anyOf", skip_any), ("allOf", false), ("oneOf", false)] {
        let inner = fields::list(schema, &format!("/{field}")).iter().filter(|_| !is_skipped);
        for (at, one) in inner.enumerate() {
            let is_pattern = field == "allOf" && at == 0 && skip_all;
            restriction(one, is_pattern, &format!("{path}.{field}[{at}]"), errors);
        }
    }
    if schema["not"].is_object() {
        restriction(&schema["not"], false, &format!("{path}.not"), errors);
    }
    let pattern = fields::text(schema, "/pattern");
    if let Err(why) = patterns::compile(pattern) {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        errors.invalid(format!("{path}.pattern"), &pattern.into(), &why);
    }
}

/// Checks that a schema inside `allOf`, `anyOf`, `oneOf` or `not` only restricts values. The schema
/// must not define types, titles, descriptions, defaults, `nullable`, `additionalProperties` or
/// extensions, and must not mention `metadata`.
fn restriction(schema: &Value, skip_any: bool, path: &str, errors: &mut FieldErrors) {
    const EMPTY: [&str; 3] = ["type", "title", "description"];
    const FALSE: [&str; 4] = ["nullable", PRESERVE, EMBEDDED, INT_OR_STRING];
    const UNDEFINED: [&str; 3] = ["default", "x-kubernetes-list-type", "x-kubernetes-map-type"];
    restrictions(schema, skip_any, false, path, errors);
    if schema["items"].is_object() {
        restriction(&schema["items"], false, &format!("{path}.items"), errors);
    }
    for (name, property) in properties(schema) {
        restriction(property, false, &format!("{path}.properties[{name}]"), errors);
    }
    let mut forbid = |field: &str, why: &str| {
        let why = format!("must be {why} to be structural");
        errors.forbidden(format!("{path}.{field}"), &why);
    };
    for field in EMPTY.into_iter().filter(|field| !is_zero(&schema[*field])) {
        forbid(field, "empty");
    }
    for field in ["x-kubernetes-list-map-keys", "x-kubernetes-validations"] {
        if !is_zero(&schema[field]) {
            forbid(field, "empty");
        }
    }
    for field in FALSE.into_iter().filter(|field| schema[*field] == true) {
        forbid(field, "false");
    }
    for field in UNDEFINED.into_iter().filter(|field| !schema[*field].is_null()) {
        forbid(field, "undefined");
    }
    let others = &schema["additionalProperties"];
    if others.is_object() || *others == true {
        forbid("additionalProperties", "undefined");
    }
    if schema["properties"].get("metadata").is_some() {
        let path = format!("{path}.properties[metadata]");
        errors.forbidden(path, "must not be specified in a nested context");
    }
}

/// Checks that the schemas inside `allOf`, `anyOf`, `oneOf` and `not` of `schema` restrict only
/// fields that `defined` defines. `at` is the path of `schema`, `path` that of `defined`. If
/// `defined` is `None`, each of these schemas is an error.
fn restrictions_have_fields(
    schema: &Value,
    defined: Option<&Value>,
    path: &str,
    at: &str,
    errors: &mut FieldErrors,
) {
    if schema["not"].is_object() {
        restriction_has_fields(&schema["not"], defined, path, &format!("{at}.not"), errors);
    }
    for field in ["allOf", "anyOf", "oneOf"] {
        for (n, one) in fields::list(schema, &format!("/{field}")).iter().enumerate() {
            restriction_has_fields(one, defined, path, &format!("{at}.{field}[{n}]"), errors);
        }
    }
}

fn restriction_has_fields(
    schema: &Value,
    defined: Option<&Value>,
    path: &str,
    at: &str,
    errors: &mut FieldErrors,
) {
    let Some(defined) = defined else {
        return errors.required(path, &format!("because it is defined in {at}"));
    };
    restrictions_have_fields(schema, Some(defined), path, at, errors);
    if schema["items"].is_object() {
        let items = Some(&defined["items"]).filter(|it| it.is_object());
        let (path, at) = (format!("{path}.items"), format!("{at}.items"));
        restriction_has_fields(&schema["items"], items, &path, &at, errors);
    }
    for (name, property) in properties(schema) {
        let known = defined["properties"].get(name);
        let (path, at) = (format!("{path}.properties[{name}]"), format!("{at}.properties[{name}]"));
        restriction_has_fields(property, known, &path, &at, errors);
    }
}
