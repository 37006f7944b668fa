//! Merge patches that touch only what changes.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::controllers::quantity::Quantity;

/// Values to set (`Some`) or to remove (`None`), by key. Other keys stay as they are.
pub(super) type Wanted = BTreeMap<String, Option<String>>;

/// Returns the merge patch that makes `current` contain the wanted values; `None` if it already
/// does. The patch removes the whole object if nothing would be left in it.
pub(super) fn difference(
    current: &Value,
    wanted: &Wanted,
    is_same: fn(&str, &str) -> bool,
) -> Option<Value> {
    let mut patch = Map::new();
    for (key, value) in wanted {
        match (value, current.get(key)) {
            (Some(text), Some(Value::String(old))) if is_same(old, text) => {}
            (Some(text), _) => {
                patch.insert(key.clone(), text.as_str().into());
            }
            (None, Some(_)) => {
                patch.insert(key.clone(), Value::Null);
            }
            (None, None) => {}
        }
    }
    (!patch.is_empty()).then(|| or_removal(current, patch))
}

/// Returns the patch of an object, or its removal if the patch would leave it empty.
pub(super) fn or_removal(current: &Value, patch: Map<String, Value>) -> Value {
    let mut held = current.as_object().into_iter().flat_map(Map::keys);
    let removes = |key: &String| patch.get(key).is_some_and(Value::is_null);
    if patch.values().all(Value::is_null) && held.all(removes) {
        return Value::Null;
    }
    patch.into()
}

/// True if two texts are the same amount.
pub(super) fn is_same_quantity(one: &str, other: &str) -> bool {
    match (Quantity::of_object(one), Quantity::of_object(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

/// True if two texts are equal.
pub(super) fn is_same_text(one: &str, other: &str) -> bool {
    one == other
}
