//! Objects in commands by name: machines and hosts, and the objects of permissions and tags.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of a machine or host: `node-0001`, or with the vCenter's name, `vc1/node-0001`. An
/// inventory name contains `%2f` in place of `/`, as in vCenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Named {
    /// The vCenter; if left out, the first vCenter that has an object of this name.
    pub vcenter: Option<String>,
    /// Inventory name; it selects the object with the lowest id if several have it.
    pub name: String,
}

impl From<&str> for Named {
    fn from(text: &str) -> Self {
        match text.split_once('/') {
            Some((vcenter, name)) => {
                Self { vcenter: Some(vcenter.to_owned()), name: name.to_owned() }
            }
            None => Self { vcenter: None, name: text.to_owned() },
        }
    }
}

impl From<String> for Named {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<Named> for String {
    fn from(named: Named) -> Self {
        named.to_string()
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.vcenter {
            Some(vcenter) => write!(f, "{vcenter}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A user and an object on which a command revokes or restores the user's privileges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The vCenter; the first one if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcenter: Option<String>,
    /// Account whose privileges change, such as `ccm@vsphere.local`.
    pub user: String,
    /// Id (`vm-17`), or name of a machine, cluster, compute resource of a standalone host, host,
    /// datacenter, pool, vApp or content library. If objects of several types have the name, the
    /// first type in this list counts.
    pub object: String,
}

/// A tag and the object to which a command attaches it, or from which a command detaches it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TagName {
    /// The vCenter; the first one if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcenter: Option<String>,
    /// Name of the tag category.
    pub category: String,
    /// Name of the tag within the category.
    pub tag: String,
    /// Id (`domain-c8`), or name of a machine, cluster, compute resource of a standalone host,
    /// host, datacenter, pool or vApp. If objects of several types have the name, the first type
    /// in this list counts.
    pub object: String,
}

/// An item of a content library by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemName {
    /// The vCenter; the first one if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcenter: Option<String>,
    /// Name of the library; it selects the library with the lowest id if several have it.
    pub library: String,
    /// Name of the item; it selects the item with the lowest id if several of the library have it.
    pub name: String,
}
