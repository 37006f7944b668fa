//! Reads groups of machines as the autoscaler's Cluster API provider does (`autoscaler:
//! cluster-autoscaler/cloudprovider/clusterapi`), so that a server can offer the same groups. Pure.
//!
//! One difference is intended: an empty or missing `status.nodeInfo` of the template never replaces
//! the default labels for architecture and operating system. In the autoscaler it does, and then a
//! Pod that selects an architecture never makes a group grow from zero.

mod bounds;
mod drivers;
mod labels;
mod options;
mod reference;
mod resources;
mod taints;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;

use self::bounds::bounds;
use super::{
    super::quantity::Quantity,
    keys::{AMD64, CAPACITY, CAPI},
    plan::text,
};
use crate::InputError;

pub use self::{
    bounds::Bounds,
    drivers::{CsiDriver, DeviceSlice},
    options::GroupOptions,
    reference::{TemplateReference, template_reference},
    taints::ReadTaint,
};

/// Amounts of resources by name.
pub type Resources = BTreeMap<String, Quantity>;
/// Labels of a Node.
pub type Labels = BTreeMap<String, String>;

/// Settings of a reader.
#[derive(Clone, Debug)]
pub struct ReaderSettings {
    /// API group of Cluster API, which begins the names of annotations (`CAPI_GROUP`).
    pub api_group: String,
    /// Architecture of a group that names none (`CAPI_SCALE_ZERO_DEFAULT_ARCH`).
    pub default_architecture: String,
    /// Resources that a kubelet keeps for the system.
    pub reserved: Resources,
}

impl Default for ReaderSettings {
    fn default() -> Self {
        Self {
            api_group: CAPI.to_owned(),
            default_architecture: AMD64.to_owned(),
            reserved: Resources::new(),
        }
    }
}

/// The template of a group, as the caller has read it.
#[derive(Clone, Copy, Debug)]
pub enum GroupTemplate<'a> {
    /// The object that `spec.template.spec.infrastructureRef` names.
    Object(&'a Value),
    /// The group names no template.
    Unnamed,
    /// The object could not be read, for this reason.
    Unread(&'a str),
}

/// Objects from which a group is read.
#[derive(Clone, Copy, Debug)]
pub struct GroupObjects<'a> {
    /// MachineDeployment or MachineSet.
    pub group: &'a Value,
    /// Its template.
    pub template: GroupTemplate<'a>,
    /// Labels of a Node of the group; `None` if the group has no Node.
    pub live_labels: Option<&'a Labels>,
    /// Name of the Node that is read from the group.
    pub node_name: &'a str,
}

/// A group that an autoscaler can scale.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadGroup {
    /// Smallest and largest size.
    pub bounds: Bounds,
    /// Options of the autoscaler that the group overrides.
    pub options: GroupOptions,
    /// The Node of a new machine, or the reason why the group cannot grow from zero.
    pub node: Result<NodeTemplate, NoTemplate>,
    /// Parts of annotations that were left out, each with the reason.
    pub notes: Vec<String>,
}

impl ReadGroup {
    /// True if the autoscaler sees the group at this size.
    pub fn is_listed_at(&self, n_replicas: u32) -> bool {
        n_replicas > 0 || self.node.is_ok()
    }
}

/// The Node that a new machine of a group becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeTemplate {
    /// All resources.
    pub capacity: Resources,
    /// The resources without the reserved ones.
    pub allocatable: Resources,
    /// Labels.
    pub labels: Labels,
    /// Taints.
    pub taints: Vec<ReadTaint>,
    /// Devices for dynamic resource allocation.
    pub devices: Option<DeviceSlice>,
    /// Drivers of volumes.
    pub csi_drivers: Vec<CsiDriver>,
}

/// Reason why a group is not scaled at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotScaled {
    /// The group has the annotation that pauses controllers.
    #[error("the group is paused")]
    Paused,
    /// The maximum is zero or not set.
    #[error("the group has no maximum size")]
    NoMaximum,
    /// The bounds are wrong.
    #[error(transparent)]
    Bounds(#[from] InputError),
}

/// Reason why a group cannot grow from zero.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTemplate {
    /// An annotation is wrong, which makes the whole capacity unknown.
    #[error(transparent)]
    Annotation(#[from] InputError),
    /// The template could not be read, and no annotation names a resource.
    #[error("cannot read the template: {0}")]
    Unread(String),
    /// The amount of a necessary resource is not known.
    #[error("the amount of {0} is not known")]
    Unknown(&'static str),
}

/// Reads a group.
///
/// # Errors
///
/// If the group is not scaled.
pub fn read_group(
    objects: &GroupObjects<'_>,
    settings: &ReaderSettings,
) -> Result<ReadGroup, NotScaled> {
    let annotations = Annotations { object: objects.group, api_group: &settings.api_group };
    if annotations.of_group("paused").is_some() {
        return Err(NotScaled::Paused);
    }
    let bounds = bounds(&annotations)?;
    if bounds.max == 0 {
        return Err(NotScaled::NoMaximum);
    }
    let mut notes = Vec::new();
    let options = options::options(&annotations, &mut notes);
    let node = node(objects, &annotations, settings, &mut notes);
    Ok(ReadGroup { bounds, options, node, notes })
}

fn node(
    objects: &GroupObjects<'_>,
    annotations: &Annotations<'_>,
    settings: &ReaderSettings,
    notes: &mut Vec<String>,
) -> Result<NodeTemplate, NoTemplate> {
    let capacity = resources::capacity(annotations, objects.template)?;
    Ok(NodeTemplate {
        allocatable: resources::allocatable(&capacity, &settings.reserved),
        capacity,
        labels: labels::labels(objects, annotations, settings),
        taints: taints::taints(objects.group, annotations, notes),
        devices: drivers::devices(annotations, objects.node_name)?,
        csi_drivers: drivers::csi_drivers(annotations, notes),
    })
}

/// Name of the annotation that Cluster API puts on a Machine which it is to delete first, before
/// the number of replicas is lowered.
pub fn delete_machine_annotation(settings: &ReaderSettings) -> String {
    format!("{}/delete-machine", settings.api_group)
}

/// Annotations of a group.
struct Annotations<'a> {
    object: &'a Value,
    api_group: &'a str,
}

impl<'a> Annotations<'a> {
    /// Returns the annotation with the API group as its prefix.
    fn of_group(&self, name: &str) -> Option<&'a str> {
        let key = format!("{}/{name}", self.api_group);
        self.object["metadata"]["annotations"][key].as_str()
    }

    /// Returns a capacity annotation; `None` if it is absent or empty.
    fn of_capacity(&self, name: &str) -> Option<&'a str> {
        let key = format!("{CAPACITY}{name}");
        Some(text(&self.object["metadata"]["annotations"][key])).filter(|text| !text.is_empty())
    }

    /// Returns the annotations whose names begin with the API group and this prefix, without it.
    fn with_prefix(&self, prefix: &str) -> Vec<(&'a str, &'a str)> {
        let prefix = format!("{}/{prefix}", self.api_group);
        let all = self.object["metadata"]["annotations"].as_object().into_iter().flatten();
        let all =
            all.filter_map(|(key, value)| Some((key.strip_prefix(&prefix)?, value.as_str()?)));
        all.collect()
    }
}
