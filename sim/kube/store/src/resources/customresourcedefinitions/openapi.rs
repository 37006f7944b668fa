//! Checks of the schemas in a CustomResourceDefinition, structural or not.
//!
//! Follows `ValidateCustomResourceDefinitionOpenAPISchema` of
//! `apiextensions-apiserver: pkg/apis/apiextensions/validation/validation.go`. The real server
//! checks properties in random order; this module checks them in the order of the definition.

use serde_json::Value;

use super::rules;
use super::structural::is_zero;
use crate::FieldErrors;
use crate::object::fields;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const LIST_TYPE: &str = "x-kubernetes-list-type";
const LIST_KEYS: &str = "x-kubernetes-list-map-keys";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// Place of a schema inside a definition, as far as the checks of the schema depend on it.
#[derive(Clone, Copy, Default)]
pub(super) struct Place<'a> {
    is_root: bool,
    is_in_metadata: bool,
    /// The place in which a default is not allowed, in the words of error texts after "must not be
    /// set", such as `in top-level kind`; empty if a default is allowed.
    no_defaults: &'a str,
    rules: rules::Place<'a>,
}

impl Place<'_> {
    /// Place of the schema of a whole object. `compiles_rules` is false if other errors make a check
    /// of rules pointless.
    pub(super) fn root(compiles_rules: bool) -> Self {
        let rules = rules::Place { is_compiled: compiles_rules, uncorrelated: None };
        Self { is_root: true, rules, ..Self::default() }
    }
}

/// Checks a schema and all schemas inside it. Adds the errors of rules that do not compile to
/// `in_rules`.
pub(super) fn validate(
    schema: &Value,
    path: &str,
    place: Place<'_>,
    errors: &mut FieldErrors,
    in_rules: &mut FieldErrors,
) {
    let n_before = errors.len();
    unsupported(schema, path, place, errors);
    if schema["uniqueItems"] == true {
        let why =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(format!("{path}.uniqueItems"), why);
    }
    inside(schema, path, place, errors, in_rules);
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
        errors.invalid(field, &false.into(), "must be true or undefined");
    }
    map_type(schema, path, errors);
    list_type(schema, path, errors);
    list_keys(schema, path, errors);
    items_of_sets_and_maps(schema, path, errors);
    rules::validate(schema, path, errors);
    if errors.len() == n_before && place.rules.is_compiled {
        let is_object = place.is_root || schema[EMBEDDED] == true;
        rules::compile(schema, path, is_object, place.rules, in_rules);
    }
}

fn unsupported(schema: &Value, path: &str, place: Place<'_>, errors: &mut FieldErrors) {
    let kind = fields::text(schema, "/type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.not_supported(format!("{path}.type"), kind, &TYPES);
    }
    if !schema["default"].is_null() && !place.no_defaults.is_empty() {
        let why = format!("must not be set {}", place.no_defaults);
        errors.forbidden(format!("{path}.default"), &why);
    }
    let fields =
        ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];
    for field in fields {
        let is_set = match field {
            "additionalItems" | "$ref" | "dependencies" => !schema[field].is_null(),
            _ => !is_zero(&schema[field]),
        };
        if is_set {
            errors.forbidden(format!("{path}.{field}"), &format!("{field} is not supported"));
        }
    }
    if kind == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        errors.forbidden(format!("{path}.type"), why);
    }
    if schema["items"].as_array().is_some_and(|items| !items.is_empty()) {
        let why = "items must be a schema object and not an array";
        errors.forbidden(format!("{path}.items"), why);
    }
    if place.is_in_metadata && schema[EMBEDDED] == true {
        let why = "must not be used inside of resource meta";
        errors.forbidden(format!("{path}.{EMBEDDED}"), why);
    }
}

/// Checks the schemas inside a schema.
fn inside(
    schema: &Value,
    path: &str,
    place: Place<'_>,
    errors: &mut FieldErrors,
    in_rules: &mut FieldErrors,
) {
    let below = Place { is_root: false, ..place };
    let uncompiled = rules::Place { is_compiled: false, ..place.rules };
    let alternative = Place { rules: uncompiled, ..below };
    let others = &schema["additionalProperties"];
    let has_properties = !is_zero(&schema["properties"]);
    if has_properties && (others.is_object() || *others == false) {
        let why = "additionalProperties and properties are mutual exclusive";
        errors.forbidden(format!("{path}.additionalProperties"), why);
    }
    if others.is_object() {
        let mut place = below;
        if place.is_in_metadata {
            place.no_defaults = "inside additionalProperties applying to object metadata";
        }
        validate(others, &format!("{path}.additionalProperties"), place, errors, in_rules);
    }
    for (name, property) in fields::map(schema, "/properties").into_iter().flatten() {
        let is_object = place.is_root || schema[EMBEDDED] == true;
        let is_system = matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
        let is_in_metadata = place.is_in_metadata || is_object && is_system;
        let reason = format!("in top-level {name}");
        let no_defaults = if place.is_root && is_system { &reason } else { place.no_defaults };
        let place = Place { is_in_metadata, no_defaults, ..below };
        validate(property, &format!("{path}.properties[{name}]"), place, errors, in_rules);
    }
    if schema["not"].is_object() {
        validate(&schema["not"], &format!("{path}.not"), alternative, errors, in_rules);
    }
    for field in ["allOf", "oneOf", "anyOf"] {
        for (at, one) in fields::list(schema, &format!("/{field}")).iter().enumerate() {
            validate(one, &format!("{path}.{field}[{at}]"), alternative, errors, in_rules);
        }
    }
    if schema["items"].is_object() {
        let mut place = below;
        if schema[LIST_TYPE] != "map" {
            place.rules.uncorrelated.get_or_insert(path);
        }
        validate(&schema["items"], &format!("{path}.items"), place, errors, in_rules);
    }
}

