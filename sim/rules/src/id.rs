//! Ids of fault rules.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Id of a fault rule: a name that no other rule in force has. A sim refuses a rule whose id is
/// empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RuleId(String);

impl RuleId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for RuleId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

impl From<&str> for RuleId {
    fn from(id: &str) -> Self {
        Self(id.to_owned())
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
