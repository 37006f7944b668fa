//! The Node that a new machine of a group becomes. The autoscaler puts pending Pods on it in its
//! simulation, and so finds out whether a machine of the group would help.

use std::collections::BTreeMap;

use externalgrpc::kubernetes::{
    Node, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, ObjectMeta, Quantity as Text, Taint,
    Time,
};
use jiff::Timestamp;
use serde::Deserialize;

use super::{Group, Quantity};

/// Memory below which a kubelet evicts Pods by default, and so does not offer them.
const EVICTION_MEMORY: &str = "100Mi";
/// Share of the file system, in hundredths, below which a kubelet evicts Pods by default.
const EVICTION_STORAGE: u8 = 10;
/// Age of the condition `Ready` in the template: in-tree providers of the autoscaler use a minute.
const READY_FOR: i64 = 60;

/// Resources of each machine of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) cpu: Quantity,
    pub(crate) memory: Quantity,
}

/// Architecture and operating system of the machines of a group.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct Platform {
    pub(crate) architecture: String,
    pub(crate) operating_system: String,
}

impl Default for Platform {
    fn default() -> Self {
        Self { architecture: "amd64".to_owned(), operating_system: "linux".to_owned() }
    }
}

/// Returns the Node of a new machine.
pub(crate) fn node(
    group: &Group,
    capacity: Capacity,
    instance_type: &str,
    gpu_label: &str,
    now: Timestamp,
) -> Node {
    let platform = &group.node.platform;
    let name = format!("{}-template", group.name);
    let since = Time { seconds: Some(now.as_second() - READY_FOR), nanos: Some(0) };
    let taint = |taint: &super::Taint| Taint {
        key: Some(taint.key.clone()),
        value: Some(taint.value.clone()),
        effect: Some(taint.effect.as_str().to_owned()),
    };
    Node {
        metadata: Some(ObjectMeta {
            name: Some(name.clone()),
            creation_timestamp: Some(since),
            labels: labels(group, instance_type, gpu_label, name),
            ..ObjectMeta::default()
        }),
        spec: Some(NodeSpec {
            taints: group.node.taints.iter().map(taint).collect(),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            capacity: texts(&resources(group, capacity)),
            allocatable: texts(&allocatable(group, resources(group, capacity))),
            conditions: vec![NodeCondition {
                r#type: Some("Ready".to_owned()),
                status: Some("True".to_owned()),
                last_heartbeat_time: Some(since),
                last_transition_time: Some(since),
                reason: Some("KubeletReady".to_owned()),
                message: None,
            }],
            node_info: Some(NodeSystemInfo {
                operating_system: Some(platform.operating_system.clone()),
                architecture: Some(platform.architecture.clone()),
            }),
        }),
    }
}

/// Returns the labels. The labels of the group win, except over the host name.
fn labels(
    group: &Group,
    instance_type: &str,
    gpu_label: &str,
    name: String,
) -> BTreeMap<String, String> {
    let platform = &group.node.platform;
    let mut labels = BTreeMap::from([
        ("kubernetes.io/arch".to_owned(), platform.architecture.clone()),
        ("kubernetes.io/os".to_owned(), platform.operating_system.clone()),
    ]);
    let kind = Some(instance_type).filter(|kind| !kind.is_empty());
    let kind = ("node.kubernetes.io/instance-type", kind);
    let zone = ("topology.kubernetes.io/zone", group.zone());
    let region = ("topology.kubernetes.io/region", group.node.region.as_deref());
    for (key, value) in [kind, zone, region] {
        labels.extend(value.map(|value| (key.to_owned(), value.to_owned())));
    }
    if let (Some(gpu), false) = (&group.node.gpu, gpu_label.is_empty()) {
        labels.insert(gpu_label.to_owned(), gpu.kind.clone());
    }
    labels.extend(group.node.labels.clone());
    labels.insert("kubernetes.io/hostname".to_owned(), name);
    labels
}

type Resources = BTreeMap<String, Quantity>;

fn resources(group: &Group, capacity: Capacity) -> Resources {
    let mut resources = Resources::from([
        ("cpu".to_owned(), capacity.cpu),
        ("memory".to_owned(), capacity.memory),
        ("pods".to_owned(), Quantity::whole(group.node.max_pods)),
    ]);
    let storage = group.node.ephemeral_storage.map(|it| ("ephemeral-storage".to_owned(), it));
    let gpu = group.node.gpu.as_ref();
    resources.extend(group.node.more.clone());
    resources.extend(storage);
    resources.extend(gpu.map(|gpu| (gpu.resource.clone(), Quantity::whole(gpu.count))));
    resources
}

/// Returns what a kubelet offers to Pods: the resources without the reserved ones, and without
/// those below which it evicts Pods.
fn allocatable(group: &Group, mut resources: Resources) -> Resources {
    let reserved = &group.node.reserved;
    let eviction = EVICTION_MEMORY.parse().unwrap_or_default();
    for (name, amount) in &mut resources {
        *amount = match name.as_str() {
            "cpu" => amount.without(reserved.cpu),
            "memory" => amount.without(reserved.memory).without(eviction),
            "ephemeral-storage" => {
                amount.without(amount.percent(EVICTION_STORAGE)).without(reserved.ephemeral_storage)
            }
            _ => *amount,
        };
    }
    resources
}

fn texts(resources: &Resources) -> BTreeMap<String, Text> {
    resources.iter().map(|(name, it)| (name.clone(), Text::from(&*it.to_string()))).collect()
}
