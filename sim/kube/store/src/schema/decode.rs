//! Decoding of documents into Go types: checks types, drops unknown fields, and drops empty fields
//! unless Go writes them.
//!
//! Messages are those of `sigs.k8s.io/json` (bodies, JSON and merge patches) and of
//! `apimachinery: pkg/runtime/converter.go` (strategic merge patches). The result is the object
//! that the real server returns. That server stores protobuf, which has neither null nor the empty
//! list.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use super::binary::base64;
use super::canonical::is_canonical;
use super::duration;
use super::quantity;
use super::time::{rfc3339, rfc3339_micro};
use super::types::{Struct, Type, Types};
use crate::values::text::{go_type, json_type, quote};

/// Go's name of the map type for amounts of resources. Go rounds the quantities in this map.
pub(super) const RESOURCES: &str = "v1.ResourceList";

/// The Go decoder whose error texts describe values of the wrong type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoDecoder {
    /// The JSON decoder.
    Json,
    /// The converter from unstructured documents.
    Converter,
}

/// A decoded document, in the form in which Go writes it.
#[derive(Debug, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) object: Value,
    /// Complaints about unknown fields. Those of [`decode`] are in the order of the document.
    pub(crate) unknown: Vec<String>,
}

/// Decodes `document` as the structure `root` and drops unknown fields.
///
/// # Errors
/// Go's error text for the first value of the wrong type.
pub(crate) fn decode(root: &Struct, document: &Value, words: GoDecoder) -> Result<Decoded, String> {
    decode_by(Types::builtin(), root, document, words)
}

/// Like [`decode`], with `types` in place of the structures of the built-in kinds.
///
/// # Errors
/// Go's error text for the first value of the wrong type.
pub(super) fn decode_by(
    types: &'static Types,
    root: &Struct,
    document: &Value,
    words: GoDecoder,
) -> Result<Decoded, String> {
    let mut decoder = Decoder { types, words, again: false, unknown: Vec::new(), path: Vec::new() };
    let object = decoder.structure(root, document, "")?;
    Ok(Decoded { object, unknown: decoder.unknown })
}

/// Returns `document`, which must have been decoded before, with its fields in Go's order. Returns
/// `None` if [`is_canonical`] finds that the document has this order already, or if the document
/// does not fit the structure `root`.
pub(crate) fn reordered(root: &Struct, document: &Value) -> Option<Value> {
    if is_canonical(root, document) {
        return None;
    }
    let mut decoder = Decoder {
        types: Types::builtin(),
        words: GoDecoder::Json,
        again: true,
        unknown: Vec::new(),
        path: Vec::new(),
    };
    decoder.structure(root, document, "").ok()
}

/// Decodes the `metadata` of an object whose kind has no Go structure.
///
/// # Errors
/// Go's error text for the first value of the wrong type.
pub(crate) fn decode_metadata(metadata: &Value, words: GoDecoder) -> Result<Decoded, String> {
    const NAME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let types = Types::builtin();
    let Some(root) = types.named(NAME) else {
        return Ok(Decoded { object: metadata.clone(), unknown: Vec::new() });
    };
    if !metadata.is_object() && !metadata.is_null() {
        let (found, go) = (json_type(metadata), &root.go);
        return Err(format!("json: cannot unmarshal {found} into Go value of type {go}"));
    }
    let mut decoder =
        Decoder { types, words, again: false, unknown: Vec::new(), path: vec![Step::Root] };
    let object = decoder.structure(root, metadata, "")?;
    Ok(Decoded { object, unknown: decoder.unknown })
}

