//! Node groups: what one machine of a group looks like, and between which numbers the autoscaler
//! scales.

mod clone;
mod file;
mod template;

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Deserialize;

use crate::{controllers::quantity::Quantity, input::parse_duration};

pub(crate) use clone::{BootstrapFormat, CloneMode, CloneShape, Original};
pub(crate) use file::{parse, read_spec};
pub(crate) use template::{Capacity, Platform, node};

/// Label of the objects of a group; its value is the name of the group.
pub(crate) const GROUP_LABEL: &str = "vsphere.cloud-provider/node-group";

/// ID of a group. The autoscaler uses it in logs, metrics and its status.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupId(String);

impl GroupId {
    /// The ID of a group whose machines are VirtualMachines of a namespace.
    pub(crate) fn of_virtual_machines(namespace: &str, group: &str) -> Self {
        Self(format!("VirtualMachine/{namespace}/{group}"))
    }

    /// The ID of a group whose machines belong to an object of Cluster API of this kind.
    pub(crate) fn of_cluster_api(kind: &str, namespace: &str, name: &str) -> Self {
        Self(format!("{kind}/{namespace}/{name}"))
    }

    /// The ID of a group whose machines are clones in a vCenter.
    pub(crate) fn of_clones(group: &str) -> Self {
        Self(format!("vcenter/{group}"))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A group of machines that are alike.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    pub(crate) id: GroupId,
    /// Value of the label of the group's machines, and prefix of their names.
    pub(crate) name: String,
    pub(crate) min: u32,
    pub(crate) max: u32,
    /// True if machines with the label of the group count that another program created.
    pub(crate) adopt: bool,
    pub(crate) node: NodeShape,
    pub(crate) options: OptionOverrides,
    pub(crate) shape: Shape,
}

impl Group {
    /// Returns the label `node.kubernetes.io/instance-type` of the Nodes; empty if only the labels of
    /// the group may have it.
    pub(crate) fn instance_type(&self) -> &str {
        match &self.shape {
            Shape::VirtualMachine(shape) => &shape.class_name,
            Shape::ClusterApi { .. } => "",
            // The backend knows the hardware of the template, and so the type.
            Shape::Clone(_) => "",
        }
    }

    /// Returns the zone of the Nodes; `None` if the platform chooses one.
    pub(crate) fn zone(&self) -> Option<&str> {
        match &self.shape {
            Shape::VirtualMachine(shape) => shape.zone.as_deref(),
            Shape::ClusterApi { .. } => None,
            Shape::Clone(shape) => shape.zone.as_deref(),
        }
    }

    /// Returns the group in one line, for logs of the autoscaler.
    pub(crate) fn summary(&self) -> String {
        match &self.shape {
            Shape::VirtualMachine(it) => {
                format!("{} (class {}, image {})", self.id, it.class_name, it.image_name)
            }
            Shape::ClusterApi { .. } => self.id.to_string(),
            Shape::Clone(it) => format!("{} ({})", self.id, it.original_text()),
        }
    }
}

/// Description of the machines of a group, for the backend that makes them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// A VirtualMachine object of a Supervisor.
    VirtualMachine(MachineShape),
    /// Machines of Cluster API, which makes them itself.
    ClusterApi {
        /// Resources of a machine, or the reason why they are not known.
        capacity: Result<Capacity, String>,
    },
    /// A clone of a template in a vCenter.
    Clone(CloneShape),
}

/// Properties of the Nodes of a group that its machines do not tell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeShape {
    pub(crate) region: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) reserved: Reserved,
    pub(crate) max_pods: u32,
    /// Size of the disk for Pods; `None` if it is not known.
    pub(crate) ephemeral_storage: Option<Quantity>,
    pub(crate) platform: Platform,
    pub(crate) gpu: Option<Gpu>,
    /// Further resources of each machine.
    pub(crate) more: BTreeMap<String, Quantity>,
}

/// A taint with which the Nodes of a group register.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Taint {
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) value: String,
    pub(crate) effect: Effect,
}

/// Effect of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl Effect {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// Resources that the kubelet keeps for the system, and so are not allocatable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reserved {
    pub(crate) cpu: Quantity,
    pub(crate) memory: Quantity,
    pub(crate) ephemeral_storage: Quantity,
}

/// GPUs of each machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gpu {
    /// Resource, such as `nvidia.com/gpu`.
    pub(crate) resource: String,
    /// Type, which is the value of the GPU label of the Nodes.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) count: u32,
}

