//! Conversion of objects to the values of expressions.
//!
//! Follows `apiserver: pkg/cel/common/values.go`.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube_cel::cel::common::ast::{Expr, LiteralValue};
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, Value as CelValue};
use serde_json::Value;

use super::super::formats;
use super::check::{call, expr};
use super::conversions::{in_units, in_utc};
use super::types::{Object, Type, escape};

/// Converts a value of type `of`. Expressions see only fields with a known type, and compare objects
/// with all of their fields. A value of another type, which a schema with ratcheting can let through, becomes null.
pub(super) fn convert(value: &Value, of: &Type, context: &Context<'_>) -> CelValue {
    match (of, value) {
        (Type::Object(object), Value::Object(map)) => {
            let fields = object.fields.iter().filter_map(|(escaped, field)| {
                // A null counts as missing.
                let value = map.get(&field.name).filter(|it| !it.is_null())?;
                let value = convert(value, &field.kind, context);
                Some((Key::from(escaped.as_str()), value))
            });
            let rest = rest(object, map).map(|rest| (rest_key(), rest.into()));
            of_map(fields.chain(rest).collect())
        }
        (Type::Map(_, of), Value::Object(map)) => {
            let one =
                |(key, it): (&String, &Value)| (Key::from(key.as_str()), convert(it, of, context));
            of_map(map.iter().map(one).collect())
        }
        (Type::List(of, _), Value::Array(list)) => {
            CelValue::List(Arc::new(list.iter().map(|it| convert(it, of, context)).collect()))
        }
        (Type::Timestamp, Value::String(text)) if text.len() == "2006-01-02".len() => {
            parsed("timestamp", &format!("{text}T00:00:00Z"), context)
        }
        (Type::Timestamp, Value::String(text)) => parsed("timestamp", &in_utc(text), context),
        (Type::Duration, Value::String(text)) => formats::parse_duration(text)
            .map_or(CelValue::Null, |nanos| parsed("duration", &in_units(nanos), context)),
        (Type::Bytes, Value::String(text)) => {
            STANDARD.decode(text).map_or(CelValue::Null, |bytes| CelValue::Bytes(Arc::new(bytes)))
        }
        (Type::Text | Type::Dyn, Value::String(text)) => text.as_str().into(),
        (Type::Bool, Value::Bool(it)) => CelValue::Bool(*it),
        (Type::Int | Type::Dyn, Value::Number(number)) if number.is_i64() => {
            CelValue::Int(number.as_i64().unwrap_or_default())
        }
        (Type::Double | Type::Int | Type::Dyn, Value::Number(number)) => {
            number.as_f64().map_or(CelValue::Null, CelValue::Float)
        }
        _ => CelValue::Null,
    }
}

/// Key of the fields without a type. Objects have no other key that is a number, so that expressions
/// cannot name it.
fn rest_key() -> Key {
    Key::Uint(u64::MAX)
}

/// True if a map is an object with fields that have no type.
pub(super) fn has_rest(map: &Map) -> bool {
    map.map.contains_key(&rest_key())
}

/// Returns the fields that have no type as JSON that is equal for equal fields; `None` without such
/// fields.
fn rest(object: &Object, map: &serde_json::Map<String, Value>) -> Option<String> {
    let is_typed = |name: &str| {
        let field = escape(name).and_then(|escaped| object.fields.get(&escaped));
        field.is_some_and(|field| field.name == name)
    };
    // These fields describe a write, and the request may omit them.
    let is_of_write = |name: &str| {
        let of_write = ["resourceVersion", "generation", "managedFields"];
        object.name == "selfType.metadata" && of_write.contains(&name)
    };
    let fields = map
        .iter()
        .filter(|(name, value)| !value.is_null() && !is_typed(name) && !is_of_write(name))
        .map(|(name, value)| (name.clone(), value.clone()));
    let fields: serde_json::Map<String, Value> = fields.collect();
    let mut rest = (!fields.is_empty()).then_some(Value::Object(fields))?;
    rest.sort_all_objects();
    Some(rest.to_string())
}

fn of_map(map: HashMap<Key, CelValue>) -> CelValue {
    CelValue::Map(Map { map: Arc::new(map) })
}

/// Returns the timestamp or duration in a text.
fn parsed(function: &str, text: &str, context: &Context<'_>) -> CelValue {
    let text = expr(Expr::Literal(LiteralValue::String(text.into())));
    context.resolve(&call(function, vec![text])).unwrap_or(CelValue::Null)
}