struct Decoder<'a> {
    types: &'static Types,
    words: GoDecoder,
    /// True if the document was decoded before. Its times then stay unchanged: they already have
    /// the form in which Go writes them, and Go cannot parse all of them, for example a time in the
    /// year 10000.
    again: bool,
    unknown: Vec<String>,
    path: Vec<Step<'a>>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    /// The metadata of an object without a structure. Paths in messages about types begin below
    /// this step.
    Root,
    Field(&'static str),
    Key(&'a str),
    Index(usize),
}

impl<'a> Decoder<'a> {
    /// Decodes a structure; the result is always a map. `parent` is the name of the enclosing
    /// structure.
    ///
    /// # Errors
    /// Go's error text for the first value of the wrong type.
    fn structure(&mut self, of: &Struct, value: &'a Value, parent: &str) -> Result<Value, String> {
        let given = match value {
            Value::Object(given) => Some(given),
            Value::Null => None,
            other => return Err(self.mismatch(other, parent, &of.go, "struct")),
        };
        let mut found: Vec<Option<Value>> = vec![None; of.fields.len()];
        for (name, value) in given.into_iter().flatten() {
            let Some(at) = of.position(name) else {
                let complaint = format!("unknown field {}", quote(&self.strict_path(name)));
                self.unknown.push(complaint);
                continue;
            };
            let field = &of.fields[at];
            self.path.push(Step::Field(field.name));
            found[at] = self.value(&field.of, value, of.name)?;
            self.path.pop();
        }
        let mut out = Map::new();
        for (field, value) in of.fields.iter().zip(found) {
            match value {
                Some(value) => {
                    out.insert(field.name.into(), value);
                }
                None if field.omitted => {}
                None => {
                    out.insert(field.name.into(), self.zero(&field.of));
                }
            }
        }
        Ok(Value::Object(out))
    }

    /// Decodes a value. Returns `None` for null and for an empty value, such as an empty text or
    /// list, which Go omits or writes as [`Self::zero`]. A pointer keeps its empty value. Null for
    /// a structure gives its zero value.
    ///
    /// # Errors
    /// Go's error text for a value of the wrong type or format.
    fn value(
        &mut self,
        of: &Type,
        value: &'a Value,
        parent: &str,
    ) -> Result<Option<Value>, String> {
        if value.is_null() && !matches!(of, Type::Struct(_)) {
            // Go writes a pointer to its zero time as null.
            let is_kept = self.again
                && matches!(of, Type::Pointer(of) if matches!(**of, Type::Time | Type::MicroTime));
            return Ok(is_kept.then_some(Value::Null));
        }
        Ok(match (of, value) {
            (Type::Pointer(inner), _) => {
                let found = self.value(inner, value, parent)?;
                Some(found.unwrap_or_else(|| self.zero(inner)))
            }
            (Type::String(_), Value::String(text)) => {
                (!text.is_empty()).then(|| Value::String(text.clone()))
            }
            (Type::String(go), other) => return Err(self.mismatch(other, parent, go, "string")),
            (Type::Bool, Value::Bool(flag)) => flag.then_some(Value::Bool(true)),
            (Type::Bool, other) => return Err(self.mismatch(other, parent, "bool", "bool")),
            (Type::Int(go), other) => self.integer(go, other, parent)?,
            (Type::Float, Value::Number(_)) => Some(value.clone()),
            (Type::Float, other) => {
                return Err(self.mismatch(other, parent, "float64", "float64"));
            }
            (Type::Bytes, Value::String(text)) => Some(bytes(text)?),
            (Type::Bytes, other) => return Err(self.mismatch(other, parent, "[]uint8", "slice")),
            (Type::Time | Type::MicroTime, Value::String(_)) if self.again => Some(value.clone()),
            (Type::Time, Value::String(text)) => rfc3339(text)?.in_seconds().map(Value::String),
            (Type::MicroTime, Value::String(text)) => {
                rfc3339_micro(text)?.in_micros().map(Value::String)
            }
            (Type::Time | Type::MicroTime, other) => {
                return Err(self.json_mismatch(other, parent, "string"));
            }
            (Type::Duration, Value::String(text)) => Some(duration::canonical(text)?.into()),
            (Type::Duration, other) => return Err(self.json_mismatch(other, parent, "string")),
            (Type::Quantity, other) => Some(quantity::canonical(other)?.into()),
            (Type::IntOrString, Value::String(_)) => Some(value.clone()),
            (Type::IntOrString, other) => match other {
                Value::Number(_) => self.integer("int32", other, parent)?,
                _ => return Err(self.json_mismatch(other, parent, "int32")),
            },
            (Type::Raw, _) => Some(value.clone()),
            (Type::Struct(at), _) => {
                let types = self.types;
                match types.at(*at) {
                    Some(of) => Some(self.structure(of, value, parent)?),
                    None => None,
                }
            }
            (Type::List(_, element), Value::Array(list)) => {
                let mut out = Vec::with_capacity(list.len());
                for (at, value) in list.iter().enumerate() {
                    self.path.push(Step::Index(at));
                    let found = self.value(element, value, parent)?;
                    out.push(found.unwrap_or_else(|| self.zero(element)));
                    self.path.pop();
                }
                (!out.is_empty()).then_some(Value::Array(out))
            }
            (Type::List(go, _), other) => return Err(self.mismatch(other, parent, go, "slice")),
            (Type::Map(go, of), Value::Object(map)) => {
                let mut out = Vec::with_capacity(map.len());
                for (key, value) in map {
                    self.path.push(Step::Key(key));
                    let found = match **of {
                        Type::Quantity if go == RESOURCES && !value.is_null() => {
                            Some(quantity::amount(value)?.into())
                        }
                        // Protobuf has no null among the values of a map.
                        Type::Bytes if value.is_null() => Some(String::new().into()),
                        _ => self.value(of, value, parent)?,
                    };
                    out.push((key.clone(), found.unwrap_or_else(|| self.zero(of))));
                    self.path.pop();
                }
                out.sort_by(|(a, _), (b, _)| a.cmp(b));
                (!out.is_empty()).then(|| Value::Object(out.into_iter().collect()))
            }
            (Type::Map(go, _), other) => return Err(self.mismatch(other, parent, go, "map")),
        })
    }

    fn integer(&self, go: &str, value: &Value, parent: &str) -> Result<Option<Value>, String> {
        let Value::Number(number) = value else {
            return Err(self.mismatch(value, parent, go, go));
        };
        // The converter accepts floats that are whole numbers.
        let whole = number.as_i64().or_else(|| match (self.words, number.as_f64()) {
            #[expect(clippy::cast_possible_truncation, reason = "bounds are checked first")]
            (GoDecoder::Converter, Some(float)) if float.fract() == 0.0 && float.abs() < 1e15 => {
                Some(float as i64)
            }
            _ => None,
        });
        let fits = |whole: &i64| go != "int32" || i32::try_from(*whole).is_ok();
        match whole.filter(fits) {
            Some(0) => Ok(None),
            Some(whole) => Ok(Some(Value::Number(Number::from(whole)))),
            None => Err(match self.words {
                GoDecoder::Json => self.unmarshal(&format!("number {number}"), parent, go),
                GoDecoder::Converter => format!("cannot convert {} to {go}", go_type(value)),
            }),
        }
    }

    /// Returns the value that Go writes for a field that the document does not set.
    fn zero(&self, of: &Type) -> Value {
        match of {
            Type::String(_) => String::new().into(),
            Type::Bool => false.into(),
            Type::Int(_) | Type::Float | Type::IntOrString => 0.into(),
            Type::Quantity => "0".into(),
            Type::Duration => "0s".into(),
            Type::Struct(at) => {
                let mut out = Map::new();
                for field in self.types.at(*at).into_iter().flat_map(|of| &of.fields) {
                    if !field.omitted {
                        out.insert(field.name.into(), self.zero(&field.of));
                    }
                }
                Value::Object(out)
            }
            nullable => {
                debug_assert!(
                    nullable.is_nullable(),
                    "zero value of {nullable:?} is not null; add it to this match"
                );
                Value::Null
            }
        }
    }

    /// Returns the error text for a value of the wrong type at the current path.
    fn mismatch(&self, found: &Value, parent: &str, go: &str, kind: &str) -> String {
        if self.words == GoDecoder::Json {
            return self.json_mismatch(found, parent, go);
        }
        match (kind, go_type(found)) {
            ("struct", found) => format!("cannot restore struct from: {found}"),
            ("map" | "slice", found) => format!("cannot restore {kind} from {found}"),
            // The converter has a different error for an integer in place of a string.
            ("string", found @ "int64") => format!("cannot convert {found} to {go}"),
            _ => format!("unrecognized type: {kind}"),
        }
    }

    fn json_mismatch(&self, found: &Value, parent: &str, go: &str) -> String {
        self.unmarshal(json_type(found), parent, go)
    }

    fn unmarshal(&self, found: &str, parent: &str, go: &str) -> String {
        let mut path = parent.to_owned();
        for step in &self.path {
            if let Step::Field(name) = step {
                path.push('.');
                path.push_str(name);
            }
        }
        format!("json: cannot unmarshal {found} into Go struct field {path} of type {go}")
    }

    /// Returns the path of a field of the current structure, with list positions and map keys.
    fn strict_path(&self, name: &str) -> String {
        let mut path = String::new();
        for step in &self.path {
            match step {
                Step::Index(at) => {
                    path.push_str(&format!("[{at}]"));
                }
                Step::Root => path.push_str("metadata"),
                Step::Field(name) | Step::Key(name) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(name);
                }
            }
        }
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        path
    }
}

pub(super) fn bytes(text: &str) -> Result<Value, String> {
    Ok(STANDARD.encode(base64(text)?).into())
}
