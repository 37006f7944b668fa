//! Identifiers of machines: names of objects, and UUIDs in the form for comparison.

use std::{borrow::Borrow, fmt};

use crate::model::{parse_uuid, swap_byte_order};

/// `metadata.name` of a VirtualMachine; usually also the name of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::instances::supervisor) struct MachineName(String);

impl MachineName {
    /// Returns the name as text.
    pub(in crate::instances::supervisor) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for MachineName {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl Borrow<str> for MachineName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MachineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// UUID in the form for comparison: trimmed, in lower case, with dashes, never empty. A text that
/// is not a UUID gets no dashes. Upstream normalizes only the UUID that it searches for, and adds
/// no dashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::instances::supervisor) struct UuidKey(String);

impl UuidKey {
    /// Normalizes a UUID; `None` if the text is blank.
    pub(in crate::instances::supervisor) fn of(text: &str) -> Option<Self> {
        // The parser accepts the prefix `urn:uuid:` in lower case only.
        let text = text.trim().to_lowercase();
        let key = match parse_uuid(&text) {
            Some(uuid) => uuid.hyphenated().to_string(),
            None => text,
        };
        (!key.is_empty()).then_some(Self(key))
    }

    /// Returns the UUID as text.
    pub(in crate::instances::supervisor) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the UUID in both byte orders: as it is, and swapped. A key that is not a UUID has
    /// only one.
    pub(in crate::instances::supervisor) fn byte_orders(
        &self,
    ) -> impl Iterator<Item = Self> + use<> {
        let swapped =
            parse_uuid(&self.0).map(|uuid| swap_byte_order(uuid).hyphenated().to_string());
        std::iter::once(self.clone()).chain(swapped.map(Self))
    }
}
