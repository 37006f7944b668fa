//! Access to fields of objects by name or by JSON pointer.

use serde_json::{Map, Value};

/// Returns the text at a JSON pointer; empty if the object has no text there.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the list at a JSON pointer; empty if the object has no list there.
pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the map at a JSON pointer; `None` if the object has no map there.
pub(crate) fn map<'a>(object: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    object.pointer(pointer).and_then(Value::as_object)
}

/// Returns the map under `field`. Puts an empty map there if the field is missing or not a map.
/// First replaces an `object` that is not a map by an empty map.
pub(crate) fn map_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    let slot = as_map(object).entry(field).or_insert(Value::Null);
    as_map(slot)
}

/// Returns `value` as a map. Replaces a value that is not a map by an empty map.
pub(crate) fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object right above"),
    }
}

/// Sets `field` to `value` if it is missing or null.
pub(crate) fn default_to(map: &mut Map<String, Value>, field: &str, value: impl Into<Value>) {
    if map.get(field).is_none_or(Value::is_null) {
        map.insert(field.into(), value.into());
    }
}

/// Copies `field` from one object to another; removes it from `to` if `from` does not have it.
pub(crate) fn copy(from: &Value, to: &mut Value, field: &str) {
    match from.get(field) {
        Some(value) => {
            as_map(to).insert(field.into(), value.clone());
        }
        None => {
            as_map(to).shift_remove(field);
        }
    }
}

/// Returns the elements of the list under `field`; none if `field` is not a list.
pub(crate) fn list_mut<'a>(
    object: &'a mut Value,
    field: &str,
) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Sets `field` to `value` if it is missing, null, an empty text or zero.
pub(crate) fn default_if_empty(map: &mut Map<String, Value>, field: &str, value: impl Into<Value>) {
    let is_empty = |it: &Value| it.is_null() || it == "" || it == 0;
    if map.get(field).is_none_or(is_empty) {
        map.insert(field.into(), value.into());
    }
}

/// Returns the list under `field`. Puts an empty list there if the field is missing or has another
/// value.
pub(crate) fn as_list<'a>(map: &'a mut Map<String, Value>, field: &str) -> &'a mut Vec<Value> {
    let slot = map.entry(field).or_insert(Value::Null);
    if !slot.is_array() {
        *slot = Value::Array(Vec::new());
    }
    match slot {
        Value::Array(list) => list,
        _ => unreachable!("made a list right above"),
    }
}
