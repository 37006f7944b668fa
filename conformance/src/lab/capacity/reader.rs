//! A reader of groups: what an autoscaler learns about the Node of a new machine.

use std::collections::BTreeMap;

use serde_json::Value;

/// Reads groups as the autoscaler's Cluster API provider does.
pub trait Reader: Send + Sync {
    /// Reads a MachineDeployment whose template is this object; `None` if the template could not be
    /// read.
    fn read(&self, group: &Value, template: Option<&Value>) -> GroupReading;
}

/// Result of reading a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupReading {
    /// The group is not scaled, for this reason.
    NotScaled(String),
    /// The group is scaled, but not from zero, for this reason.
    NotFromZero {
        /// Reason.
        why: String,
        /// True if the group is listed while it has no machine.
        is_listed_at_zero: bool,
    },
    /// A new machine becomes this Node.
    Node(NodeReading),
}

/// The Node that a new machine becomes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReading {
    /// Amounts of resources.
    pub capacity: BTreeMap<String, String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Taints, in their order.
    pub taints: Vec<Taint>,
    /// Drivers of volumes, in their order.
    pub drivers: Vec<Driver>,
}

/// A taint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value; may be empty.
    pub value: String,
    /// Effect; may be empty.
    pub effect: String,
}

/// A driver of volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Name.
    pub name: String,
    /// Largest number of volumes; `None` without a limit.
    pub limit: Option<u32>,
}
