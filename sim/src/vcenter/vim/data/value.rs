//! vim25 values, independent of their encoding. SOAP is the only encoding so far.

use std::sync::Arc;

use jiff::Timestamp;
use sim_world::vcenter::MoRef;

/// A reference to a managed object, inside or outside the inventory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reference {
    /// Name of the vim25 type of the object.
    pub(crate) kind: &'static str,
    /// Managed object id, such as `vm-17`.
    pub(crate) id: Arc<str>,
}

impl Reference {
    pub(crate) fn new(kind: &'static str, id: impl Into<Arc<str>>) -> Self {
        Self { kind, id: id.into() }
    }
}

impl From<MoRef> for Reference {
    fn from(reference: MoRef) -> Self {
        Self::new(reference.kind.type_name(), reference.to_string())
    }
}

/// A data object: its type and the fields that are set, in schema order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Object {
    pub(crate) kind: &'static str,
    pub(crate) fields: Vec<Field>,
}

/// A field of a data object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) value: Value,
    /// True if the declared type is a base class or anyType, so that a codec must write the actual
    /// type too.
    pub(crate) typed: bool,
}

/// A vim25 value: a scalar, a reference, a data object or a list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    Byte(i8),
    Short(i16),
    Int(i32),
    Long(i64),
    Float(f32),
    Text(String),
    Time(Timestamp),
    /// A value of an enumeration: the name of the enumeration, and the value.
    Enum(&'static str, &'static str),
    Ref(Reference),
    Object(Object),
    /// An array: its element type, and its elements.
    List(&'static str, Vec<Value>),
    /// A value that is declared as anyType and is not a field. A codec must write its type too.
    Any(Box<Value>),
}

impl Value {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Returns a list of references, declared as `ManagedObjectReference[]`.
    pub(crate) fn refs(references: impl IntoIterator<Item = impl Into<Reference>>) -> Self {
        let items = references.into_iter().map(|it| Self::Ref(it.into())).collect();
        Self::List("ManagedObjectReference", items)
    }

    /// Returns a list of texts, declared as `string[]`.
    pub(crate) fn texts(texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::List("string", texts.into_iter().map(Self::text).collect())
    }
}

impl Object {
    pub(crate) fn new(kind: &'static str) -> Self {
        Self { kind, fields: Vec::new() }
    }

    /// Adds a field whose declared type is the value's type.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push(Field { name, value: value.into(), typed: false });
        self
    }

    /// Adds a field whose declared type is wider than the value's type.
    #[must_use]
    pub(crate) fn with_typed(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push(Field { name, value: value.into(), typed: true });
        self
    }

    /// Adds a field if `value` is `Some`; an absent field is unset.
    #[must_use]
    pub(crate) fn maybe(self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|field| field.name == name).map(|field| &field.value)
    }
}

/// Wraps a result that is declared as anyType, so that a codec writes its type too.
pub(crate) fn any(value: Value) -> Value {
    Value::Any(Box::new(value))
}

macro_rules! from {
    ($($source:ty => $variant:ident),* $(,)?) => {
        $(impl From<$source> for Value {
            fn from(value: $source) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

from! {
    bool => Bool, i8 => Byte, i16 => Short, i32 => Int, i64 => Long, f32 => Float,
    String => Text, &str => Text, Timestamp => Time, Reference => Ref, MoRef => Ref, Object => Object,
}
