//! Conversion of numbers to Go's number types, and checks of numbers against schemas.
//!
//! Follows `apimachinery: pkg/util/json` and `kube-openapi: pkg/validation/validate/values.go`.
//! This module turns whole floats such as `1.0` into integers before any check. The real server
//! converts them only when it writes the object. Its checks therefore distinguish `1.0` from `1` in
//! a set and divide `1.0` as a float.

use std::cmp::Ordering;
use std::str::FromStr;

use serde_json::Value;

use super::structural::{Bound, Structural};
use crate::FieldErrors;

/// Largest whole number up to which floats hold all whole numbers exactly.
const MAX_WHOLE: f64 = 9_007_199_254_740_991.0;

/// Converts all numbers in `value` to Go's `int64` or `float64`.
pub(super) fn to_go_numbers(value: &mut Value) {
    match value {
        Value::Number(_) => to_go_number(value, false),
        Value::Array(list) => list.iter_mut().for_each(to_go_numbers),
        Value::Object(map) => map.values_mut().for_each(to_go_numbers),
        _ => {}
    }
}

/// Turns a whole float in the range of `i64` into an integer, and an integer beyond this range into
/// a float. With `wants_integer`, a float whose absolute value is above [`MAX_WHOLE`] stays a
/// float, because it may have lost digits.
pub(super) fn to_go_number(value: &mut Value, wants_integer: bool) {
    let Some(float) = value.as_f64().filter(|_| value.is_number() && !value.is_i64()) else {
        return;
    };
    let is_sure = float.abs() <= MAX_WHOLE || !wants_integer;
    let whole: Option<i64> = if is_sure { as_whole(float) } else { None };
    *value = whole.map_or_else(|| float.into(), Into::into);
}

/// Converts a whole float to an integer; `None` for other floats and for floats beyond the range of
/// the integer type. Converts by way of text, because Go writes the fewest digits that identify a
/// float and parses them again.
fn as_whole<T: FromStr>(float: f64) -> Option<T> {
    if float.fract() == 0.0 { float.to_string().parse().ok() } else { None }
}

/// Returns the type of a number in messages of the real server; empty for other values.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        _ => "",
    }
}

/// True if `allowed` contains the value. A value that is a float is truncated before a comparison
/// with an allowed integer.
pub(super) fn is_among(value: &Value, allowed: &[Value]) -> bool {
    let is_same = |one: &Value| match (value.as_f64(), one.as_f64()) {
        (Some(float), Some(at)) if value.is_f64() && one.is_i64() => float.trunc() == at,
        (Some(float), Some(at)) if value.is_f64() || one.is_f64() => float == at,
        _ => value == one,
    };
    allowed.iter().any(is_same)
}

/// Checks a number against a schema.
pub(super) fn check(schema: &Structural, value: &Value, path: &str, errors: &mut FieldErrors) {
    check_range(schema, value, "Checked", path, errors);
    if let Some(factor) = schema.multiple_of {
        check_range(schema, &factor.into(), "MultipleOf", path, errors);
        check_multiple(value, factor, path, errors);
    }
    if let Some(bound) = &schema.minimum {
        check_range(schema, &bound.at.into(), "Minimum boundary", path, errors);
        check_bound(schema, value, bound, ("greater", |it| it < 0), path, errors);
    }
    if let Some(bound) = &schema.maximum {
        check_range(schema, &bound.at.into(), "Maximum boundary", path, errors);
        check_bound(schema, value, bound, ("less", |it| it > 0), path, errors);
    }
}

/// True if a number fits the schema's type and format. The number is the checked value or part of
/// the schema.
fn is_in_range(schema: &Structural, value: &Value) -> bool {
    let float = value.as_f64().unwrap_or_default();
    match (schema.kind.as_str(), schema.format.as_str()) {
        ("integer", "int32") => as_whole::<i32>(float).is_some(),
        ("integer", _) => value.is_i64() || as_whole::<i64>(float).is_some(),
        // A number above the maximum by less than half a unit in the last place is rounded to the
        // maximum.
        ("number", "float") => float.abs() < f64::from(f32::MAX) + 2_f64.powi(103),
        _ => true,
    }
}

