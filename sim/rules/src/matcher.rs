//! Part `match` of a rule: the calls that the rule matches.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Face;
use crate::scalars::OneOrMany;

/// The calls that a rule matches. Omitted fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Matcher {
    /// Front end that serves the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Face>,
    /// Name of the server: that of a vCenter, `cluster` or `supervisor`; `*` stands for any text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Operations: exact names, patterns with `*`, or classes (`@read`, `@login`).
    #[serde(skip_serializing_if = "Ops::is_any")]
    pub op: Ops,
    /// Object that the call refers to.
    #[serde(skip_serializing_if = "Resource::is_any")]
    pub resource: Resource,
    /// Client that made the call.
    #[serde(skip_serializing_if = "Client::is_any")]
    pub client: Client,
}

/// Patterns of operations. A document has one pattern or a list of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ops(Vec<String>);

impl Ops {
    /// Patterns in the order of the document; empty if the rule matches every operation.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// True if the patterns restrict nothing.
    pub fn is_any(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> FromIterator<&'a str> for Ops {
    fn from_iter<T: IntoIterator<Item = &'a str>>(patterns: T) -> Self {
        Self(patterns.into_iter().map(str::to_owned).collect())
    }
}

/// Patterns for the object that a call refers to. Every given field must match; `*` stands for any
/// text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Resource {
    /// Managed object type or Kubernetes kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name of a machine, other inventory object, tag or Kubernetes object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the Kubernetes object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Managed object id, or the id of a tag or category.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moref: Option<String>,
    /// UUID by which the call looks a machine up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

impl Resource {
    fn is_any(&self) -> bool {
        *self == Self::default()
    }
}

/// Patterns for the client that made a call. Every given field must match; `*` stands for any text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Client {
    /// Label of the caller, as in the ledger: that of the connection, else the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `User-Agent` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
}

impl Client {
    fn is_any(&self) -> bool {
        *self == Self::default()
    }
}

impl Serialize for Ops {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => serializer.serialize_str(one),
            many => many.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Ops {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMany("an operation or a list of operations")).map(Self)
    }
}
