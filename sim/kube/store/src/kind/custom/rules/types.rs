//! Types of expressions in CEL, and the types that a schema gives to values.
//!
//! Follows `apiserver: pkg/cel/common/schemas.go` and `pkg/cel/escaping.go`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// The type of an expression.
#[derive(Clone, Debug)]
pub(super) enum Type {
    /// The element of an empty list or map, and the value of an empty optional: fits every type.
    Free,
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Timestamp,
    Duration,
    /// The result of `type(x)`.
    Kind,
    List(Arc<Type>, Order),
    Map(Arc<Type>, Arc<Type>),
    Object(Arc<Object>),
    Optional(Arc<Type>),
    /// A type of the Kubernetes libraries, such as `quantity`.
    Opaque(&'static str),
    /// A parameter of a signature: `C` for types with an order, `N` for types with a sum, other
    /// letters for any type.
    Param(char),
}

/// The identity of the elements of a list, which decides whether two lists are equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Order {
    /// The position identifies an element.
    Counts,
    /// `x-kubernetes-list-type` is `set` or `map`: two lists in another order are equal.
    IsFree,
}

/// The type of an object with named fields.
#[derive(Debug)]
pub(super) struct Object {
    /// Name in messages, which tells types apart.
    pub(super) name: String,
    /// Fields by their names in expressions.
    pub(super) fields: BTreeMap<String, Field>,
}

/// A field of an object.
#[derive(Debug)]
pub(super) struct Field {
    /// Name of the field in objects.
    pub(super) name: String,
    pub(super) kind: Type,
}

impl Type {
    pub(super) fn list(of: Self) -> Self {
        Self::List(Arc::new(of), Order::Counts)
    }

    /// Returns the type of the values that `schema` describes. Returns `None` if expressions cannot
    /// read such values, because parts of them have no type. `is_root` is true for the schema of a
    /// whole or embedded object.
    pub(super) fn of_schema(schema: &Value, name: &str, is_root: bool) -> Option<Self> {
        if schema["x-kubernetes-int-or-string"] == true {
            return Some(Self::Dyn);
        }
        match schema["type"].as_str()? {
            "array" => {
                let items = &schema["items"];
                let of = Self::of_schema(items, &format!("{name}.@idx"), is_embedded(items))?;
                let order = match schema["x-kubernetes-list-type"].as_str() {
                    Some("set" | "map") => Order::IsFree,
                    _ => Order::Counts,
                };
                Some(Self::List(Arc::new(of), order))
            }
            "object" if schema["additionalProperties"].is_object() && !is_root => {
                let others = &schema["additionalProperties"];
                let of = Self::of_schema(others, &format!("{name}.@elem"), is_embedded(others))?;
                Some(Self::Map(Arc::new(Self::Text), Arc::new(of)))
            }
            "object" => Some(Self::Object(Arc::new(Object::of_schema(schema, name, is_root)))),
            "string" => Some(match schema["format"].as_str() {
                Some("byte") => Self::Bytes,
                Some("duration") => Self::Duration,
                Some("date" | "date-time") => Self::Timestamp,
                _ => Self::Text,
            }),
            "boolean" => Some(Self::Bool),
            "number" => Some(Self::Double),
            "integer" => Some(Self::Int),
            _ => None,
        }
    }