fn map_type(schema: &Value, path: &str, errors: &mut FieldErrors) {
    let Some(map_type) = schema[MAP_TYPE].as_str() else { return };
    needs_type(schema, "object", MAP_TYPE, path, errors);
    if !matches!(map_type, "atomic" | "granular") {
        errors.not_supported(format!("{path}.{MAP_TYPE}"), map_type, &["atomic", "granular"]);
    }
}

fn needs_type(schema: &Value, wanted: &str, of: &str, path: &str, errors: &mut FieldErrors) {
    let why = format!("must be {wanted} if {of} is specified");
    match fields::text(schema, "/type") {
        kind if kind == wanted => {}
        "" => errors.required(format!("{path}.type"), &why),
        kind => errors.invalid(format!("{path}.type"), &kind.into(), &why),
    }
}

fn list_type(schema: &Value, path: &str, errors: &mut FieldErrors) {
    let Some(list_type) = schema[LIST_TYPE].as_str() else { return };
    needs_type(schema, "array", LIST_TYPE, path, errors);
    let items = &schema["items"];
    if schema["type"] == "array" && list_type == "set" && items.is_object() {
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let is_atomic = |field: &str| items[field] == "atomic";
        let kind = fields::text(items, "/type");
        if kind == "array" && !items[LIST_TYPE].is_null() && !is_atomic(LIST_TYPE) {
            errors.invalid(format!("{path}.items.{LIST_TYPE}"), &items[LIST_TYPE], why);
        }
        // For maps too, the real server shows the list type as the wrong value.
        if kind == "object" && !is_atomic(MAP_TYPE) {
            errors.invalid(format!("{path}.items.{MAP_TYPE}"), &items[LIST_TYPE], why);
        }
    }
    if !matches!(list_type, "atomic" | "set" | "map") {
        errors.not_supported(format!("{path}.{LIST_TYPE}"), list_type, &["atomic", "set", "map"]);
    }
}

fn list_keys(schema: &Value, path: &str, errors: &mut FieldErrors) {
    let keys = fields::list(schema, &format!("/{LIST_KEYS}"));
    let list_type = schema[LIST_TYPE].as_str();
    if !keys.is_empty() && list_type != Some("map") {
        let why = format!("must be map if {LIST_KEYS} is non-empty");
        match list_type {
            None => errors.required(format!("{path}.{LIST_TYPE}"), &why),
            Some(other) => errors.invalid(format!("{path}.{LIST_TYPE}"), &other.into(), &why),
        }
    }
    if list_type != Some("map") {
        return;
    }
    let at = format!("{path}.{LIST_KEYS}");
    if keys.is_empty() {
        errors.required(at.as_str(), &format!("must not be empty if {LIST_TYPE} is map"));
    }
    let items = &schema["items"];
    if !items.is_object() {
        let why = format!("must have a schema if {LIST_TYPE} is map");
        return errors.required(format!("{path}.items"), &why);
    }
    if items["type"] != "object" {
        let why = format!("must be object if parent array's {LIST_TYPE} is map");
        let kind = fields::text(items, "/type");
        return errors.invalid(format!("{path}.items.type"), &kind.into(), &why);
    }
    for (n, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        match items["properties"].get(name) {
            None => {
                errors.invalid(
                    at.as_str(),
                    &keys.into(),
                    "entries must all be names of item properties",
                );
            }
            Some(known) if matches!(known["type"].as_str(), Some("array" | "object")) => {
                let why = format!("must be a scalar type if parent array's {LIST_TYPE} is map");
                let path = format!("{path}.items.properties[{name}].type");
                errors.invalid(path, &items["type"], &why);
            }
            Some(_) => {}
        }
        if keys[..n].contains(key) {
            errors.invalid(at.as_str(), &keys.into(), "must not contain duplicate entries");
        }
    }
}

fn items_of_sets_and_maps(schema: &Value, path: &str, errors: &mut FieldErrors) {
    let items = &schema["items"];
    let Some(list_type @ ("set" | "map")) = schema[LIST_TYPE].as_str() else { return };
    if !items.is_object() {
        return;
    }
    if items["nullable"] == true {
        let why = format!("cannot be nullable when {LIST_TYPE} is {list_type}");
        errors.forbidden(format!("{path}.items.nullable"), &why);
    }
    if list_type == "set" {
        return;
    }
    for key in fields::list(schema, &format!("/{LIST_KEYS}")) {
        let name = key.as_str().unwrap_or_default();
        let Some(known) = items["properties"].get(name) else { continue };
        let path = format!("{path}.items.properties[{name}]");
        let why = format!("this property is in {LIST_KEYS}, so it");
        if !fields::list(items, "/required").contains(key) && known["default"].is_null() {
            let why = format!("{why} must have a default or be a required property");
            errors.required(format!("{path}.default"), &why);
        }
        if known["nullable"] == true {
            errors.forbidden(format!("{path}.nullable"), &format!("{why} cannot be nullable"));
        }
    }
}
