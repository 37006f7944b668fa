//! Messages of Kubernetes that the protocol embeds, with the fields that an autoscaler reads.
//!
//! Names and numbers are those of `k8s.io/api/core/v1/generated.proto` and
//! `k8s.io/apimachinery/…/generated.proto`. A reader ignores the fields that are missing here.

use std::collections::BTreeMap;

/// `v1.Node`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Node {
    /// Metadata.
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ObjectMeta>,
    /// Specification.
    #[prost(message, optional, tag = "2")]
    pub spec: Option<NodeSpec>,
    /// Status.
    #[prost(message, optional, tag = "3")]
    pub status: Option<NodeStatus>,
}

/// `metav1.ObjectMeta`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ObjectMeta {
    /// Name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Namespace.
    #[prost(string, optional, tag = "3")]
    pub namespace: Option<String>,
    /// Time of creation.
    #[prost(message, optional, tag = "8")]
    pub creation_timestamp: Option<Time>,
    /// Labels.
    #[prost(btree_map = "string, string", tag = "11")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[prost(btree_map = "string, string", tag = "12")]
    pub annotations: BTreeMap<String, String>,
}

/// `metav1.Time`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Time {
    /// Seconds since the Unix epoch.
    #[prost(int64, optional, tag = "1")]
    pub seconds: Option<i64>,
    /// Nanoseconds within the second.
    #[prost(int32, optional, tag = "2")]
    pub nanos: Option<i32>,
}

/// `v1.NodeSpec`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeSpec {
    /// Provider ID.
    #[prost(string, optional, tag = "3")]
    pub provider_id: Option<String>,
    /// True if the scheduler puts no more Pods on the Node.
    #[prost(bool, optional, tag = "4")]
    pub unschedulable: Option<bool>,
    /// Taints.
    #[prost(message, repeated, tag = "5")]
    pub taints: Vec<Taint>,
}

/// `v1.Taint`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Taint {
    /// Key.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    /// Value.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
    /// Effect: `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[prost(string, optional, tag = "3")]
    pub effect: Option<String>,
}

/// `v1.NodeStatus`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeStatus {
    /// Resources of the machine.
    #[prost(btree_map = "string, message", tag = "1")]
    pub capacity: BTreeMap<String, Quantity>,
    /// Resources for Pods.
    #[prost(btree_map = "string, message", tag = "2")]
    pub allocatable: BTreeMap<String, Quantity>,
    /// Conditions.
    #[prost(message, repeated, tag = "4")]
    pub conditions: Vec<NodeCondition>,
    /// Facts about the system.
    #[prost(message, optional, tag = "7")]
    pub node_info: Option<NodeSystemInfo>,
}

/// `resource.Quantity`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Quantity {
    /// The canonical text, such as `4` or `8Gi`.
    #[prost(string, optional, tag = "1")]
    pub string: Option<String>,
}

/// `v1.NodeCondition`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeCondition {
    /// Type, such as `Ready`.
    #[prost(string, optional, tag = "1")]
    pub r#type: Option<String>,
    /// `True`, `False` or `Unknown`.
    #[prost(string, optional, tag = "2")]
    pub status: Option<String>,
    /// Time of the last report.
    #[prost(message, optional, tag = "3")]
    pub last_heartbeat_time: Option<Time>,
    /// Time of the last change.
    #[prost(message, optional, tag = "4")]
    pub last_transition_time: Option<Time>,
    /// Reason in one word.
    #[prost(string, optional, tag = "5")]
    pub reason: Option<String>,
    /// Reason in a sentence.
    #[prost(string, optional, tag = "6")]
    pub message: Option<String>,
}

/// `v1.NodeSystemInfo`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeSystemInfo {
    /// `linux` or `windows`.
    #[prost(string, optional, tag = "9")]
    pub operating_system: Option<String>,
    /// Such as `amd64`.
    #[prost(string, optional, tag = "10")]
    pub architecture: Option<String>,
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self { string: Some(text.to_owned()) }
    }
}