    /// True if a value of type `given` may stand where this type is expected. Binds the parameters
    /// of a signature to types.
    pub(super) fn fits(&self, given: &Self, bound: &mut BTreeMap<char, Self>) -> bool {
        match (self, given) {
            (Self::Param(name), _) => {
                if !given.is_of_class(*name) {
                    return false;
                }
                let Some(before) = bound.get(name).cloned() else {
                    bound.insert(*name, given.clone());
                    return true;
                };
                let joined = before.join(given);
                joined.map(|joined| bound.insert(*name, joined)).is_some()
            }
            (Self::Free | Self::Dyn, _) | (_, Self::Free | Self::Dyn) => true,
            (Self::List(one, _), Self::List(other, _)) => one.fits(other, bound),
            (Self::Optional(one), Self::Optional(other)) => one.fits(other, bound),
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                key.fits(other_key, bound) && value.fits(other_value, bound)
            }
            (Self::Object(one), Self::Object(other)) => one.name == other.name,
            (Self::Opaque(one), Self::Opaque(other)) => one == other,
            (Self::Object(_) | Self::Timestamp | Self::Duration, Self::Null) => true,
            _ => std::mem::discriminant(self) == std::mem::discriminant(given),
        }
    }

    /// True if a type may take the place of the parameter `name`.
    fn is_of_class(&self, name: char) -> bool {
        let is_sum = matches!(
            self,
            Self::Free | Self::Dyn | Self::Int | Self::Uint | Self::Double | Self::Duration
        );
        let is_ordered = matches!(self, Self::Bool | Self::Text | Self::Bytes | Self::Timestamp);
        match name {
            'N' => is_sum,
            'C' => is_sum || is_ordered,
            _ => true,
        }
    }

    /// Returns the type that includes both types; `None` if they exclude each other.
    pub(super) fn join(&self, other: &Self) -> Option<Self> {
        let mut none = BTreeMap::new();
        Some(match (self, other) {
            (Self::Free, it) | (it, Self::Free) => it.clone(),
            (Self::Dyn, _) | (_, Self::Dyn) => Self::Dyn,
            (Self::List(one, order), Self::List(other, _)) => {
                Self::List(Arc::new(one.join(other)?), *order)
            }
            (Self::Optional(one), Self::Optional(other)) => {
                Self::Optional(Arc::new(one.join(other)?))
            }
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                Self::Map(Arc::new(key.join(other_key)?), Arc::new(value.join(other_value)?))
            }
            _ if self.fits(other, &mut none) => self.clone(),
            _ if other.fits(self, &mut none) => other.clone(),
            _ => return None,
        })
    }

    /// Returns the type with its parameters replaced.
    pub(super) fn filled(&self, bound: &BTreeMap<char, Self>) -> Self {
        match self {
            Self::Param(name) => bound.get(name).cloned().unwrap_or(Self::Free),
            Self::List(of, order) => Self::List(Arc::new(of.filled(bound)), *order),
            Self::Optional(of) => Self::Optional(Arc::new(of.filled(bound))),
            Self::Map(key, of) => {
                Self::Map(Arc::new(key.filled(bound)), Arc::new(of.filled(bound)))
            }
            other => other.clone(),
        }
    }

    /// True if two equal values of this type may list their elements in another order.
    pub(super) fn has_free_order(&self) -> bool {
        match self {
            Self::List(of, order) => *order == Order::IsFree || of.has_free_order(),
            Self::Map(_, of) | Self::Optional(of) => of.has_free_order(),
            Self::Object(object) => object.fields.values().any(|it| it.kind.has_free_order()),
            _ => false,
        }
    }
}

impl Object {
    fn of_schema(schema: &Value, name: &str, is_root: bool) -> Self {
        let mut fields = BTreeMap::new();
        let mut add = |property: &str, schema: &Value| {
            let kind = Type::of_schema(schema, &format!("{name}.{property}"), is_embedded(schema));
            if let (Some(kind), Some(escaped)) = (kind, escape(property)) {
                fields.insert(escaped, Field { name: property.to_owned(), kind });
            }
        };
        for (property, schema) in schema["properties"].as_object().into_iter().flatten() {
            add(property, schema);
        }
        if is_root && !names_its_metadata(schema) {
            let text = serde_json::json!({"type": "string"});
            add("kind", &text);
            add("apiVersion", &text);
            let names = serde_json::json!({"name": text, "generateName": text});
            add("metadata", &serde_json::json!({"type": "object", "properties": names}));
        }
        Self { name: name.to_owned(), fields }
    }
}

fn is_embedded(schema: &Value) -> bool {
    schema["x-kubernetes-embedded-resource"] == true
}

/// True if the schema of an object describes its kind, apiVersion and names itself.
fn names_its_metadata(schema: &Value) -> bool {
    let properties = &schema["properties"];
    let metadata = &properties["metadata"];
    let is_text = |schema: &Value| schema["type"] == "string";
    let names = ["name", "generateName"];
    is_text(&properties["kind"])
        && is_text(&properties["apiVersion"])
        && metadata["type"] == "object"
        && names.iter().all(|name| is_text(&metadata["properties"][*name]))
}

pub(super) const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Returns the name by which expressions call the field `name`; `None` if they cannot.
pub(super) fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/');
    name.chars().all(is_known).then(|| {
        name.replace("__", "__underscores__")
            .replace('.', "__dot__")
            .replace('-', "__dash__")
            .replace('/', "__slash__")
    })
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free | Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::Text => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::Kind => f.write_str("type"),
            Self::List(of, _) => write!(f, "list({of})"),
            Self::Map(key, of) => write!(f, "map({key}, {of})"),
            Self::Object(object) => f.write_str(&object.name),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Opaque(name) => f.write_str(name),
            Self::Param(name) => write!(f, "{name}"),
        }
    }
}
