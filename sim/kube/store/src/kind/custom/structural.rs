//! Structural schemas, and the treatment of nulls, defaults and unknown fields that they demand.
//!
//! Follows `apiextensions-apiserver: pkg/apiserver/schema/{pruning,defaulting}`.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

use super::rules::Rules;
use super::{formats, numbers};
use crate::values::patterns;

/// The schema of a value.
#[derive(Debug, Default)]
pub(crate) struct Structural {
    /// Type, such as `object` or `integer`; empty for any type.
    pub(super) kind: String,
    pub(super) format: String,
    pub(super) is_int_or_string: bool,
    pub(super) is_nullable: bool,
    pub(super) keeps_unknown: bool,
    /// True for an embedded object, which has its own apiVersion, kind and metadata.
    pub(super) is_embedded: bool,
    pub(super) properties: BTreeMap<String, Self>,
    pub(super) others: Option<AdditionalProperties>,
    pub(super) items: Option<Box<Self>>,
    pub(super) default: Option<Value>,
    pub(super) required: Vec<String>,
    pub(super) allowed: Vec<Value>,
    pub(super) pattern: Option<(String, Option<Regex>)>,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,
    pub(super) lengths: (Option<u64>, Option<u64>),
    pub(super) n_items: (Option<u64>, Option<u64>),
    pub(super) n_properties: (Option<u64>, Option<u64>),
    pub(super) list: ListType,
    pub(super) all_of: Vec<Self>,
    pub(super) any_of: Vec<Self>,
    pub(super) one_of: Vec<Self>,
    pub(super) not: Option<Box<Self>>,
    pub(super) rules: Option<Rules>,
    /// True if this schema or a schema inside it has rules.
    pub(super) has_rules: bool,
}

/// Rule for properties that the schema does not name (`additionalProperties`).
#[derive(Debug)]
pub(super) enum AdditionalProperties {
    Any,
    Like(Box<Structural>),
}

/// A bound of a range of numbers.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) at: f64,
    /// The bound as the definition writes it.
    pub(super) shown: String,
    pub(super) is_exclusive: bool,
}

/// Rule for the identity of list elements.
#[derive(Debug, Default)]
pub(super) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

impl Structural {
    /// Returns the schema that accepts everything.
    pub(super) fn any() -> Self {
        Self { keeps_unknown: true, ..Self::default() }
    }

    /// Reads the schema of a part of an object.
    pub(crate) fn read(schema: &Value) -> Self {
        Self::read_at(schema, schema["x-kubernetes-embedded-resource"] == true)
    }

    /// Reads the schema of a whole object.
    pub(crate) fn read_root(schema: &Value) -> Self {
        Self::read_at(schema, true)
    }

    /// Reads a schema; `is_root` is true for that of a whole or embedded object.
    fn read_at(schema: &Value, is_root: bool) -> Self {
        let mut read = Self::read_fields(schema);
        read.rules = Rules::compile(schema, is_root);
        let others = match &read.others {
            Some(AdditionalProperties::Like(like)) => Some(like.as_ref()),
            _ => None,
        };
        let mut inner = read.properties.values().chain(read.items.as_deref()).chain(others);
        read.has_rules = read.rules.is_some() || inner.any(|it| it.has_rules);
        read
    }

