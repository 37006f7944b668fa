//! Conversions and functions of texts, for [`functions`](super::functions).

mod limits;

use std::sync::Arc;

use kube_cel::cel::common::ast::{Expr, LiteralValue};
use kube_cel::cel::extractors::Arguments;
use kube_cel::cel::{Context, ExecutionError, FunctionContext, Value};

use super::check::{call, expr};
use super::values;
use crate::values::patterns;

pub(super) use limits::in_units;

type Result<T> = std::result::Result<T, ExecutionError>;

/// Adds the functions of this module.
pub(super) fn add(context: &mut Context<'_>) {
    context.add_function("@matches", matches);
    context.add_function("@size", size);
    context.add_function("@type", kind);
    context.add_function("@bool", boolean);
    context.add_function("@string", string);
    context.add_function("@int", int);
    context.add_function("@uint", uint);
    context.add_function("@double", double);
    context.add_function("@timestamp", timestamp);
    context.add_function("@split", split);
    context.add_function("@isCIDR", is_cidr);
    context.add_function("@cidr", cidr);
    limits::add(context);
}

fn matches(text: Arc<String>, pattern: Arc<String>) -> Result<Value> {
    let regex = patterns::compile(&pattern);
    let regex = regex.map_err(|why| ExecutionError::function_error("matches", why))?;
    Ok(Value::Bool(regex.is_match(&text)))
}

/// Returns the number of characters, bytes, elements or entries.
fn size(value: Value) -> Result<Value> {
    let size = match &value {
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) if !values::has_rest(map) => map.map.len(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

/// Returns the name of a value's type.
fn kind(value: Value) -> Result<Value> {
    let name = match &value {
        Value::Bool(_) => "bool",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Null => "null_type",
        other => return Err(ExecutionError::UnsupportedTargetType { target: other.clone() }),
    };
    Ok(name.into())
}

fn boolean(value: Value) -> Result<Value> {
    match &value {
        Value::Bool(_) => Ok(value),
        Value::String(text) => match text.as_str() {
            "true" | "True" | "TRUE" | "t" | "1" => Ok(Value::Bool(true)),
            "false" | "False" | "FALSE" | "f" | "0" => Ok(Value::Bool(false)),
            _ => Err(no_conversion("string", "bool")),
        },
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn string(value: Value) -> Result<Value> {
    Ok(match value {
        Value::String(_) => value,
        Value::Bool(it) => it.to_string().into(),
        Value::Int(it) => it.to_string().into(),
        Value::UInt(it) => it.to_string().into(),
        Value::Bytes(bytes) => match String::from_utf8(bytes.to_vec()) {
            Ok(text) => text.into(),
            Err(_) => {
                let why = "invalid UTF-8 in bytes, cannot convert to string";
                return Err(ExecutionError::function_error("string", why));
            }
        },
        _ => return Err(ExecutionError::NoSuchOverload),
    })
}

fn no_conversion(from: &str, to: &str) -> ExecutionError {
    let why = format!("type conversion error from '{from}' to '{to}'");
    ExecutionError::function_error(to, why)
}

fn overflow(of: &str) -> ExecutionError {
    ExecutionError::function_error("int", format!("{of} overflow"))
}

fn int(value: Value) -> Result<Value> {
    let number = match value {
        Value::Int(it) => it,
        Value::UInt(it) => i64::try_from(it).map_err(|_| overflow("integer"))?,
        #[allow(clippy::cast_possible_truncation, reason = "the number is in the range")]
        Value::Float(it) if it > i64::MIN as f64 && it < i64::MAX as f64 => it as i64,
        Value::Float(_) => return Err(overflow("integer")),
        Value::String(text) => text.parse().map_err(|_| no_conversion("string", "int"))?,
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(Value::Int(number))
}

fn uint(value: Value) -> Result<Value> {
    let number = match value {
        Value::UInt(it) => it,
        Value::Int(it) => u64::try_from(it).map_err(|_| overflow("unsigned integer"))?,
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in the range")]
        Value::Float(it) if it >= 0.0 && it < u64::MAX as f64 => it as u64,
        Value::Float(_) => return Err(overflow("unsigned integer")),
        Value::String(text) => text.parse().map_err(|_| no_conversion("string", "uint"))?,
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(Value::UInt(number))
}

fn double(value: Value) -> Result<Value> {
    let number = match value {
        Value::Float(it) => it,
        Value::Int(it) => it as f64,
        Value::UInt(it) => it as f64,
        Value::String(text) => text.parse().map_err(|_| no_conversion("string", "double"))?,
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(Value::Float(number))
}

/// Evaluates a function of the crate with one text.
fn of_crate(ftx: &FunctionContext<'_, '_>, name: &str, text: &str) -> Result<Value> {
    let text = expr(Expr::Literal(LiteralValue::String(text.into())));
    ftx.ptx.resolve(&call(name, vec![text]))
}

/// Returns the timestamp in a text, in UTC as in the real server.
fn timestamp(ftx: &FunctionContext<'_, '_>, value: Value) -> Result<Value> {
    let Value::String(text) = value else { return Ok(value) };
    of_crate(ftx, "timestamp", &in_utc(&text))
}

/// Returns a text with a time in UTC; returns another text as it is.
pub(super) fn in_utc(text: &str) -> String {
    text.parse().map_or_else(|_| text.to_owned(), |time: jiff::Timestamp| time.to_string())
}

/// Splits a text as Go's `strings.SplitN` does.
fn split(Arguments(args): Arguments) -> Result<Value> {
    let (text, separator, most) = match args.as_slice() {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(most)] => {
            (text, separator, *most)
        }
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let parts: Vec<String> = if most == 0 {
        Vec::new()
    } else if separator.is_empty() {
        let n_single = text.chars().count().min(most) - usize::from(text.chars().count() > most);
        let mut chars = text.chars();
        let mut parts: Vec<String> = chars.by_ref().take(n_single).map(String::from).collect();
        if !chars.as_str().is_empty() {
            parts.push(chars.as_str().to_owned());
        }
        parts
    } else {
        text.splitn(most, separator.as_str()).map(str::to_owned).collect()
    };
    Ok(parts.into())
}

/// True if the length of a prefix is written as the real server wants it, as in `10.0.0.0/8`.
fn has_plain_prefix(text: &str) -> bool {
    let length = text.rsplit('/').next().unwrap_or_default();
    length == "0" || length.starts_with(|c: char| matches!(c, '1'..='9'))
}

fn is_cidr(ftx: &FunctionContext<'_, '_>, text: Arc<String>) -> Result<Value> {
    if has_plain_prefix(&text) { of_crate(ftx, "isCIDR", &text) } else { Ok(Value::Bool(false)) }
}

fn cidr(ftx: &FunctionContext<'_, '_>, text: Arc<String>) -> Result<Value> {
    if has_plain_prefix(&text) {
        return of_crate(ftx, "cidr", &text);
    }
    let why = format!("network address parse error during conversion from string: {text}");
    Err(ExecutionError::function_error("cidr", why))
}
