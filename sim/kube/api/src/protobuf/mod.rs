//! Decodes Kubernetes' protobuf bodies into JSON objects.
//!
//! client-go sends built-in kinds in protobuf by default. A body is four bytes of magic and an
//! envelope (`runtime.Unknown`) with apiVersion, kind and the object's own bytes. The decoder
//! returns the JSON that Go's encoder writes for the same object, except that it omits nulls for
//! empty lists. One code path then handles both encodings.

#[cfg(any(test, fuzzing))]
mod encode;
mod glance;
mod schema;
mod wire;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

#[cfg(any(test, fuzzing))]
pub(crate) use encode::encode;
pub use glance::AnswerFacts;
pub(crate) use glance::glance;
use schema::{Field, Kind, Message, SCHEMA, Special};
use wire::{Reader, WireError};

/// Content type of protobuf bodies.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

const MAGIC: [u8; 4] = *b"k8s\0";

/// Deepest nesting of messages that the decoder accepts. A pod needs nine, a schema of a custom
/// resource a few dozen.
const MAX_DEPTH: usize = 100;

/// Reason why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProtobufError {
    /// The envelope is malformed, or its kind is unknown.
    Envelope(String),
    /// The object in the envelope is malformed.
    Object { api_version: String, kind: String, why: String },
}

/// True if this decoder supports the kind.
pub(crate) fn knows(api_version: &str, kind: &str) -> bool {
    SCHEMA.kind(api_version, kind).is_some()
}

/// Decodes a body into a JSON object. `api_version` and `kind` each apply if the envelope does not
/// name its own.
///
/// # Errors
/// The reason in the words of the real decoder.
pub(crate) fn decode(body: &[u8], api_version: &str, kind: &str) -> Result<Value, ProtobufError> {
    let envelope = ProtobufError::Envelope;
    let Some(rest) = body.strip_prefix(&MAGIC) else {
        let why = if body.is_empty() {
            "empty data".into()
        } else {
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
                .into()
        };
        return Err(envelope(why));
    };
    if rest.is_empty() {
        return Err(envelope("empty body".into()));
    }
    let unknown = Unknown::read(rest).map_err(|why| envelope(why.to_string()))?;
    let given = |text: String, otherwise: &str| {
        if text.is_empty() { otherwise.to_owned() } else { text }
    };
    let api_version = given(unknown.api_version, api_version);
    let kind = given(unknown.kind, kind);
    let Some(message) = SCHEMA.kind(&api_version, &kind) else {
        let why = format!("no kind {kind:?} is registered for version {api_version:?}");
        return Err(envelope(why));
    };
    let mut object = Map::new();
    object.insert("kind".into(), kind.as_str().into());
    object.insert("apiVersion".into(), api_version.as_str().into());
    match read(message, unknown.raw, 0, &mut object) {
        Ok(()) => Ok(object.into()),
        Err(why) => Err(ProtobufError::Object { api_version, kind, why: why.to_string() }),
    }
}

/// Envelope of a body (`runtime.Unknown`): the type of an object, and its bytes.
#[derive(Default)]
struct Unknown<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
}

impl<'a> Unknown<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut unknown = Self::default();
        let mut fields = Reader::new(bytes);
        while let Some((number, field)) = fields.next("Unknown")? {
            match (number, field) {
                (1, wire::Field::Bytes(meta)) => {
                    let mut fields = Reader::new(meta);
                    while let Some((number, field)) = fields.next("TypeMeta")? {
                        match (number, field) {
                            (1, wire::Field::Bytes(text)) => unknown.api_version = lossy(text),
                            (2, wire::Field::Bytes(text)) => unknown.kind = lossy(text),
                            (1, other) => return Err(mismatch("APIVersion", other)),
                            (2, other) => return Err(mismatch("Kind", other)),
                            _ => {}
                        }
                    }
                }
                (2, wire::Field::Bytes(raw)) => unknown.raw = raw,
                (1, other) => return Err(mismatch("TypeMeta", other)),
                (2, other) => return Err(mismatch("Raw", other)),
                _ => {}
            }
        }
        Ok(unknown)
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn mismatch(field: &str, found: wire::Field<'_>) -> WireError {
    WireError::Mismatch { field: field.to_owned(), wire_type: found.wire_type() }
}

