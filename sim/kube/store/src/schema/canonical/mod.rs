//! Check for settled documents: documents that decoding would not change.
//!
//! Most writes, above all those of simulated kubelets, contain a document that the store returned
//! before, with one or two changed fields. Decoding builds a new document. This check copies
//! nothing, and a settled document needs no decoding. The check may refuse a document that decoding
//! would not change, but it never accepts one that decoding would change.

use serde_json::Value;

use super::decode::{RESOURCES, bytes};
use super::quantity;
use super::time::rfc3339;
use super::types::{Struct, Type, Types};

/// True only if [`super::decode`] accepts `document` without complaint and returns an equal
/// document with the same order of fields.
pub(crate) fn is_canonical(root: &Struct, document: &Value) -> bool {
    structure(Types::builtin(), root, document)
}

fn structure(types: &Types, of: &Struct, value: &Value) -> bool {
    let Value::Object(given) = value else { return false };
    let mut fields = of.fields.iter();
    for (name, value) in given {
        // The search passes over the fields that the document does not have. Only fields that Go
        // omits if they are empty may be missing.
        let Some(field) = fields.find(|field| field.name == name || !field.omitted) else {
            return false;
        };
        if field.name != name || !is_value(types, &field.of, value, !field.omitted) {
            return false;
        }
    }
    fields.all(|field| field.omitted)
}

/// True only if decoding would not change a value of type `of`. `keeps_zero` is true if Go writes
/// an empty value in this place.
fn is_value(types: &Types, of: &Type, value: &Value, keeps_zero: bool) -> bool {
    match (of, value) {
        (Type::Struct(at), _) => types.at(*at).is_some_and(|of| structure(types, of, value)),
        (_, Value::Null) => keeps_zero && of.is_nullable(),
        (Type::Pointer(inner), _) => is_value(types, inner, value, true),
        (Type::String(_), Value::String(text)) => keeps_zero || !text.is_empty(),
        (Type::Bool, Value::Bool(flag)) => keeps_zero || *flag,
        (Type::Int(go), Value::Number(number)) => is_integer(go, number.as_i64(), keeps_zero),
        (Type::IntOrString, Value::Number(number)) => {
            is_integer("int32", number.as_i64(), keeps_zero)
        }
        (Type::Float, Value::Number(_)) | (Type::IntOrString, Value::String(_)) => true,
        (Type::Raw, _) => true,
        (Type::Bytes, Value::String(text)) => bytes(text).is_ok_and(|read| read == *value),
        (Type::Time, Value::String(text)) => is_time(text, ""),
        (Type::MicroTime, Value::String(text)) => is_time(text, ".000000"),
        (Type::Quantity, Value::String(text)) => {
            quantity::canonical(value).is_ok_and(|written| written == *text)
        }
        (Type::List(_, element), Value::Array(list)) => {
            !list.is_empty() && list.iter().all(|value| is_value(types, element, value, true))
        }
        (Type::Map(go, of), Value::Object(map)) => {
            !map.is_empty()
                && map.keys().is_sorted()
                && map.values().all(|value| is_entry(types, go, of, value))
        }
        _ => false,
    }
}

/// True only if decoding would not change `value`, which is a value of a map. `go` is the name of
/// the map's type in Go, and `of` is the type of the map's values.
fn is_entry(types: &Types, go: &str, of: &Type, value: &Value) -> bool {
    match (of, value) {
        (Type::Bytes, Value::Null) => false,
        (Type::Quantity, Value::String(text)) if go == RESOURCES => {
            quantity::amount(value).is_ok_and(|written| written == *text)
        }
        _ => is_value(types, of, value, true),
    }
}

fn is_integer(go: &str, whole: Option<i64>, keeps_zero: bool) -> bool {
    whole.is_some_and(|whole| {
        (keeps_zero || whole != 0) && (go != "int32" || i32::try_from(whole).is_ok())
    })
}

/// True for a time in UTC in the form in which decoding writes it, except Go's zero time.
/// `fraction` is an example of the fraction, such as `.000000`; empty for whole seconds.
fn is_time(text: &str, fraction: &str) -> bool {
    const SECONDS: &str = "2026-03-01T08:00:00";
    let has_form = |text: &str, form: &str| {
        text.len() == form.len()
            && text.bytes().zip(form.bytes()).all(|(found, wanted)| {
                if wanted.is_ascii_digit() { found.is_ascii_digit() } else { found == wanted }
            })
    };
    let parts = text.strip_suffix('Z').and_then(|text| text.split_at_checked(SECONDS.len()));
    parts.is_some_and(|(whole, rest)| has_form(whole, SECONDS) && has_form(rest, fraction))
        && rfc3339(text).is_ok_and(|time| !time.is_zero(!fraction.is_empty()))
}

#[cfg(test)]
mod tests;
