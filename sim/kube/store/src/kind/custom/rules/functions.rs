//! Functions that the crate `cel` lacks, or evaluates in another way than the real server. The
//! [check](super::check) puts calls of them into expressions, under names that begin with `@`.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::objects::{Key, Map, Opaque, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, FunctionContext, Value};

use super::conversions;
use super::program::counted;
use super::types::{Order, Type};
use super::values;

type Result<T> = std::result::Result<T, ExecutionError>;

/// Returns the functions that expressions can call.
pub(super) fn context() -> Context<'static> {
    let mut context = Context::default().with_all();
    context.add_function("@or", |ftx: &FunctionContext<'_, '_>| step(ftx, true));
    context.add_function("@and", |ftx: &FunctionContext<'_, '_>| step(ftx, false));
    context.add_function("@settled", settled);
    context.add_function("@map", map);
    context.add_function("@counted", counted);
    context.add_function("@keys", keys);
    context.add_function("@field", field);
    context.add_function("@ordered", ordered);
    context.add_function("@optMap", |ftx: &FunctionContext<'_, '_>| {
        let of = |value| Value::Opaque(Arc::new(OptionalValue::of(value)));
        optional_map(ftx).map(|made| made.map_or_else(none, of))
    });
    context.add_function("@optFlatMap", |ftx: &FunctionContext<'_, '_>| {
        optional_map(ftx).map(|made| made.unwrap_or_else(none))
    });
    context.add_function("@dyn", |value: Value| -> Result<Value> { Ok(value) });
    conversions::add(&mut context);
    context
}

/// A type as a value, for [`ordered`].
#[derive(Debug)]
pub(super) struct TypeHandle(pub(super) Arc<Type>);

impl PartialEq for TypeHandle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TypeHandle {}

impl Opaque for TypeHandle {
    fn runtime_type_name(&self) -> &str {
        "type"
    }
}

/// An error as the result of a step of a loop.
#[derive(Debug, PartialEq)]
struct Failure(ExecutionError);

impl Eq for Failure {}

impl Opaque for Failure {
    fn runtime_type_name(&self) -> &str {
        "failure"
    }
}

/// One step of `exists` (`decides` is true) or `all` (`decides` is false): the result so far and
/// the value for this element.
fn step(ftx: &FunctionContext<'_, '_>, decides: bool) -> Result<Value> {
    let [before, now] = ftx.args else { return Err(ExecutionError::NoSuchOverload) };
    let before = ftx.ptx.resolve(before)?;
    if before == Value::Bool(decides) {
        return Ok(before);
    }
    match ftx.ptx.resolve(now) {
        Ok(Value::Bool(now)) if now == decides => Ok(Value::Bool(now)),
        Ok(Value::Bool(_)) => Ok(before),
        Ok(_) => Ok(Value::Opaque(Arc::new(Failure(ExecutionError::NoSuchOverload)))),
        Err(_) if matches!(before, Value::Opaque(_)) => Ok(before),
        Err(error) => Ok(Value::Opaque(Arc::new(Failure(error)))),
    }
}

/// Evaluates `map` or `filter`: the arguments are the name of the variable, the list, the condition
/// and the new element.
fn map(ftx: &FunctionContext<'_, '_>) -> Result<Value> {
    let [name, range, condition, element] = ftx.args else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let (Value::String(name), Value::List(range)) =
        (ftx.ptx.resolve(name)?, ftx.ptx.resolve(range)?)
    else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let mut context = ftx.ptx.new_inner_scope();
    let mut elements = Vec::new();
    for item in range.iter() {
        counted(Value::Null)?;
        context.add_variable_from_value(name.as_str(), item.clone());
        match context.resolve(condition)? {
            Value::Bool(true) => elements.push(context.resolve(element)?),
            Value::Bool(false) => {}
            _ => return Err(ExecutionError::NoSuchOverload),
        }
    }
    Ok(Value::List(Arc::new(elements)))
}

fn settled(value: Value) -> Result<Value> {
    if let Value::Opaque(opaque) = &value
        && let Some(Failure(error)) = opaque.downcast_ref::<Failure>()
    {
        return Err(error.clone());
    }
    Ok(value)
}

