//! Checks that the defaults of a schema conform to the schema.
//!
//! Follows `apiextensions-apiserver: pkg/apiserver/schema/defaulting/validation.go`. Of defaults in
//! the metadata of embedded objects, checks only the values, not unknown fields or the rules for
//! metadata.

use serde_json::Value;

use crate::FieldErrors;
use crate::kind::custom;
use crate::kind::custom::{Structural, rules};
use crate::object::fields;

/// Checks all defaults of a structural schema, except those below `additionalProperties`.
pub(super) fn validate(schema: &Value, path: &str, errors: &mut FieldErrors) {
    walk(schema, path, true, false, errors);
}

fn walk(schema: &Value, path: &str, is_object: bool, in_meta: bool, errors: &mut FieldErrors) {
    let is_object = is_object || schema["x-kubernetes-embedded-resource"] == true;
    let in_meta = in_meta && !is_object;
    if !schema["default"].is_null() {
        check(schema, &format!("{path}.default"), in_meta, errors);
    }
    if schema["items"].is_object() {
        walk(&schema["items"], &format!("{path}.items"), false, in_meta, errors);
    }
    for (name, property) in fields::map(schema, "/properties").into_iter().flatten() {
        let is_system = matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        let in_meta = in_meta || is_object && is_system;
        walk(property, &format!("{path}.properties[{name}]"), false, in_meta, errors);
    }
}

fn check(schema: &Value, path: &str, in_meta: bool, errors: &mut FieldErrors) {
    let structural = Structural::read(schema);
    let value = &schema["default"];
    if !in_meta && custom::has_unknown(&structural, value) {
        errors.invalid(path, value, "must not have unknown fields");
    }
    let mut found = FieldErrors::default();
    if !in_meta {
        custom::validate_embedded(&structural, value, "", &mut found);
    }
    if found.is_empty() {
        custom::validate_value(&structural, value, &mut found);
        let mut in_rules = rules::Found::default();
        rules::validate(&structural, value, None, &mut in_rules);
        found.append(in_rules.errors);
    }
    errors.add_below(path, found);
}
