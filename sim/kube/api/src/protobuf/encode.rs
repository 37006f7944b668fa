//! Encodes objects for tests and fuzzing, so that [`decode`](super::decode) returns the same
//! objects again.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::MAGIC;
use super::schema::{Field, Kind, Message, SCHEMA, Special};

/// The protobuf body of an object with `apiVersion` and `kind`; `None` for an unknown kind.
pub(crate) fn encode(object: &Value) -> Option<Vec<u8>> {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let message = SCHEMA.kind(text("apiVersion"), text("kind"))?;
    let mut meta = Vec::new();
    bytes(1, text("apiVersion").as_bytes(), &mut meta);
    bytes(2, text("kind").as_bytes(), &mut meta);
    let mut unknown = Vec::new();
    bytes(1, &meta, &mut unknown);
    bytes(2, &fields(message, object), &mut unknown);
    Some([MAGIC.as_slice(), &unknown].concat())
}

fn fields(message: &Message, object: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, field) in message.fields() {
        if let (true, Kind::Message(at)) = (field.is_inline, field.kind) {
            let inline = SCHEMA.message(at).map(|inline| fields(inline, object));
            bytes(number, &inline.unwrap_or_default(), &mut out);
            continue;
        }
        let Some(value) = object.get(&field.name) else { continue };
        match value {
            Value::Object(entries) if field.is_map => {
                for (key, value) in entries {
                    let mut entry = Vec::new();
                    bytes(1, key.as_bytes(), &mut entry);
                    one(2, field, value, &mut entry);
                    bytes(number, &entry, &mut out);
                }
            }
            Value::Array(items) if field.is_repeated => {
                items.iter().for_each(|item| one(number, field, item, &mut out));
            }
            value => one(number, field, value, &mut out),
        }
    }
    out
}

fn one(number: i32, field: &Field, value: &Value, out: &mut Vec<u8>) {
    let text = value.as_str().unwrap_or_default();
    let whole = || value.as_i64().unwrap_or_default().cast_unsigned();
    match field.kind {
        Kind::String => bytes(number, text.as_bytes(), out),
        Kind::Bytes => bytes(number, &STANDARD.decode(text).unwrap_or_default(), out),
        Kind::Bool => varint(number, u64::from(value == &Value::Bool(true)), out),
        Kind::Int32 | Kind::Int64 => varint(number, whole(), out),
        Kind::Double => {
            tag(number, 1, out);
            // In JSON a value that no number can express, such as NaN, is null.
            out.extend(value.as_f64().unwrap_or(f64::NAN).to_le_bytes());
        }
        Kind::Message(at) => {
            let Some(message) = SCHEMA.message(at) else { return };
            let inner = match message.special {
                None => fields(message, value),
                Some(Special::Raw) if value.is_null() => Vec::new(),
                Some(Special::Raw) => {
                    let mut raw = Vec::new();
                    bytes(1, value.to_string().as_bytes(), &mut raw);
                    raw
                }
                Some(special) => fields(message, &special.fields(message, value)),
            };
            bytes(number, &inner, out);
        }
    }
}

impl Special {
    /// The fields of a special message, as a JSON object; `value` is the JSON of the message. Null
    /// for [`Raw`](Self::Raw), which [`one`] writes itself.
    fn fields(self, message: &Message, value: &Value) -> Value {
        match (self, value) {
            (Self::Quantity, value) => json!({"string": value}),
            (Self::IntOrString, Value::String(text)) => json!({"type": 1, "strVal": text}),
            (Self::IntOrString, value) => json!({"type": 0, "intVal": value}),
            (Self::Time | Self::MicroTime, value) => {
                let instant = value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
                instant.map_or_else(
                    || json!({}),
                    |instant| {
                        // The start of 1970 gets one nanosecond, because without it the message
                        // would be empty, and an empty message stands for no instant.
                        let nanos = instant.subsec_nanosecond();
                        let nanos = if instant.as_second() == 0 && nanos == 0 { 1 } else { nanos };
                        json!({"seconds": instant.as_second(), "nanos": nanos})
                    },
                )
            }
            (Self::Duration, value) => json!({"duration": nanoseconds(value)}),
            (Self::Items, value) => json!({"items": value}),
            (Self::SchemaOr, Value::Array(list)) => {
                let has_texts = message.fields().any(|(_, field)| field.name == "property");
                json!({(if has_texts { "property" } else { "jSONSchemas" }): list})
            }
            (Self::SchemaOr, Value::Object(schema)) => json!({"schema": schema}),
            (Self::SchemaOr, value) => json!({"allows": value}),
            (Self::Raw, _) => Value::Null,
        }
    }
}

/// Nanoseconds of a duration in Go's format, such as `1m30s`.
fn nanoseconds(value: &Value) -> i64 {
    let text = value.as_str().unwrap_or_default();
    let (sign, mut rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let mut total = 0_i128;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, unit) = rest.split_at(end);
        let units = [
            ("ns", 1),
            ("µs", 1_000),
            ("ms", 1_000_000),
            ("h", 3_600_000_000_000_i128),
            ("m", 60_000_000_000),
            ("s", 1_000_000_000),
        ];
        let Some((name, scale)) = units.into_iter().find(|(name, _)| unit.starts_with(name)) else {
            break;
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let part: i128 = whole.parse().unwrap_or_default();
        let parts: i128 = fraction.parse().unwrap_or_default();
        let digits = u32::try_from(fraction.len()).unwrap_or_default();
        total += part * scale + parts * scale / 10_i128.pow(digits);
        rest = &unit[name.len()..];
    }
    i64::try_from(sign * total).unwrap_or_default()
}

fn tag(number: i32, wire_type: u64, out: &mut Vec<u8>) {
    raw_varint(u64::from(number.cast_unsigned()) << 3 | wire_type, out);
}

fn varint(number: i32, value: u64, out: &mut Vec<u8>) {
    tag(number, 0, out);
    raw_varint(value, out);
}

fn bytes(number: i32, value: &[u8], out: &mut Vec<u8>) {
    tag(number, 2, out);
    raw_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

#[expect(clippy::cast_possible_truncation, reason = "the cast keeps the lowest seven bits")]
fn raw_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
