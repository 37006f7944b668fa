//! Names of resources and keys of objects.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A resource and its API group, written as `nodes` or `leases.coordination.k8s.io`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// Plural name in lower case.
    pub resource: Cow<'static, str>,
}

impl GroupResource {
    /// Returns a resource of the core group.
    pub const fn core(resource: &'static str) -> Self {
        Self::of("", resource)
    }

    /// Returns a resource of the API group `group`.
    pub const fn of(group: &'static str, resource: &'static str) -> Self {
        Self { group: Cow::Borrowed(group), resource: Cow::Borrowed(resource) }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_ref() {
            "" => f.write_str(&self.resource),
            group => write!(f, "{}.{group}", self.resource),
        }
    }
}

impl From<&str> for GroupResource {
    fn from(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        Self { group: group.to_owned().into(), resource: resource.to_owned().into() }
    }
}

impl Serialize for GroupResource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GroupResource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(String::deserialize(deserializer)?.as_str().into())
    }
}

/// Key of one object: its resource, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Resource of the object, such as `nodes`.
    pub resource: GroupResource,
    /// Namespace; empty for cluster-wide resources.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the object, unique in its resource and namespace.
    pub name: String,
}

impl Key {
    /// Returns the key of the object `name` of `resource`; `namespace` is empty for a cluster-wide
    /// resource.
    pub fn new(
        resource: impl Into<GroupResource>,
        namespace: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        Self { resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }

    /// Path of the object within its resource: `namespace/name`, or only the name if the resource
    /// is cluster-wide.
    pub fn path(&self) -> String {
        match self.namespace.as_str() {
            "" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }

    /// Returns the key of the object of `resource` whose [`Key::path`] is `path`.
    pub(crate) fn from_path(resource: GroupResource, path: &str) -> Self {
        let (namespace, name) = path.split_once('/').unwrap_or(("", path));
        Self::new(resource, namespace, name)
    }

    /// Returns the key of the Node `name`.
    pub fn node(name: impl Into<String>) -> Self {
        Self::new(GroupResource::core("nodes"), "", name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, namespace, name } = self;
        match namespace.as_str() {
            "" => write!(f, "{resource}/{name}"),
            _ => write!(f, "{resource}/{namespace}/{name}"),
        }
    }
}