/// Returns the keys of a map in order; returns a list as it is.
fn keys(value: Value) -> Result<Value> {
    match value {
        // Only `dyn` hides that a loop goes over an object.
        Value::Map(map) if values::has_rest(&map) => Err(ExecutionError::NoSuchOverload),
        Value::Map(map) => {
            let mut keys: Vec<Key> = map.map.keys().cloned().collect();
            keys.sort();
            Ok(Value::List(Arc::new(keys.into_iter().map(Value::from).collect())))
        }
        Value::List(_) => Ok(value),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

/// Returns a field of a map or of an optional map, as an optional.
fn field(value: Value, name: Arc<String>) -> Result<Value> {
    let of = |value: &Value| match value {
        Value::Map(map) => Ok(map.get(&Key::String(name.clone())).cloned()),
        _ => Err(ExecutionError::NoSuchOverload),
    };
    let found = match <&OptionalValue>::try_from(&value) {
        Ok(optional) => optional.value().map_or(Ok(None), of)?,
        Err(_) => of(&value)?,
    };
    Ok(Value::Opaque(Arc::new(found.map_or_else(OptionalValue::none, OptionalValue::of))))
}

fn none() -> Value {
    Value::Opaque(Arc::new(OptionalValue::none()))
}

/// Evaluates an expression with a variable for the value of an optional: the arguments are the name
/// of the variable, the optional, and the expression. Returns `None` if the optional has no value.
fn optional_map(ftx: &FunctionContext<'_, '_>) -> Result<Option<Value>> {
    let [name, target, inner] = ftx.args else { return Err(ExecutionError::NoSuchOverload) };
    let (name, target) = (ftx.ptx.resolve(name)?, ftx.ptx.resolve(target)?);
    let (Value::String(name), Ok(optional)) = (name, <&OptionalValue>::try_from(&target)) else {
        return Err(ExecutionError::NoSuchOverload);
    };
    let Some(value) = optional.value() else { return Ok(None) };
    let mut context = ftx.ptx.new_inner_scope();
    context.add_variable_from_value(name.as_str(), value.clone());
    context.resolve(inner).map(Some)
}

/// Returns a value with its lists of type set or map in one order.
fn ordered(value: Value, handle: Value) -> Result<Value> {
    let Value::Opaque(handle) = handle else { return Err(ExecutionError::NoSuchOverload) };
    match handle.downcast_ref::<TypeHandle>() {
        Some(TypeHandle(of)) => Ok(in_order(value, of)),
        None => Err(ExecutionError::NoSuchOverload),
    }
}

fn in_order(value: Value, of: &Type) -> Value {
    if !of.has_free_order() {
        return value;
    }
    match (value, of) {
        (Value::List(list), Type::List(of, order)) => {
            let elements = list.iter().cloned().map(|it| in_order(it, of));
            let mut elements: Vec<Value> = elements.collect();
            if *order == Order::IsFree {
                elements.sort_by_cached_key(shown);
            }
            Value::List(Arc::new(elements))
        }
        (Value::Map(map), Type::Map(_, of)) => mapped(&map, |_, value| in_order(value, of)),
        (Value::Map(map), Type::Object(object)) => mapped(&map, |key, value| match key {
            Key::String(name) => match object.fields.get(name.as_str()) {
                Some(field) => in_order(value, &field.kind),
                None => value,
            },
            _ => value,
        }),
        (value, _) => value,
    }
}

fn mapped(map: &Map, change: impl Fn(&Key, Value) -> Value) -> Value {
    let entries = map.map.iter().map(|(key, value)| (key.clone(), change(key, value.clone())));
    let map: HashMap<Key, Value> = entries.collect();
    Value::Map(Map { map: Arc::new(map) })
}

/// Returns a text that is equal for equal values.
fn shown(value: &Value) -> String {
    match value {
        Value::List(list) => format!("{:?}", list.iter().map(shown).collect::<Vec<_>>()),
        Value::Map(map) => {
            let entries = map.map.iter().map(|(key, value)| (key.clone(), shown(value)));
            let mut entries: Vec<(Key, String)> = entries.collect();
            entries.sort();
            format!("{entries:?}")
        }
        other => format!("{other:?}"),
    }
}