/// Reads the fields of a message into `out`. Fails if `depth`, the number of enclosing messages, is
/// above [`MAX_DEPTH`].
fn read(
    message: &Message,
    bytes: &[u8],
    depth: usize,
    out: &mut Map<String, Value>,
) -> Result<(), WireError> {
    if depth > MAX_DEPTH {
        return Err(WireError::TooDeep);
    }
    let mut maps: BTreeMap<&str, BTreeMap<String, Value>> = BTreeMap::new();
    let mut fields = Reader::new(bytes);
    while let Some((number, found)) = fields.next(&message.name)? {
        let Some(field) = message.field(number) else { continue };
        if field.is_map {
            let (key, value) = entry(field, found, depth)?;
            maps.entry(&field.name).or_default().insert(key, value);
            continue;
        }
        if field.is_inline {
            let (Kind::Message(at), wire::Field::Bytes(inner)) = (field.kind, found) else {
                return Err(mismatch(&field.go_name, found));
            };
            if let Some(inline) = SCHEMA.message(at) {
                read(inline, inner, depth + 1, out)?;
            }
            continue;
        }
        let value = one(field, found, depth)?;
        if field.is_repeated {
            let list = out.entry(field.name.as_str()).or_insert_with(|| Value::Array(Vec::new()));
            if let Some(list) = list.as_array_mut() {
                list.push(value);
            }
        } else if field.is_pointer || !field.is_optional || !is_empty(&value) {
            out.insert(field.name.clone(), value);
        } else {
            // The last value of a field replaces earlier ones, even if it is empty.
            out.shift_remove(&field.name);
        }
    }
    for (name, entries) in maps {
        out.insert(name.to_owned(), entries.into_iter().collect());
    }
    Ok(())
}

/// True if Go leaves a field with this value and the option `omitempty` out of the JSON. Messages
/// are never empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is_true) => !is_true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// Decodes one entry of a map field into key and value. A missing key is empty, and a missing value
/// is the zero value of its type. Fails for malformed bytes.
fn entry(
    field: &Field,
    found: wire::Field<'_>,
    depth: usize,
) -> Result<(String, Value), WireError> {
    let wire::Field::Bytes(bytes) = found else { return Err(mismatch(&field.go_name, found)) };
    let (mut key, mut value) = (String::new(), None);
    let mut fields = Reader::new(bytes);
    while let Some((number, found)) = fields.next(&field.go_name)? {
        match (number, found) {
            (1, wire::Field::Bytes(text)) => key = lossy(text),
            (2, found) => value = Some(one(field, found, depth)?),
            _ => {}
        }
    }
    let value = match value {
        Some(value) => value,
        None => match field.kind {
            Kind::String | Kind::Bytes => "".into(),
            Kind::Bool => false.into(),
            Kind::Int32 | Kind::Int64 | Kind::Double => 0.into(),
            Kind::Message(_) => one(field, wire::Field::Bytes(&[]), depth)?,
        },
    };
    Ok((key, value))
}

