//! Functions whose arguments the crate does not limit: quantities, durations, ranges and the
//! replacement of texts.

use std::sync::Arc;

use kube_cel::cel::extractors::Arguments;
use kube_cel::cel::{Context, ExecutionError, FunctionContext, Value};

use super::super::check::ident;
use super::super::loops::method;
use super::{Result, of_crate};
use crate::schema::{duration_nanos, parse_quantity};

/// The longest result of `lists.range`.
const LONGEST_RANGE: i64 = 10_000;
/// The first power of ten that a quantity may not reach. The crate computes with 128 bits of
/// billionths, and its sum of two smaller quantities always fits.
const QUANTITY_DIGITS: u32 = 24;

/// Adds the functions of this module.
pub(super) fn add(context: &mut Context<'_>) {
    context.add_function("@range", range);
    context.add_function("@quantity", quantity);
    context.add_function("@isQuantity", is_quantity);
    context.add_function("@bounded", bounded);
    context.add_function("@duration", duration);
    context.add_function("@replace", replace);
}

fn range(n: i64) -> Result<Value> {
    if !(0..=LONGEST_RANGE).contains(&n) {
        let why = match n < 0 {
            true => "range argument must be non-negative".to_owned(),
            false => format!(
                "this simulated API server does not make ranges of more than {LONGEST_RANGE} numbers"
            ),
        };
        return Err(ExecutionError::function_error("lists.range", why));
    }
    Ok(Value::List(Arc::new((0..n).map(Value::Int).collect())))
}

fn too_large() -> ExecutionError {
    let why = format!(
        "this simulated API server does not compute with quantities of 1e{QUANTITY_DIGITS} or more"
    );
    ExecutionError::function_error("quantity", why)
}

/// Returns the quantity in a text. The crate gets it as a whole number of billionths, which is the
/// precision of the real server.
fn quantity(ftx: &FunctionContext<'_, '_>, text: Arc<String>) -> Result<Value> {
    let nanos = parse_quantity(&text);
    let nanos = nanos.map_err(|why| ExecutionError::function_error("quantity", why))?;
    let nanos = nanos.filter(is_small).ok_or_else(too_large)?;
    of_crate(ftx, "quantity", &format!("{nanos}n"))
}

fn is_small(nanos: &i128) -> bool {
    nanos.unsigned_abs() < 10_u128.pow(QUANTITY_DIGITS + 9)
}

fn is_quantity(text: Arc<String>) -> Result<Value> {
    match parse_quantity(&text) {
        Ok(nanos) => nanos.filter(is_small).map(|_| Value::Bool(true)).ok_or_else(too_large),
        Err(_) => Ok(Value::Bool(false)),
    }
}

/// Returns a sum or difference of quantities; fails if it is too large for another sum.
fn bounded(ftx: &FunctionContext<'_, '_>, value: Value) -> Result<Value> {
    let mut context = ftx.ptx.new_inner_scope();
    context.add_variable_from_value("@quantity", value.clone());
    match context.resolve(&method("asApproximateFloat", ident("@quantity")))? {
        Value::Float(it) if it.abs() < 10_f64.powi(QUANTITY_DIGITS.cast_signed()) => Ok(value),
        _ => Err(too_large()),
    }
}

/// Returns the duration in a text; fails if the text is not a Go duration as a whole.
fn duration(ftx: &FunctionContext<'_, '_>, value: Value) -> Result<Value> {
    let Value::String(text) = value else { return Ok(value) };
    let nanos = duration_nanos(&text);
    let nanos = nanos.map_err(|why| ExecutionError::function_error("duration", why))?;
    of_crate(ftx, "duration", &in_units(nanos))
}

/// Writes a duration in units that the crate reads without loss: it multiplies numbers of 53 bits.
pub(in super::super) fn in_units(nanos: i64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let (seconds, rest) = (nanos / SECOND, nanos % SECOND);
    format!("{sign}{}h{}s{rest}ns", seconds / 3600, seconds % 3600)
}

/// Replaces parts of a text as Go's `strings.Replace` does: a negative limit means all.
fn replace(Arguments(args): Arguments) -> Result<Value> {
    let (text, from, to, most) = match args.as_slice() {
        [Value::String(text), Value::String(from), Value::String(to)] => (text, from, to, -1),
        [Value::String(text), Value::String(from), Value::String(to), Value::Int(most)] => {
            (text, from, to, *most)
        }
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    Ok(text.replacen(from.as_str(), to, most).into())
}
