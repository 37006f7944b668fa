//! Names of Nodes.

use std::{borrow::Borrow, fmt};

/// `metadata.name` of a Node. Another Node may have the name later; [`NodeUid`](super::NodeUid)
/// tells them apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(String);

impl NodeName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for NodeName {
    fn from(name: String) -> Self {
        Self(name)
    }
}

impl From<&str> for NodeName {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl Borrow<str> for NodeName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