/// Settings of the autoscaler that a group overrides.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OptionOverrides {
    pub(crate) scale_down_utilization_threshold: Option<f64>,
    pub(crate) scale_down_gpu_utilization_threshold: Option<f64>,
    pub(crate) scale_down_unneeded_time: Option<Duration>,
    pub(crate) scale_down_unready_time: Option<Duration>,
    pub(crate) max_node_provision_time: Option<Duration>,
    pub(crate) ignore_daemon_sets_utilization: Option<bool>,
}

impl OptionOverrides {
    /// True if the group overrides nothing.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the options of the autoscaler with the overrides of this group.
    pub(crate) fn applied_to(&self, defaults: externalgrpc::Options) -> externalgrpc::Options {
        let of = defaults;
        externalgrpc::Options {
            scale_down_utilization_threshold: self
                .scale_down_utilization_threshold
                .unwrap_or(of.scale_down_utilization_threshold),
            scale_down_gpu_utilization_threshold: self
                .scale_down_gpu_utilization_threshold
                .unwrap_or(of.scale_down_gpu_utilization_threshold),
            scale_down_unneeded_time: self
                .scale_down_unneeded_time
                .unwrap_or(of.scale_down_unneeded_time),
            scale_down_unready_time: self
                .scale_down_unready_time
                .unwrap_or(of.scale_down_unready_time),
            max_node_provision_time: self
                .max_node_provision_time
                .unwrap_or(of.max_node_provision_time),
            ignore_daemon_sets_utilization: self
                .ignore_daemon_sets_utilization
                .unwrap_or(of.ignore_daemon_sets_utilization),
            zero_or_max_node_scaling: of.zero_or_max_node_scaling,
        }
    }
}

/// Kind of the machines of a file of groups, which decides the keys of a group and its ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MachineKind {
    /// VirtualMachine objects of this namespace of a Supervisor.
    VirtualMachine {
        namespace: String,
        /// True if the server can create bootstrap tokens for the machines.
        has_tokens: bool,
    },
    /// Clones of templates in a vCenter.
    Clone {
        /// True if the server can create bootstrap tokens for the machines.
        has_tokens: bool,
    },
}

impl MachineKind {
    pub(crate) fn clones() -> Self {
        Self::Clone { has_tokens: false }
    }

    pub(crate) fn virtual_machines(namespace: &str) -> Self {
        Self::VirtualMachine { namespace: namespace.to_owned(), has_tokens: false }
    }

    /// Returns the kind for a server that can create bootstrap tokens, or cannot.
    pub(crate) fn with_tokens(self, has_tokens: bool) -> Self {
        match self {
            Self::VirtualMachine { namespace, .. } => {
                Self::VirtualMachine { namespace, has_tokens }
            }
            Self::Clone { .. } => Self::Clone { has_tokens },
        }
    }
}

/// Properties of the VirtualMachine objects of a group.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct MachineShape {
    pub(crate) class_name: String,
    pub(crate) image_name: String,
    pub(crate) storage_class: String,
    #[serde(default)]
    pub(crate) resource_policy_name: Option<String>,
    #[serde(default)]
    pub(crate) zone: Option<String>,
    #[serde(default)]
    pub(crate) power_off_mode: PowerOffMode,
    pub(crate) bootstrap: Bootstrap,
}

/// Way in which VM Operator powers a machine off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum PowerOffMode {
    Hard,
    Soft,
    #[default]
    TrySoft,
}

impl PowerOffMode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Hard => "Hard",
            Self::Soft => "Soft",
            Self::TrySoft => "TrySoft",
        }
    }
}

/// Secret of the namespace with the cloud-init data that makes a machine join the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Bootstrap {
    pub(crate) secret_name: String,
    #[serde(default = "user_data")]
    pub(crate) key: String,
    /// `None` if the data has a token that another program renews, or none.
    #[serde(default)]
    pub(crate) token: Option<TokenShape>,
}

fn user_data() -> String {
    "user-data".to_owned()
}

/// Bootstrap tokens that the server creates, one for each machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct TokenShape {
    /// Time from the creation or a renewal of a token until it expires.
    #[serde(default = "usual_ttl", deserialize_with = "duration")]
    pub(crate) ttl: Duration,
}

fn usual_ttl() -> Duration {
    Duration::from_secs(3600)
}

fn duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map_err(serde::de::Error::custom)
}
