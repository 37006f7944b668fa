//! Texts in Go's formats: quoted strings, printed values, JSON, and error messages.

mod duplicates;
mod json;

use std::fmt::Write as _;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

pub use duplicates::duplicate_fields;
pub use json::json_problem;

/// Reads a decimal number of up to 64 bits as Go's `strconv.ParseUint` does.
///
/// # Errors
/// Go's error text.
pub fn parse_uint(text: &str) -> Result<u64, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let why = if is_number { "value out of range" } else { "invalid syntax" };
    let number = text.parse().ok().filter(|_| is_number);
    number.ok_or_else(|| format!("strconv.ParseUint: parsing {}: {why}", quote(text)))
}

/// Pattern of one character that Go calls printable: a letter, mark, number, punctuation or symbol.
/// The ASCII space, which is also printable, is not part of it.
static PRINTED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^[\p{L}\p{M}\p{N}\p{P}\p{S}]$").ok());

/// Returns `text` as Go's `%q` writes it.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\u{b}' => out.push_str("\\v"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c if is_printed(c) => out.push(c),
            c if (c as u32) < 0x1_0000 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => {
                let _ = write!(out, "\\U{:08x}", c as u32);
            }
        }
    }
    out.push('"');
    out
}

fn is_printed(c: char) -> bool {
    let is_listed = |it: &Regex| it.is_match(c.encode_utf8(&mut [0; 4]));
    c.is_ascii() || PRINTED.as_ref().is_some_and(is_listed)
}

/// Returns the name of a JSON value's type in the messages of Go's JSON decoder.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the name of a JSON value's kind in Go's reflection.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

/// Returns `value` as Go's `%v` writes it, except that floats keep their JSON form.
pub(crate) fn go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let elements: Vec<String> = list.iter().map(go).collect();
            format!("[{}]", elements.join(" "))
        }
        Value::Object(map) => go_map(map),
        other => other.to_string(),
    }
}

/// Returns `map` as Go's `%v` writes it.
pub(crate) fn go_map(map: &Map<String, Value>) -> String {
    let mut entries: Vec<String> =
        map.iter().map(|(field, value)| format!("{field}:{}", go(value))).collect();
    entries.sort();
    format!("map[{}]", entries.join(" "))
}

/// Sorts the keys of all maps, as Go does when it writes an object for which it has no structure.
pub fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> =
                map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// Returns the JSON text that Go writes for a value without a Go structure: with sorted keys, and
/// with escapes for `<`, `>`, `&`, U+2028 and U+2029.
pub fn go_json(value: &Value) -> String {
    let text = sorted(value.clone()).to_string();
    let escaped = |c: char| match c {
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => Some(format!("\\u{:04x}", c as u32)),
        _ => None,
    };
    // These characters occur only inside strings.
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match escaped(c) {
            Some(code) => out.push_str(&code),
            None => out.push(c),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{go_json, quote};

    #[test]
    fn json_is_sorted_and_escaped() {
        let value = json!({"b": "<a>&\u{2028}\u{8}\u{c}\u{1}\u{7f}é", "a": [null, 1.5, {"d": 1, "c": true}]});
        assert_eq!(
            go_json(&value),
            "{\"a\":[null,1.5,{\"c\":true,\"d\":1}],\"b\":\"\\u003ca\\u003e\\u0026\\u2028\\b\\f\\u0001\u{7f}é\"}"
        );
    }

    /// The expected texts are those that Go 1.26 prints.
    #[test]
    fn quoted_text_escapes_characters_that_are_not_printable() {
        for (text, quoted) in [
            ("é ٣ \u{1f600} \u{301}", "é ٣ \u{1f600} \u{301}"),
            ("\u{a0}", r"\u00a0"),
            ("\u{85}", r"\u0085"),
            ("\u{200b}\u{2028}\u{feff}", r"\u200b\u2028\ufeff"),
            ("\u{e000}", r"\ue000"),
            ("\u{e0001}", r"\U000e0001"),
            ("\u{10ffff}", r"\U0010ffff"),
            ("\u{1}\u{7f}\u{8}\"\\", r#"\x01\x7f\b\"\\"#),
        ] {
            assert_eq!(quote(text), format!("\"{quoted}\""));
        }
    }
}