    fn read_fields(schema: &Value) -> Self {
        let text = |field: &str| schema[field].as_str().unwrap_or_default().to_owned();
        let is = |field: &str| schema[field] == true;
        let number = |field: &str| schema[field].as_u64();
        let many = |field: &str| {
            schema[field].as_array().into_iter().flatten().map(Self::read).collect::<Vec<_>>()
        };
        let bound = |field: &str, exclusive: &str| {
            Some(Bound {
                at: schema[field].as_f64()?,
                shown: schema[field].to_string(),
                is_exclusive: is(exclusive),
            })
        };
        let properties = schema["properties"].as_object().into_iter().flatten();
        Self {
            kind: text("type"),
            format: format(&schema["type"], text("format")),
            is_int_or_string: is("x-kubernetes-int-or-string"),
            is_nullable: is("nullable"),
            keeps_unknown: is("x-kubernetes-preserve-unknown-fields"),
            is_embedded: is("x-kubernetes-embedded-resource"),
            properties: properties.map(|(name, it)| (name.clone(), Self::read(it))).collect(),
            others: match &schema["additionalProperties"] {
                Value::Bool(true) => Some(AdditionalProperties::Any),
                it @ Value::Object(_) => Some(AdditionalProperties::Like(Box::new(Self::read(it)))),
                _ => None,
            },
            items: schema["items"].is_object().then(|| Box::new(Self::read(&schema["items"]))),
            default: schema.get("default").cloned().map(|mut default| {
                numbers::to_go_numbers(&mut default);
                default
            }),
            required: super::texts(&schema["required"]),
            allowed: schema["enum"].as_array().cloned().unwrap_or_default(),
            pattern: schema["pattern"].as_str().filter(|it| !it.is_empty()).map(|pattern| {
                // A pattern that does not compile matches nothing.
                (pattern.to_owned(), patterns::compile(pattern).ok())
            }),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: schema["multipleOf"].as_f64(),
            lengths: (number("minLength"), number("maxLength")),
            n_items: (number("minItems"), number("maxItems")),
            n_properties: (number("minProperties"), number("maxProperties")),
            list: match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map(super::texts(&schema["x-kubernetes-list-map-keys"])),
                _ => ListType::Atomic,
            },
            all_of: many("allOf"),
            any_of: many("anyOf"),
            one_of: many("oneOf"),
            not: schema["not"].is_object().then(|| Box::new(Self::read(&schema["not"]))),
            rules: None,
            has_rules: false,
        }
    }

    /// Removes unknown fields from a whole object, and appends their paths to `paths`. Converts the
    /// numbers in the remaining fields to Go's number types. Leaves apiVersion, kind and metadata
    /// as they are.
    pub(super) fn prune_root(&self, object: &mut Value, paths: &mut Vec<String>) {
        self.prune(object, "", true, paths);
    }

    fn prune(&self, value: &mut Value, path: &str, is_object: bool, paths: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                let is_object = is_object || self.is_embedded;
                let mut gone = Vec::new();
                for (name, value) in map.iter_mut() {
                    let here = join(path, name);
                    let is_system = matches!(name.as_str(), "apiVersion" | "kind" | "metadata");
                    if is_object && is_system {
                        continue;
                    }
                    if let Some(known) = self.properties.get(name) {
                        known.prune(value, &here, false, paths);
                    } else if let Some(AdditionalProperties::Like(like)) = &self.others {
                        like.prune(value, &here, false, paths);
                    } else if self.others.is_none() && !self.keeps_unknown {
                        gone.push(name.clone());
                        paths.push(here);
                    } else {
                        numbers::to_go_numbers(value);
                    }
                }
                for name in gone {
                    map.shift_remove(&name);
                }
            }
            Value::Array(list) => {
                for (at, value) in list.iter_mut().enumerate() {
                    if let Some(items) = &self.items {
                        items.prune(value, &format!("{path}[{at}]"), false, paths);
                    } else {
                        numbers::to_go_numbers(value);
                    }
                }
            }
            other => {
                numbers::to_go_number(other, self.kind == "integer" || self.is_int_or_string);
            }
        }
    }

    /// Removes null fields that the schema neither allows nor replaces by a default.
    pub(super) fn remove_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(map) => map.retain(|name, value| {
                let Some(known) = self.field(name) else { return true };
                known.remove_nulls(value);
                !value.is_null() || known.is_nullable || known.default.is_some()
            }),
            Value::Array(list) => {
                if let Some(items) = &self.items {
                    list.iter_mut().for_each(|value| items.remove_nulls(value));
                }
            }
            _ => {}
        }
    }

    /// Returns the schema of the field `name`; `None` if this schema does not describe the field.
    fn field(&self, name: &str) -> Option<&Self> {
        match (self.properties.get(name), &self.others) {
            (None, Some(AdditionalProperties::Like(like))) => Some(like),
            (known, _) => known,
        }
    }

    /// Removes null fields that the schema does not allow, then fills in defaults.
    pub(crate) fn apply_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (name, known) in &self.properties {
                    if map.get(name).is_some_and(Value::is_null) && !known.is_nullable {
                        map.shift_remove(name);
                    }
                }
                if let Some(AdditionalProperties::Like(like)) = &self.others
                    && !like.is_nullable
                {
                    let is_known = |name: &String| self.properties.contains_key(name);
                    map.retain(|name, value| !value.is_null() || is_known(name));
                }
                self.default_fields(map);
                for (name, value) in map.iter_mut() {
                    if let Some(known) = self.properties.get(name) {
                        known.apply_defaults(value);
                    } else if let Some(AdditionalProperties::Like(like)) = &self.others {
                        like.apply_defaults(value);
                    }
                }
            }
            Value::Array(list) => {
                if let Some(items) = &self.items {
                    list.iter_mut().for_each(|value| items.apply_defaults(value));
                }
            }
            _ => {}
        }
    }

    fn default_fields(&self, map: &mut Map<String, Value>) {
        for (name, known) in &self.properties {
            if let (Some(default), None) = (&known.default, map.get(name)) {
                map.insert(name.clone(), default.clone());
            }
        }
    }
}

/// True if a value has fields that its schema does not allow.
pub(crate) fn has_unknown(schema: &Structural, value: &Value) -> bool {
    let mut paths = Vec::new();
    schema.prune(&mut value.clone(), "", false, &mut paths);
    !paths.is_empty()
}

/// Returns the format; empty if the type is numeric and the format does not belong to this type.
fn format(kind: &Value, format: String) -> String {
    let counts = match kind.as_str() {
        Some(kind @ ("integer" | "number")) => formats::is_known(kind, &format),
        _ => true,
    };
    if counts { format } else { String::new() }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
