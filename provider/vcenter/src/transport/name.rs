//! Names of vCenters.

use std::{fmt, sync::Arc};

/// Name of a vCenter: its key in the configuration, by which the provider distinguishes vCenters.
/// Clones share the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VcenterName(Arc<str>);

impl VcenterName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for VcenterName {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl From<&str> for VcenterName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for VcenterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
