//! Checks of values against a structural schema, with the real server's error texts.
//!
//! Follows `kube-openapi: pkg/validation/validate` and, for the texts,
//! `apiextensions-apiserver: pkg/apiserver/validation/validation.go`. The real server checks the
//! properties of an object in random order; this module checks them in the sorted order of the
//! object.

use serde_json::{Map, Value};

use super::formats;
use super::numbers;
use super::rules;
use super::structural::{AdditionalProperties, ListType, Structural};
use crate::FieldErrors;
use crate::values::text;

/// Checks a whole object against its schema. `old` is the object before an update. Does not check
/// embedded objects, the uniqueness of list elements, and the general rules for metadata.
pub(super) fn check_schema(
    schema: &Structural,
    object: &Value,
    old: Option<&Value>,
    errors: &mut FieldErrors,
) {
    check_changed(schema, object, old, "", errors);
}

/// Checks a value, except for the uniqueness of list elements and for embedded objects.
pub(crate) fn validate_value(schema: &Structural, value: &Value, errors: &mut FieldErrors) {
    check(schema, value, None, "", errors);
}

/// Checks only the status, as the real server does on a write to the status subresource: the paths
/// inside messages begin below `status`.
pub(super) fn check_status(
    schema: &Structural,
    object: &Value,
    old: &Value,
    errors: &mut FieldErrors,
) {
    let (Some(schema), Some(status)) = (schema.properties.get("status"), object.get("status"))
    else {
        return;
    };
    let mut found = FieldErrors::default();
    check_changed(schema, status, old.get("status"), "", &mut found);
    errors.add_below("status", found);
}

/// Reports duplicate elements of lists of type `set` or `map`, unless the object before an update
/// has such duplicates too.
pub(super) fn check_lists_of(
    schema: &Structural,
    object: &Value,
    old: Option<&Value>,
    errors: &mut FieldErrors,
) {
    let mut found = FieldErrors::default();
    if let Some(old) = old {
        check_lists(schema, old, "", &mut found);
    }
    if found.is_empty() {
        check_lists(schema, object, "", errors);
    }
}

/// Checks that the number of replicas at `pointer`, if it exists, is from 0 to the maximum of an
/// `i32`, even if the schema allows more.
pub(crate) fn int32_at(object: &Value, pointer: &str, errors: &mut FieldErrors) {
    let Some(value) = object.pointer(pointer) else { return };
    let field = pointer.replace('/', ".");
    let Some(number) = value.as_i64() else {
        let kind = match text::go_type(value) {
            "slice" => "[]interface {}",
            "map" => "map[string]interface {}",
            kind => kind,
        };
        let shown = text::go(value);
        let why = format!("{field} accessor error: {shown} is of the type {kind}, expected int64");
        errors.invalid(field, &0.into(), &why);
        return;
    };
    if number < 0 {
        errors.invalid(field, &number.into(), "should be a non-negative integer");
    } else if number > i64::from(i32::MAX) {
        let why = format!("should be less than or equal to {}", i32::MAX);
        errors.invalid(field, &number.into(), &why);
    }
}

/// Checks a value. Ignores its errors if it is equal to `old`, the value before an update.
fn check_changed(
    schema: &Structural,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    errors: &mut FieldErrors,
) {
    let mut found = FieldErrors::default();
    check(schema, value, old, path, &mut found);
    let is_kept = || old.is_some_and(|old| rules::is_equal(schema, value, old));
    if !found.is_empty() && !is_kept() {
        errors.append(found);
    }
}

fn check(
    schema: &Structural,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    errors: &mut FieldErrors,
) {
    if value.is_null() && schema.is_nullable {
        return;
    }
    check_type(schema, value, path, errors);
    check_alternatives(schema, value, path, errors);
    match value {
        Value::String(text) => check_text(schema, text, path, errors),
        Value::Number(_) => numbers::check(schema, value, path, errors),
        Value::Array(list) => check_list(schema, list, old, path, errors),
        _ => {}
    }
    if !schema.allowed.is_empty() && !numbers::is_among(value, &schema.allowed) {
        errors.not_among(field(path), value, &schema.allowed);
    }
    if let Value::Object(map) = value {
        check_object(schema, map, old, path, errors);
    }
}

