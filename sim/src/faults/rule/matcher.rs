//! Part `match` of a rule: the calls that the rule matches.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::scalars::OneOrMany;
use crate::{Class, Face, can_be_stale};

/// The calls that a rule matches. Omitted fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
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

impl Matcher {
    /// Returns the first operation in `op`, named without `*` or `@`, that `read.stale` cannot
    /// affect on any face that the rule matches ([`can_be_stale`]).
    pub(super) fn never_stale(&self) -> Option<&str> {
        let all = [Face::Soap, Face::Vapi, Face::Cluster, Face::Supervisor];
        let can_be = |operation: &str| {
            let of = |face: &Face| self.protocol.is_none_or(|it| it == *face);
            all.iter().filter(|face| of(face)).any(|face| can_be_stale(*face, operation))
        };
        let in_full = self.op.0.iter().filter(|it| !it.contains(['*', '@']));
        in_full.map(String::as_str).find(|it| !can_be(it))
    }
}

/// Patterns of operations. A document has one pattern or a list of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ops(pub Vec<String>);

/// Classes of operations that a pattern can name.
const CLASSES: [&str; 5] = ["@read", "@write", "@login", "@longpoll", "@task"];

impl Ops {
    /// Returns an error text with remedy about the first pattern that names an unknown class;
    /// `None` if no pattern does.
    pub(crate) fn wrong_class(&self) -> Option<String> {
        let is_wrong = |it: &&String| it.starts_with('@') && !CLASSES.contains(&it.as_str());
        let pattern = self.0.iter().find(is_wrong)?;
        Some(format!(
            "`{pattern}` is not a class of operations; expected one of {}",
            CLASSES.join(", ")
        ))
    }

    fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    /// True if the operation, or its class, matches one of the patterns, or if the list is empty.
    pub fn matches(&self, operation: &str, class: Class) -> bool {
        self.0.is_empty()
            || self.0.iter().any(|pattern| match pattern.strip_prefix('@') {
                Some(_) => pattern == class.tag(),
                None => glob(pattern, operation),
            })
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
pub struct Resource {
    /// Managed object type or Kubernetes kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name of a machine, other inventory object, tag or Kubernetes object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace.
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
pub struct Client {
    /// Label of the caller, as in the ledger ([`Caller::client`](crate::Caller::client)): that of
    /// the connection, else the user.
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

/// True if `text` matches `pattern`. Each `*` in the pattern stands for any text, empty or not.
pub(in crate::faults) fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}