/// Decodes one value of a field. Fails for malformed bytes, and for a wire type that does not fit
/// the type of the field.
#[expect(clippy::cast_possible_truncation, reason = "Go's generated code truncates, too")]
#[expect(clippy::cast_possible_wrap, reason = "varints encode negative numbers this way")]
fn one(field: &Field, found: wire::Field<'_>, depth: usize) -> Result<Value, WireError> {
    Ok(match (field.kind, found) {
        (Kind::String, wire::Field::Bytes(bytes)) => lossy(bytes).into(),
        (Kind::Bytes, wire::Field::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (Kind::Bool, wire::Field::Varint(number)) => (number != 0).into(),
        (Kind::Int32, wire::Field::Varint(number)) => (number as i32).into(),
        (Kind::Int64, wire::Field::Varint(number)) => (number as i64).into(),
        (Kind::Double, wire::Field::Fixed64(bits)) => f64::from_bits(bits).into(),
        (Kind::Message(at), wire::Field::Bytes(bytes)) => {
            let Some(message) = SCHEMA.message(at) else { return Ok(Value::Null) };
            let mut inner = Map::new();
            match message.special {
                None => {
                    read(message, bytes, depth + 1, &mut inner)?;
                    inner.into()
                }
                Some(Special::Raw) => raw(message, bytes)?,
                Some(special) => {
                    read(message, bytes, depth + 1, &mut inner)?;
                    special.value(&inner)
                }
            }
        }
        (_, found) => return Err(mismatch(&field.go_name, found)),
    })
}

/// Reads the JSON in the only field of a message such as `runtime.RawExtension`; null if the field
/// is empty. Fails for malformed bytes, and for text that is not valid JSON.
fn raw(message: &Message, bytes: &[u8]) -> Result<Value, WireError> {
    let mut text: &[u8] = &[];
    let mut fields = Reader::new(bytes);
    while let Some((number, found)) = fields.next(&message.name)? {
        match (number, found) {
            (1, wire::Field::Bytes(raw)) => text = raw,
            (1, other) => return Err(mismatch("Raw", other)),
            _ => {}
        }
    }
    if text.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(text).map_err(|why| WireError::Raw(why.to_string()))
}

impl Special {
    /// The JSON value of a special message with these decoded fields.
    fn value(self, fields: &Map<String, Value>) -> Value {
        let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
        let whole = |name: &str| fields.get(name).and_then(Value::as_i64).unwrap_or_default();
        match self {
            Self::Quantity => match field("string") {
                Value::Null => "0".into(),
                quantity => quantity,
            },
            Self::IntOrString => match whole("type") {
                0 => whole("intVal").into(),
                _ => fields.get("strVal").cloned().unwrap_or_else(|| "".into()),
            },
            Self::Time => instant(whole("seconds"), whole("nanos"), 0),
            Self::MicroTime => instant(whole("seconds"), whole("nanos"), 6),
            Self::Duration => go_duration(whole("duration")).into(),
            Self::Items => fields.get("items").cloned().unwrap_or_else(|| Value::Array(Vec::new())),
            Self::SchemaOr => {
                for list in ["jSONSchemas", "property"] {
                    if let Some(list) = fields.get(list) {
                        return list.clone();
                    }
                }
                match fields
                    .get("schema")
                    .filter(|it| it.as_object().is_some_and(|it| !it.is_empty()))
                {
                    Some(schema) => schema.clone(),
                    None => fields.get("allows").cloned().unwrap_or_else(|| false.into()),
                }
            }
            // The function `raw` decodes these messages from their bytes.
            Self::Raw => Value::Null,
        }
    }
}

/// An instant in JSON with this number of fractional digits, 0 or 6. Null for an empty message,
/// which is Go's zero time, and for an instant outside the range of [`Timestamp`].
fn instant(seconds: i64, nanos: i64, digits: u8) -> Value {
    if seconds == 0 && nanos == 0 {
        return Value::Null;
    }
    let nanos = i32::try_from(nanos).unwrap_or_default();
    match Timestamp::new(seconds, if digits == 0 { 0 } else { nanos }) {
        Ok(instant) if digits == 0 => format!("{instant:.0}").into(),
        Ok(instant) => format!("{instant:.6}").into(),
        Err(_) => Value::Null,
    }
}

/// A duration, given in nanoseconds, as Go prints it, such as `1m30s`.
fn go_duration(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let all = nanoseconds.unsigned_abs();
    let fraction = |rest: u64, digits: usize| {
        let text = format!("{rest:0digits$}");
        let text = text.trim_end_matches('0');
        if text.is_empty() { String::new() } else { format!(".{text}") }
    };
    let text = match all {
        0 => "0s".to_owned(),
        1..1_000 => format!("{all}ns"),
        1_000..1_000_000 => format!("{}{}µs", all / 1_000, fraction(all % 1_000, 3)),
        1_000_000..1_000_000_000 => {
            format!("{}{}ms", all / 1_000_000, fraction(all % 1_000_000, 6))
        }
        _ => {
            let seconds = all / 1_000_000_000;
            let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
            let rest = format!("{}{}s", seconds % 60, fraction(all % 1_000_000_000, 9));
            match (hours, minutes) {
                (0, 0) => rest,
                (0, minutes) => format!("{minutes}m{rest}"),
                (hours, minutes) => format!("{hours}h{minutes}m{rest}"),
            }
        }
    };
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests;
