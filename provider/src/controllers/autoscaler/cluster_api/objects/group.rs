//! Reads the groups from their objects, with the annotations of the autoscaler's own Cluster API
//! provider. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::{
    super::{
        super::capacity::scale_from_zero::{
            GroupObjects, GroupOptions, GroupTemplate, NoTemplate, NodeTemplate, NotScaled,
            ReadGroup, ReadTaint, ReaderSettings, read_group,
        },
        group::{
            Capacity, Effect, Group, GroupId, NodeShape, OptionOverrides, Platform, Reserved,
            Shape, Taint,
        },
    },
    keys::GroupKind,
    settings::ClusterApiSettings,
};
use crate::controllers::quantity::Quantity;

const ARCH: &str = "kubernetes.io/arch";
const OS: &str = "kubernetes.io/os";
const HOST_NAME: &str = "kubernetes.io/hostname";

/// Reason why an object is not a group of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotListed {
    /// Its owner does not want it scaled.
    Unwanted,
    /// It has no machine, and the server cannot tell what one would offer.
    CannotGrow(String),
    /// Something in it is wrong.
    Wrong(String),
}

/// Returns the ID of a group.
pub(crate) fn id(kind: GroupKind, namespace: &str, name: &str) -> GroupId {
    GroupId::of_cluster_api(kind.name(), namespace, name)
}

/// Returns the number of machines that the object asks for.
pub(crate) fn replicas(object: &Value) -> u32 {
    object["spec"]["replicas"].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or_default()
}

/// Reads a group and notes about what was left out of it.
pub(crate) fn read(
    id: GroupId,
    object: &Value,
    template: GroupTemplate<'_>,
    settings: &ClusterApiSettings,
) -> Result<(Group, Vec<String>), NotListed> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let node_name = format!("{name}-template");
    let objects =
        GroupObjects { group: object, template, live_labels: None, node_name: &node_name };
    let read = read_group(&objects, &ReaderSettings::default()).map_err(|why| match why {
        NotScaled::Paused | NotScaled::NoMaximum => NotListed::Unwanted,
        NotScaled::Bounds(err) => NotListed::Wrong(err.to_string()),
    })?;
    if !read.is_listed_at(replicas(object))
        && let Err(why) = read.node
    {
        let text = why.to_string();
        return Err(match why {
            NoTemplate::Annotation(_) => NotListed::Wrong(text),
            NoTemplate::Unread(_) | NoTemplate::Unknown(_) => NotListed::CannotGrow(text),
        });
    }
    let ReadGroup { bounds, options, node, mut notes } = read;
    if let Err(why) = &node {
        notes.push(format!("the server cannot tell what a new machine offers: {why}"));
    }
    if options.max_node_startup_time.is_some() {
        notes.push("maxnodestartuptime: the autoscaler's protocol cannot carry it".to_owned());
    }
    let capacity = node.as_ref().map_err(ToString::to_string).and_then(capacity);
    let node = node.ok().unwrap_or_else(empty);
    let group = Group {
        id,
        name,
        min: bounds.min,
        max: bounds.max,
        adopt: true,
        node: shape(node, settings.reserved.0.clone(), &mut notes),
        options: overrides(&options),
        shape: Shape::ClusterApi { capacity },
    };
    Ok((group, notes))
}

fn empty() -> NodeTemplate {
    NodeTemplate {
        capacity: BTreeMap::new(),
        allocatable: BTreeMap::new(),
        labels: BTreeMap::new(),
        taints: Vec::new(),
        devices: None,
        csi_drivers: Vec::new(),
    }
}

fn capacity(node: &NodeTemplate) -> Result<Capacity, String> {
    let amount = |name: &str| {
        node.capacity.get(name).copied().ok_or_else(|| format!("the amount of {name} is not known"))
    };
    Ok(Capacity { cpu: amount("cpu")?, memory: amount("memory")? })
}

/// Returns the properties of a new Node besides its CPU and memory.
fn shape(node: NodeTemplate, reserved: Reserved, notes: &mut Vec<String>) -> NodeShape {
    let NodeTemplate { mut capacity, mut labels, taints, .. } = node;
    let [_, _] = ["cpu", "memory"].map(|name| capacity.remove(name));
    let max_pods = capacity.remove("pods").map_or(0, whole_units);
    labels.remove(HOST_NAME);
    let default = Platform::default();
    let label = |key: &str, default: String| labels.get(key).cloned().unwrap_or(default);
    let platform = Platform {
        architecture: label(ARCH, default.architecture),
        operating_system: label(OS, default.operating_system),
    };
    let taints = taints.iter().filter_map(|it| {
        let taint = taint(it);
        if taint.is_none() {
            notes
                .push(format!("taints: left out {}, which has the effect {:?}", it.key, it.effect));
        }
        taint
    });
    NodeShape {
        region: None,
        taints: taints.collect(),
        reserved,
        max_pods,
        ephemeral_storage: capacity.remove("ephemeral-storage"),
        platform,
        gpu: None,
        more: without_zero(capacity),
        labels,
    }
}

/// Returns the largest number of whole units within the amount.
fn whole_units(amount: Quantity) -> u32 {
    (0..u32::BITS).rev().fold(0, |number, bit| {
        let larger = number | (1 << bit);
        if Quantity::whole(larger) <= amount { larger } else { number }
    })
}

fn without_zero(mut resources: BTreeMap<String, Quantity>) -> BTreeMap<String, Quantity> {
    resources.retain(|_, amount| !amount.is_zero());
    resources
}

/// Returns the taint; `None` if no scheduler knows its effect.
fn taint(of: &ReadTaint) -> Option<Taint> {
    let effect = [Effect::NoSchedule, Effect::PreferNoSchedule, Effect::NoExecute]
        .into_iter()
        .find(|it| it.as_str() == of.effect)?;
    Some(Taint { key: of.key.clone(), value: of.value.clone(), effect })
}

fn overrides(of: &GroupOptions) -> OptionOverrides {
    OptionOverrides {
        scale_down_utilization_threshold: of.scale_down_utilization_threshold,
        scale_down_gpu_utilization_threshold: of.scale_down_gpu_utilization_threshold,
        scale_down_unneeded_time: of.scale_down_unneeded_time,
        scale_down_unready_time: of.scale_down_unready_time,
        // Zero would let the autoscaler delete each new machine at once.
        max_node_provision_time: of.max_node_provision_time.filter(|time| !time.is_zero()),
        ignore_daemon_sets_utilization: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_pods_is_read_whatever_its_suffix() {
        for (pods, want) in
            [("110", 110), ("1024", 1024), ("2048", 2048), ("1k", 1000), ("8G", u32::MAX)]
        {
            let mut node = empty();
            node.capacity.insert("pods".to_owned(), pods.parse().unwrap());
            let shape = shape(node, Reserved::default(), &mut Vec::new());
            assert_eq!(shape.max_pods, want, "{pods}");
        }
        assert_eq!(shape(empty(), Reserved::default(), &mut Vec::new()).max_pods, 0);
    }
}
