//! References to managed objects.

use std::fmt;

use crate::xml::{Element, XmlWriter};

/// A managed object reference: type and id, as `VirtualMachine:vm-17`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MoRef {
    kind: String,
    id: String,
}

impl MoRef {
    /// Creates a reference with this type and id.
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self { kind: kind.into(), id: id.into() }
    }

    /// Returns the managed object type, for example `VirtualMachine`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the managed object id, for example `vm-17`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Reads a reference from an element `<x type="T">id</x>`; `None` if type or id is missing.
    pub fn read(element: &Element) -> Option<Self> {
        let id = element.text.trim();
        let kind = element.type_attr.as_deref()?;
        (!id.is_empty()).then(|| Self::new(kind, id))
    }
}

impl fmt::Display for MoRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.id)
    }
}

impl XmlWriter {
    /// Writes a managed object reference as an element of this name.
    pub fn reference(&mut self, name: &str, object: &MoRef) -> &mut Self {
        self.typed(name, object.kind(), object.id())
    }
}