fn check_range(
    schema: &Structural,
    value: &Value,
    what: &str,
    path: &str,
    errors: &mut FieldErrors,
) {
    if is_in_range(schema, value) {
        return;
    }
    let format = match schema.format.as_str() {
        format @ ("int32" | "int64" | "float") => format!("with format {format}"),
        _ => "(default format)".into(),
    };
    let why = format!("{what} value must be of type {} {format} in {path}", schema.kind);
    errors.invalid("<nil>", &"".into(), &why);
}

fn check_multiple(value: &Value, factor: f64, path: &str, errors: &mut FieldErrors) {
    if factor <= 0.0 {
        let why = format!("factor MultipleOf declared for {path} must be positive: {factor}");
        errors.invalid(path, &number(factor), &why);
        return;
    }
    let is_multiple = match (value.as_i64(), number(factor).as_i64()) {
        (Some(value), Some(factor)) => value % factor == 0,
        _ => {
            let float = value.as_f64().unwrap_or_default();
            is_nearly_whole(if factor < 1.0 { 1.0 / factor * float } else { float / factor })
        }
    };
    if !is_multiple {
        let why = format!("{path} in body should be a multiple of {factor}");
        errors.invalid(path, value, &why);
    }
}

/// True if a float is whole, or above a whole number by a relative rounding error below about 2e-9.
/// A float below 1 must be exactly whole. False if the absolute value is above [`MAX_WHOLE`].
fn is_nearly_whole(float: f64) -> bool {
    if float.abs() > MAX_WHOLE {
        return false;
    }
    let whole = float.trunc();
    float == whole || whole > 0.0 && (float - whole) / (float + whole) < 1e-9
}

/// Checks a number against a bound of the schema. Compares an integer with the truncated bound. If
/// the number is not an integer, or the bound does not fit the schema's type or an `i64`, compares
/// floats. `way` is the word for allowed numbers in messages, `greater` or `less`. `is_beyond` gets
/// -1, 0 or 1 for a number below, at or above the bound, and is true if the number is not allowed.
fn check_bound(
    schema: &Structural,
    value: &Value,
    bound: &Bound,
    (way, is_beyond): (&str, fn(i8) -> bool),
    path: &str,
    errors: &mut FieldErrors,
) {
    let whole = value.as_i64().filter(|_| is_in_range(schema, &bound.at.into()));
    let at = number(bound.at.trunc()).as_i64();
    let (order, shown) = match (whole, at) {
        (Some(whole), Some(at)) => (whole.cmp(&at) as i8, at.to_string()),
        _ => {
            let float = value.as_f64().unwrap_or_default();
            let order = float.partial_cmp(&bound.at).unwrap_or(Ordering::Equal);
            (order as i8, bound.shown.clone())
        }
    };
    if is_beyond(order) || bound.is_exclusive && order == 0 {
        let or_equal = if bound.is_exclusive { "" } else { "or equal to " };
        let why = format!("{path} in body should be {way} than {or_equal}{shown}");
        errors.invalid(path, value, &why);
    }
}

