//! Types of known fields, where Go's decoder would insist on them, and instants as Go writes them.

use jiff::Timestamp;
use serde_json::Value;

use super::resource::shape;
use super::text::json_type;
use super::{FieldShape, ResourceDef, Shape};

/// Types of the fields that every object has.
const METADATA: [FieldShape; 10] = [
    shape("metadata.name", "ObjectMeta", Shape::String),
    shape("metadata.generateName", "ObjectMeta", Shape::String),
    shape("metadata.namespace", "ObjectMeta", Shape::String),
    shape("metadata.uid", "ObjectMeta", Shape::String),
    shape("metadata.resourceVersion", "ObjectMeta", Shape::String),
    shape("metadata.generation", "ObjectMeta", Shape::Int("int64")),
    shape("metadata.labels", "ObjectMeta", Shape::Strings),
    shape("metadata.annotations", "ObjectMeta", Shape::Strings),
    shape("metadata.ownerReferences", "ObjectMeta", Shape::List("[]v1.OwnerReference")),
    shape("metadata.finalizers", "ObjectMeta", Shape::StringList),
];

/// What Go's decoder says about the first field of the wrong type.
pub(super) fn complaint(def: &ResourceDef, body: &Value) -> Option<String> {
    if let Some(metadata) = body.get("metadata").filter(|it| !it.is_object() && !it.is_null()) {
        return Some(mismatch(json_type(metadata), &def.kind, "metadata", "v1.ObjectMeta"));
    }
    METADATA.iter().chain(def.shapes).find_map(|row| wrong_at(row, row.path, body))
}

/// Writes instants as Go does: in UTC, in seconds or microseconds.
pub(super) fn settle_instants(def: &ResourceDef, object: &mut Value) {
    for row in def.shapes {
        if matches!(row.shape, Shape::Time | Shape::MicroTime) {
            settle_at(row.shape, row.path, object);
        }
    }
}

/// Looks at the values at `path`; elements of lists are no steps of it.
fn wrong_at(row: &FieldShape, path: &str, value: &Value) -> Option<String> {
    match (value, path.split_once('.')) {
        (Value::Array(list), _) => list.iter().find_map(|element| wrong_at(row, path, element)),
        (Value::Object(map), None) => wrong(row, map.get(path)?),
        (Value::Object(map), Some((step, rest))) => wrong_at(row, rest, map.get(step)?),
        _ => None,
    }
}

fn settle_at(shape: Shape, path: &str, value: &mut Value) {
    match (value, path.split_once('.')) {
        (Value::Array(list), _) => {
            for element in list {
                settle_at(shape, path, element);
            }
        }
        (Value::Object(map), None) => {
            let Some(Value::String(text)) = map.get_mut(path) else { return };
            let Ok(instant) = text.parse::<Timestamp>() else { return };
            *text = if shape == Shape::MicroTime {
                format!("{instant:.6}")
            } else {
                Timestamp::from_second(instant.as_second()).unwrap_or(instant).to_string()
            };
        }
        (Value::Object(map), Some((step, rest))) => {
            if let Some(value) = map.get_mut(step) {
                settle_at(shape, rest, value);
            }
        }
        _ => {}
    }
}

fn wrong(row: &FieldShape, value: &Value) -> Option<String> {
    let FieldShape { path, parent, shape } = row;
    let not = |value: &Value, go: &str| Some(mismatch(json_type(value), parent, path, go));
    match (shape, value) {
        (_, Value::Null)
        | (Shape::String, Value::String(_))
        | (Shape::Bool, Value::Bool(_))
        | (Shape::Object(_), Value::Object(_)) => None,
        (Shape::String, _) => not(value, "string"),
        (Shape::Bool, _) => not(value, "bool"),
        (Shape::Int(_), Value::Number(number)) if number.is_i64() => None,
        (Shape::Int(go), Value::Number(number)) => {
            Some(mismatch(&format!("number {number}"), parent, path, go))
        }
        (Shape::List(go), Value::Array(list)) => {
            let element = go.strip_prefix("[]").unwrap_or(go);
            list.iter().find(|value| !value.is_object()).and_then(|value| not(value, element))
        }
        (Shape::Int(go) | Shape::List(go) | Shape::Object(go), _) => not(value, go),
        (Shape::Strings, Value::Object(map)) => {
            let wrong = map.values().find(|value| !value.is_string() && !value.is_null());
            wrong.and_then(|value| not(value, "string"))
        }
        (Shape::Strings, _) => not(value, "map[string]string"),
        (Shape::StringList, Value::Array(list)) => {
            list.iter().find(|value| !value.is_string()).and_then(|value| not(value, "string"))
        }
        (Shape::StringList, _) => not(value, "[]string"),
        (Shape::Time, Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(_) => None,
            Err(_) => Some(unreadable(text, "2006-01-02T15:04:05Z07:00", text, "2006")),
        },
        (Shape::MicroTime, Value::String(text)) => wrong_micro_time(text),
        (Shape::Time | Shape::MicroTime, _) => not(value, "string"),
    }
}

/// Go reads these with exactly six digits after the point, no more and no fewer.
fn wrong_micro_time(text: &str) -> Option<String> {
    const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
    const N_BEFORE: usize = "2006-01-02T15:04:05".len();
    const N_FRACTION: usize = ".000000".len();
    if text.parse::<Timestamp>().is_err() {
        return Some(unreadable(text, LAYOUT, text, "2006"));
    }
    let rest = text.get(N_BEFORE..).unwrap_or_default();
    let fraction = rest.get(..N_FRACTION).and_then(|it| it.strip_prefix('.'));
    if !fraction.is_some_and(|digits| digits.bytes().all(|c| c.is_ascii_digit())) {
        return Some(unreadable(text, LAYOUT, rest, ".000000"));
    }
    let zone = &rest[N_FRACTION..];
    let is_zone = zone.starts_with(['Z', '+', '-']);
    (!is_zone).then(|| unreadable(text, LAYOUT, zone, "Z07:00"))
}

fn unreadable(text: &str, layout: &str, rest: &str, part: &str) -> String {
    format!("parsing time \"{text}\" as \"{layout}\": cannot parse \"{rest}\" as \"{part}\"")
}

fn mismatch(found: &str, parent: &str, path: &str, go: &str) -> String {
    format!("json: cannot unmarshal {found} into Go struct field {parent}.{path} of type {go}")
}
