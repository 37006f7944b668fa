//! Table of the protobuf messages and their fields, read once from the data file `schema.json`.
//!
//! `generate.py`, in the same folder, generates `schema.json` from `generated.proto` and the Go
//! types of Kubernetes.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::Deserialize;

/// All known kinds and messages.
pub(super) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let raw: Raw =
        serde_json::from_str(include_str!("schema.json")).expect("schema.json is readable");
    Schema::new(raw)
});

#[derive(Deserialize, Default)]
struct Raw {
    kinds: BTreeMap<String, String>,
    messages: BTreeMap<String, BTreeMap<i32, String>>,
}

/// Messages, and for each kind the message that encodes its objects.
#[derive(Debug)]
pub(super) struct Schema {
    /// Indexes of messages by `apiVersion/kind`.
    kinds: HashMap<String, usize>,
    messages: Vec<Message>,
}

/// One message type.
#[derive(Debug)]
pub(super) struct Message {
    /// Name without package; error messages contain it.
    pub(super) name: String,
    pub(super) special: Option<Special>,
    fields: HashMap<i32, Field>,
}

/// One field of a message type.
#[derive(Debug)]
pub(super) struct Field {
    /// Name of the field in JSON.
    pub(super) name: String,
    /// Name of the field in Go; error messages contain it.
    pub(super) go_name: String,
    pub(super) kind: Kind,
    pub(super) is_repeated: bool,
    pub(super) is_map: bool,
    /// True if the field is a pointer in Go: if a body contains the field, the JSON has it even
    /// with an empty value.
    pub(super) is_pointer: bool,
    /// True if JSON omits the field when its value is empty (`omitempty`).
    pub(super) is_optional: bool,
    /// True if the field is a message whose fields belong to the enclosing object in JSON.
    pub(super) is_inline: bool,
}

/// The type of a field; of its elements for a repeated field, of its values for a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    String,
    Bytes,
    Bool,
    Int32,
    Int64,
    Double,
    /// A message, by its index in [`Schema::messages`].
    Message(usize),
}

/// Messages whose JSON is not an object of their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    Duration,
    /// JSON in the only field.
    Raw,
    /// A list in the only field, without a name in JSON.
    Items,
    /// A schema, or in its place a boolean, a list of schemas or a list of strings.
    SchemaOr,
}

impl Special {
    fn of(message: &str) -> Option<Self> {
        match message {
            "resource.Quantity" => Some(Self::Quantity),
            "intstr.IntOrString" => Some(Self::IntOrString),
            "meta.v1.Time" => Some(Self::Time),
            "meta.v1.MicroTime" => Some(Self::MicroTime),
            "meta.v1.Duration" => Some(Self::Duration),
            "meta.v1.FieldsV1" | "runtime.RawExtension" | "apiextensions.v1.JSON" => {
                Some(Self::Raw)
            }
            "authentication.v1.ExtraValue" | "authorization.v1.ExtraValue" => Some(Self::Items),
            "apiextensions.v1.JSONSchemaPropsOrArray"
            | "apiextensions.v1.JSONSchemaPropsOrBool"
            | "apiextensions.v1.JSONSchemaPropsOrStringArray" => Some(Self::SchemaOr),
            _ => None,
        }
    }
}

impl Schema {
    fn new(raw: Raw) -> Self {
        let Raw { kinds, messages } = raw;
        let places: HashMap<&str, usize> =
            messages.keys().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let field = |text: &String| {
            let mut words = text.split_whitespace();
            let name = words.next().unwrap_or_default().to_owned();
            let kind = words.next().unwrap_or_default();
            let flags = words.next().unwrap_or_default();
            let mut letters = name.chars();
            let capital = letters.next().map(|first| first.to_ascii_uppercase());
            let go_name = match words.next() {
                Some(go_name) => go_name.to_owned(),
                None => capital.into_iter().chain(letters).collect(),
            };
            let inner = kind.strip_prefix("map:").unwrap_or(kind);
            let of = match inner {
                "string" => Kind::String,
                "bytes" => Kind::Bytes,
                "bool" => Kind::Bool,
                "int32" => Kind::Int32,
                "int64" => Kind::Int64,
                "double" => Kind::Double,
                message => Kind::Message(places.get(message).copied().unwrap_or(usize::MAX)),
            };
            Field {
                name,
                go_name,
                kind: of,
                is_map: kind != inner,
                is_repeated: flags.contains('r'),
                is_pointer: flags.contains('p'),
                is_optional: flags.contains('o'),
                is_inline: flags.contains('i'),
            }
        };
        let kinds = kinds
            .iter()
            .filter_map(|(kind, message)| Some((kind.clone(), *places.get(message.as_str())?)))
            .collect();
        let messages = messages
            .iter()
            .map(|(name, fields)| Message {
                name: name.rsplit('.').next().unwrap_or(name).to_owned(),
                special: Special::of(name),
                fields: fields.iter().map(|(number, text)| (*number, field(text))).collect(),
            })
            .collect();
        Self { kinds, messages }
    }

    /// The message of a kind; `None` for an unknown kind.
    pub(super) fn kind(&self, api_version: &str, kind: &str) -> Option<&Message> {
        // Every group has `DeleteOptions`.
        let api_version = if kind == "DeleteOptions" { "v1" } else { api_version };
        self.messages.get(*self.kinds.get(&format!("{api_version}/{kind}"))?)
    }

    pub(super) fn message(&self, at: usize) -> Option<&Message> {
        self.messages.get(at)
    }
}

impl Message {
    /// Every field with its number, in no particular order.
    #[cfg(any(test, fuzzing))]
    pub(super) fn fields(&self) -> impl Iterator<Item = (i32, &Field)> {
        self.fields.iter().map(|(number, field)| (*number, field))
    }

    pub(super) fn field(&self, number: i32) -> Option<&Field> {
        self.fields.get(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_of_the_protobuf_schema_is_defined() {
        let raw: Raw =
            serde_json::from_str(include_str!("schema.json")).expect("schema.json is readable");
        assert!(SCHEMA.kinds.len() >= 25, "{} kinds", SCHEMA.kinds.len());
        let known: Vec<&String> =
            raw.kinds.keys().filter(|kind| SCHEMA.kinds.contains_key(*kind)).collect();
        assert_eq!(known.len(), raw.kinds.len(), "a kind whose message is missing is dropped");
        for message in &SCHEMA.messages {
            for field in message.fields.values() {
                if let Kind::Message(at) = field.kind {
                    assert!(SCHEMA.message(at).is_some(), "{}.{}", message.name, field.name);
                }
            }
        }
        for (api_version, kind) in
            [("v1", "Node"), ("coordination.k8s.io/v1", "Lease"), ("apps/v1", "DeleteOptions")]
        {
            assert!(SCHEMA.kind(api_version, kind).is_some(), "{api_version} {kind}");
        }
    }
}