/// Converts a float to a JSON number, which is an integer if the float is whole and fits an `i64`.
fn number(float: f64) -> Value {
    let mut value = Value::from(float);
    to_go_numbers(&mut value);
    value
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::structural::Structural;
    use super::super::validate::validate_value;
    use super::to_go_numbers;
    use crate::{FieldErrors, Status};

    fn refusal(schema: &Value, text: &str) -> String {
        let schema = Structural::read(&json!({"type": "object", "properties": {"x": schema}}));
        let mut object = json!({"x": serde_json::from_str::<Value>(text).unwrap()});
        schema.prune_root(&mut object, &mut Vec::new());
        let mut errors = FieldErrors::default();
        validate_value(&schema, &object, &mut errors);
        if errors.is_empty() {
            return String::new();
        }
        let message = Status::invalid("", "", "", errors).message;
        message.trim_start_matches(" \"\" is invalid: ").to_owned()
    }

    /// The expected texts are the real server's answers for a property of that schema.
    #[test]
    fn numbers_are_checked_as_the_real_server_does() {
        let integer = json!({"type": "integer"});
        let int32 = json!({"type": "integer", "format": "int32"});
        let int64 = json!({"type": "integer", "format": "int64"});
        let float = json!({"type": "number", "format": "float"});
        let tenth = json!({"type": "number", "multipleOf": 0.1});
        let third = json!({"type": "integer", "multipleOf": 3});
        let from = json!({"type": "number", "minimum": 0.5});
        let to = json!({"type": "number", "maximum": 0.5});
        let one_of = json!({"type": "number", "enum": [1, 2.5]});
        let stray = json!({"type": "number", "format": "int32"});
        let odd = json!({"type": "integer", "multipleOf": 2.5, "maximum": 7.5});
        let wrong = r#"x: Invalid value: "number": x in body must be of type integer: "number""#;
        let range = r#"<nil>: Invalid value: "": Checked value must be of type"#;
        let wrong_int64 =
            r#"x: Invalid value: "float64": x in body must be of type int64: "float64""#;
        let both = format!("[{wrong}, {range} integer (default format) in x]");
        let both_int64 = format!("[{wrong_int64}, {range} integer with format int64 in x]");
        let no_factor = r#"<nil>: Invalid value: "": MultipleOf value must be of type integer (default format) in x"#;
        let no_bound = r#"<nil>: Invalid value: "": Maximum boundary value must be of type integer (default format) in x"#;
        for (schema, good) in [
            (&integer, &["9223372036854775807", "1.0", "1e15", "9007199254740991.0"][..]),
            (&int32, &["2147483647.0", "-2147483648"]),
            (&float, &["1e38", "1", "-0.5"]),
            (&tenth, &["0.3", "1.0", "0.0", "-0.3", "1e10"]),
            (&third, &["3", "3.0", "0"]),
            (&from, &["0", "1", "0.5"]),
            (&stray, &["1.5", "3000000000"]),
            (&one_of, &["1", "1.0", "1.5", "2.5"]),
            (&to, &["0", "0.5", "-7"]),
        ] {
            for value in good {
                assert_eq!(refusal(schema, value), "", "{schema}: {value}");
            }
        }
        for (schema, bad, want) in [
            (&integer, "9223372036854775808", both.clone()),
            (&integer, "-9223372036854775809", both.clone()),
            (&integer, "1.5", both),
            (&integer, "1e16", wrong.into()),
            (&integer, "9007199254740993.0", wrong.into()),
            (&int32, "1e10", format!("{range} integer with format int32 in x")),
            (&int64, "1.5", both_int64.clone()),
            (&int64, "9223372036854775808", both_int64),
            (&int64, "1e16", wrong_int64.into()),
            (&int64, "true", r#"x: Invalid value: "": x in body must be of type int64: """#.into()),
            (&float, "1e39", format!("{range} number with format float in x")),
            (&float, "3.5e38", format!("{range} number with format float in x")),
            (
                &tenth,
                "0.35",
                "x: Invalid value: 0.35: x in body should be a multiple of 0.1".into(),
            ),
            (&third, "4", "x: Invalid value: 4: x in body should be a multiple of 3".into()),
            (
                &third,
                "3.5",
                format!(
                    "[{wrong}, {range} integer (default format) in x, x: Invalid value: 3.5: x in body should be a multiple of 3]"
                ),
            ),
            (
                &from,
                "0.4",
                "x: Invalid value: 0.4: x in body should be greater than or equal to 0.5".into(),
            ),
            (
                &to,
                "0.6",
                "x: Invalid value: 0.6: x in body should be less than or equal to 0.5".into(),
            ),
            (&to, "1", "x: Invalid value: 1: x in body should be less than or equal to 0".into()),
            (&odd, "5", format!("[{no_factor}, {no_bound}]")),
            (
                &odd,
                "8",
                format!(
                    "[{no_factor}, x: Invalid value: 8: x in body should be a multiple of 2.5, {no_bound}, x: Invalid value: 8: x in body should be less than or equal to 7.5]"
                ),
            ),
        ] {
            assert_eq!(refusal(schema, bad), want, "{schema}: {bad}");
        }
    }

    #[test]
    fn whole_numbers_are_written_without_a_point() {
        for (text, want) in [
            ("1e15", "1000000000000000"),
            ("9007199254740993.0", "9007199254740992"),
            ("-1e16", "-10000000000000000"),
            ("1234567890123456789.0", "1234567890123456800"),
            ("-0.0", "0"),
            ("1.10", "1.1"),
            ("[1e16]", "[10000000000000000]"),
            ("1e21", "1e+21"),
        ] {
            let mut value: Value = serde_json::from_str(text).unwrap();
            to_go_numbers(&mut value);
            assert_eq!(value.to_string(), want, "{text}");
        }
        let mut large = json!(u64::MAX);
        to_go_numbers(&mut large);
        assert_eq!(large, json!(18_446_744_073_709_552_000.0));
    }
}