fn check_type(schema: &Structural, value: &Value, path: &str, errors: &mut FieldErrors) {
    let found = type_of(value);
    let is_right = if schema.is_int_or_string {
        matches!(found, "integer" | "string")
    } else {
        schema.kind.is_empty()
            || schema.kind == found
            || schema.kind == "number" && found == "integer"
    };
    if is_right {
        return;
    }
    if matches!(schema.kind.as_str(), "integer" | "number")
        && !schema.format.is_empty()
        && !matches!(value, Value::Null | Value::String(_) | Value::Array(_))
    {
        let found = numbers::go_type(value);
        let why = format!("{path} in body must be of type {}: \"{found}\"", schema.format);
        errors.wrong_type(field(path), &found.into(), &why);
        return;
    }
    let wanted = if schema.is_int_or_string { "integer,string" } else { &schema.kind };
    let why = format!("{path} in body must be of type {wanted}: \"{found}\"");
    errors.wrong_type(field(path), &found.into(), &why);
}

fn check_alternatives(schema: &Structural, value: &Value, path: &str, errors: &mut FieldErrors) {
    let fits = |one: &Structural| {
        let mut found = FieldErrors::default();
        check(one, value, None, path, &mut found);
        found.is_empty()
    };
    for one in &schema.all_of {
        check(one, value, None, path, errors);
    }
    let name = field(path);
    if !schema.any_of.is_empty() && !schema.any_of.iter().any(fits) {
        let why = format!("{name} in body must validate at least one schema (anyOf)");
        errors.invalid(name, &value_in_message(value), &why);
    }
    if !schema.one_of.is_empty() {
        match schema.one_of.iter().filter(|one| fits(one)).count() {
            1 => {}
            0 => {
                let why = format!(
                    "{name} in body must validate one and only one schema (oneOf). Found none valid"
                );
                errors.invalid(name, &value_in_message(value), &why);
            }
            n => {
                let why = format!(
                    "{name} in body must validate one and only one schema (oneOf). Found {n} valid alternatives"
                );
                errors.invalid(name, &value_in_message(value), &why);
            }
        }
    }
    if schema.not.as_deref().is_some_and(fits) {
        let why = format!("{name} in body must not validate the schema (not)");
        errors.invalid(name, &value_in_message(value), &why);
    }
}

fn check_text(schema: &Structural, text: &str, path: &str, errors: &mut FieldErrors) {
    check_shape(schema, text, path, errors);
    if !formats::fits(&schema.format, text) {
        let why = format!("{path} in body must be of type {}: \"{text}\"", schema.format);
        errors.wrong_type(path, &text.into(), &why);
    }
}

/// Checks the length and the pattern of a text; reports only the first problem.
fn check_shape(schema: &Structural, text: &str, path: &str, errors: &mut FieldErrors) {
    let n_chars = text.chars().count() as u64;
    let (min, max) = schema.lengths;
    if let Some(max) = max.filter(|max| n_chars > *max) {
        errors.too_long(path, usize::try_from(max).unwrap_or(usize::MAX));
    } else if let Some(min) = min.filter(|min| n_chars < *min) {
        let why = format!("{path} in body should be at least {min} chars long");
        errors.invalid(path, &text.into(), &why);
    } else if let Some((pattern, regex)) = &schema.pattern
        && !regex.as_ref().is_some_and(|regex| regex.is_match(text))
    {
        let why = format!("{path} in body should match '{pattern}'");
        errors.invalid(path, &text.into(), &why);
    }
}

