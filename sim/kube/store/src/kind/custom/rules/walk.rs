//! Evaluation of the rules of all schemas inside a schema, with the values before an update.

use std::sync::Arc;

use kube_cel::cel::Value as CelValue;
use kube_cel::cel::objects::OptionalValue;
use serde_json::{Map, Value};

use super::super::structural::{AdditionalProperties, ListType, Structural};
use crate::FieldErrors;

/// Findings of rules: errors, and warnings about values that an update does not change.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) errors: FieldErrors,
    pub(crate) warnings: FieldErrors,
}

/// A value and the value before the update that has the same place.
#[derive(Clone, Copy)]
struct Pair<'a> {
    schema: &'a Structural,
    new: &'a Value,
    old: &'a Value,
}

/// The places whose values decide whether an update has changed a value (ratcheting).
#[derive(Clone, Copy, Default)]
struct Places<'a> {
    here: Option<Pair<'a>>,
    /// The nearest place outside that exists before and after the update.
    outside: Option<Pair<'a>>,
}

/// Checks the rules of a schema and of all schemas inside it. `old` is the object before an update.
pub(crate) fn validate(
    schema: &Structural,
    object: &Value,
    old: Option<&Value>,
    found: &mut Found,
) {
    let here = old.map(|old| Pair { schema, new: object, old });
    walk(schema, "", object, old, Places { here, outside: None }, found);
}

fn walk(
    schema: &Structural,
    path: &str,
    value: &Value,
    old: Option<&Value>,
    places: Places<'_>,
    found: &mut Found,
) {
    if value.is_null() || !schema.has_rules {
        return;
    }
    let old = old.filter(|old| !old.is_null());
    if let Some(rules) = &schema.rules {
        rules.check(path, value, old, &|| places.is_unchanged(), found);
    }
    match value {
        Value::Object(map) => walk_map(schema, path, map, old, places, found),
        Value::Array(list) => {
            let Some(items) = schema.items.as_deref().filter(|it| it.has_rules) else { return };
            for (at, value) in list.iter().enumerate() {
                let old = before(schema, old, value);
                let places = places.item(schema, items, value);
                walk(items, &format!("{path}[{at}]"), value, old, places, found);
            }
        }
        _ => {}
    }
}

fn walk_map(
    schema: &Structural,
    path: &str,
    map: &Map<String, Value>,
    old: Option<&Value>,
    places: Places<'_>,
    found: &mut Found,
) {
    for (name, value) in map {
        let before = old.and_then(|old| old.get(name));
        if let Some(known) = schema.properties.get(name) {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            walk(known, &path, value, before, places.field(known, name), found);
        } else if let Some(AdditionalProperties::Like(like)) = &schema.others {
            let path = format!("{path}[{name}]");
            walk(like, &path, value, before, places.field(like, name), found);
        }
    }
}

/// Returns the element before the update that has the keys of `value`, in a list of type `map`.
pub(crate) fn before<'a>(
    schema: &Structural,
    old: Option<&'a Value>,
    value: &Value,
) -> Option<&'a Value> {
    let ListType::Map(keys) = &schema.list else { return None };
    let has_keys = |old: &&Value| keys.iter().all(|key| old.get(key) == value.get(key));
    old?.as_array()?.iter().find(has_keys)
}

impl<'a> Places<'a> {
    fn is_unchanged(self) -> bool {
        let Some(Pair { schema, new, old }) = self.here.or(self.outside) else { return false };
        // Another order of a list changes the generation, and thus the whole object.
        if self.outside.is_none() { new == old } else { is_equal(schema, new, old) }
    }

    fn field(self, schema: &'a Structural, name: &str) -> Self {
        let Some(here) = self.here else { return self };
        if self.outside.is_none() && matches!(name, "apiVersion" | "kind") {
            return Self::default();
        }
        let pair = || Some(Pair { schema, new: here.new.get(name)?, old: here.old.get(name)? });
        Self { here: pair(), outside: Some(here) }
    }

    fn item(self, list: &Structural, schema: &'a Structural, value: &'a Value) -> Self {
        let Some(here) = self.here else { return self };
        let old = before(list, Some(here.old), value);
        Self { here: old.map(|old| Pair { schema, new: value, old }), outside: Some(here) }
    }
}

/// True if two values are equal; the elements of a list of type `map` may have another order.
pub(crate) fn is_equal(schema: &Structural, one: &Value, other: &Value) -> bool {
    if one == other {
        return true;
    }
    match (one, other) {
        (Value::Array(list), Value::Array(others)) => {
            let Some(items) = schema.items.as_deref() else { return false };
            let is_kept = |value| {
                before(schema, Some(other), value).is_some_and(|old| is_equal(items, value, old))
            };
            list.len() == others.len() && list.iter().all(is_kept)
        }
        (Value::Object(map), Value::Object(others)) => {
            let is_kept = |(name, value): (&String, &Value)| {
                let Some(old) = others.get(name) else { return false };
                match (schema.properties.get(name), &schema.others) {
                    (Some(known), _) => is_equal(known, value, old),
                    (None, Some(AdditionalProperties::Like(like))) => is_equal(like, value, old),
                    _ => value == old,
                }
            };
            map.len() == others.len() && map.iter().all(is_kept)
        }
        _ => false,
    }
}

/// Returns the value of `oldSelf` in a rule with `optionalOldSelf`.
pub(super) fn optional(before: Option<CelValue>) -> CelValue {
    let optional = before.map_or_else(OptionalValue::none, OptionalValue::of);
    CelValue::Opaque(Arc::new(optional))
}

/// Returns the path for error messages; `<nil>` for the whole object.
pub(super) fn field(path: &str) -> &str {
    if path.is_empty() { "<nil>" } else { path }
}