fn check_list(
    schema: &Structural,
    list: &[Value],
    old: Option<&Value>,
    path: &str,
    errors: &mut FieldErrors,
) {
    let (min, max) = schema.n_items;
    if let Some(items) = &schema.items {
        for (at, value) in list.iter().enumerate() {
            let old = rules::before(schema, old, value);
            check_changed(items, value, old, &format!("{path}[{at}]"), errors);
        }
    }
    let n_items = list.len() as u64;
    if let Some(min) = min.filter(|min| n_items < *min) {
        let why = format!("{path} in body should have at least {min} items");
        errors.invalid(path, &n_items.into(), &why);
    }
    if let Some(max) = max.filter(|max| n_items > *max) {
        errors.too_many(path, list.len(), usize::try_from(max).unwrap_or(usize::MAX));
    }
}

fn check_object(
    schema: &Structural,
    map: &Map<String, Value>,
    old: Option<&Value>,
    path: &str,
    errors: &mut FieldErrors,
) {
    let (min, max) = schema.n_properties;
    let n_properties = map.len() as u64;
    if let Some(min) = min.filter(|min| n_properties < *min) {
        let why = format!("{} in body should have at least {min} properties", field(path));
        errors.invalid(field(path), &n_properties.into(), &why);
    }
    if let Some(max) = max.filter(|max| n_properties > *max) {
        errors.too_many(field(path), map.len(), usize::try_from(max).unwrap_or(usize::MAX));
    }
    for name in schema.required.iter().filter(|name| !map.contains_key(*name)) {
        errors.required(join(path, name), "");
    }
    for (name, value) in map {
        // The apiVersion and kind of a whole object are never taken for unchanged.
        let is_type = path.is_empty() && matches!(name.as_str(), "apiVersion" | "kind");
        let old = old.filter(|_| !is_type).and_then(|old| old.get(name));
        if let Some(known) = schema.properties.get(name) {
            check_changed(known, value, old, &join(path, name), errors);
        } else if let Some(AdditionalProperties::Like(like)) = &schema.others {
            check_changed(like, value, old, &join(path, name), errors);
        }
    }
}

/// Reports duplicate elements of lists of type `set` or `map`.
fn check_lists(schema: &Structural, value: &Value, path: &str, errors: &mut FieldErrors) {
    match value {
        Value::Array(list) => {
            let identity = |value: &Value| match &schema.list {
                ListType::Atomic => None,
                ListType::Set => Some(value.clone()),
                ListType::Map(keys) => {
                    let pairs =
                        keys.iter().filter_map(|key| Some((key.clone(), value.get(key)?.clone())));
                    Some(Value::Object(pairs.collect()))
                }
            };
            let identities: Vec<Option<Value>> = list.iter().map(identity).collect();
            let mut told = Vec::new();
            for (at, one) in identities.iter().enumerate() {
                let Some(one) = one else { break };
                // The real server names each duplicate value once.
                if identities[..at].contains(&Some(one.clone())) && !told.contains(one) {
                    errors.duplicate(format!("{path}[{at}]"), one, "");
                    told.push(one.clone());
                }
            }
            if let Some(items) = &schema.items {
                for (at, value) in list.iter().enumerate() {
                    check_lists(items, value, &format!("{path}[{at}]"), errors);
                }
            }
        }
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(known) = schema.properties.get(name) {
                    check_lists(known, value, &join(path, name), errors);
                } else if let Some(AdditionalProperties::Like(like)) = &schema.others {
                    check_lists(like, value, &join(path, name), errors);
                }
            }
        }
        _ => {}
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns a value in the form for messages about `anyOf`, `oneOf` and `not`: the type of a list or
/// an object, any other value itself.
fn value_in_message(value: &Value) -> Value {
    match value {
        Value::Array(_) | Value::Object(_) => type_of(value).into(),
        other => other.clone(),
    }
}

/// Returns the path for error messages; `<nil>` for the whole object.
fn field(path: &str) -> &str {
    if path.is_empty() { "<nil>" } else { path }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
