//! Messages of the protocol, with the fields of all generations of it. G1 and G2 send and read those
//! that are named "old" here, G2 and G3 those that are named "new".

use std::collections::BTreeMap;

/// Request or answer without content.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Empty {}

/// A group.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeGroup {
    /// ID of the group.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Smallest size.
    #[prost(int32, tag = "2")]
    pub min_size: i32,
    /// Largest size.
    #[prost(int32, tag = "3")]
    pub max_size: i32,
    /// One line for logs.
    #[prost(string, tag = "4")]
    pub debug: String,
}

/// A Node, reduced to what the autoscaler sends.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SentNode {
    /// Provider ID.
    #[prost(string, tag = "1")]
    pub provider_id: String,
    /// Name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Labels.
    #[prost(btree_map = "string, string", tag = "3")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[prost(btree_map = "string, string", tag = "4")]
    pub annotations: BTreeMap<String, String>,
}

/// Annotation of a Node that the autoscaler made up, with its reason.
const FAKE_REASON: &str = "k8s.io/cluster-autoscaler/fake-node-reason";

impl SentNode {
    /// A Node with this provider ID and name.
    pub fn new(provider_id: &str, name: &str) -> Self {
        let (provider_id, name) = (provider_id.to_owned(), name.to_owned());
        Self { provider_id, name, ..Self::default() }
    }

    /// The Node that the autoscaler makes up for an instance without Node.
    pub fn fake(instance: &str, reason: &str) -> Self {
        let reason = (FAKE_REASON.to_owned(), reason.to_owned());
        Self { annotations: BTreeMap::from([reason]), ..Self::new(instance, instance) }
    }

    /// True if the autoscaler made up this Node because the creation of the instance failed.
    pub(super) fn says_creation_failed(&self) -> bool {
        self.annotations.get(FAKE_REASON).is_some_and(|it| it == "create-error")
    }
}

/// Answer of `NodeGroups`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Groups {
    /// The groups.
    #[prost(message, repeated, tag = "1")]
    pub groups: Vec<NodeGroup>,
}

/// Request of `NodeGroupForNode`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OfNode {
    /// The Node.
    #[prost(message, optional, tag = "1")]
    pub node: Option<SentNode>,
}

/// Answer of `NodeGroupForNode`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OneGroup {
    /// The group; absent, or with an empty ID, for a Node of no group.
    #[prost(message, optional, tag = "1")]
    pub group: Option<NodeGroup>,
}

/// Request about one group.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct OfGroup {
    /// ID of the group.
    #[prost(string, tag = "1")]
    pub id: String,
}

impl OfGroup {
    /// A request about this group.
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned() }
    }
}

/// Answer of `NodeGroupTargetSize`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct TargetSize {
    /// Wanted number of instances.
    #[prost(int32, tag = "1")]
    pub size: i32,
}

/// Request of `NodeGroupIncreaseSize` and `NodeGroupDecreaseTargetSize`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Resize {
    /// Change of the size.
    #[prost(int32, tag = "1")]
    pub delta: i32,
    /// ID of the group.
    #[prost(string, tag = "2")]
    pub id: String,
}

impl Resize {
    /// A change of this group.
    pub fn new(id: &str, delta: i32) -> Self {
        Self { delta, id: id.to_owned() }
    }
}

/// Request of `NodeGroupDeleteNodes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeleteNodes {
    /// The Nodes.
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<SentNode>,
    /// ID of the group.
    #[prost(string, tag = "2")]
    pub id: String,
}

impl DeleteNodes {
    /// A deletion of these Nodes of a group.
    pub fn new(id: &str, nodes: impl IntoIterator<Item = SentNode>) -> Self {
        Self { nodes: nodes.into_iter().collect(), id: id.to_owned() }
    }
}

/// Answer of `NodeGroupNodes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Instances {
    /// The instances.
    #[prost(message, repeated, tag = "1")]
    pub instances: Vec<Instance>,
}

/// An instance.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Instance {
    /// Provider ID of its Node.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its state.
    #[prost(message, optional, tag = "2")]
    pub status: Option<InstanceStatus>,
}

impl Instance {
    /// State of an instance that runs.
    pub const RUNNING: i32 = 1;
    /// State of an instance that is being created.
    pub const CREATING: i32 = 2;
    /// State of an instance that is being deleted.
    pub const DELETING: i32 = 3;

    /// Returns the reason why the instance could not be created, if it has one.
    pub fn error(&self) -> Option<&InstanceError> {
        self.status.as_ref()?.error.as_ref().filter(|it| !it.code.is_empty())
    }

    /// Number of the state: 0 unknown, 1 running, 2 creating, 3 deleting.
    pub fn state(&self) -> i32 {
        self.status.as_ref().map(|it| it.state).unwrap_or_default()
    }
}

/// State of an instance.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct InstanceStatus {
    /// See [`Instance::state`].
    #[prost(int32, tag = "1")]
    pub state: i32,
    /// Reason why it could not be created.
    #[prost(message, optional, tag = "2")]
    pub error: Option<InstanceError>,
}

/// Reason why an instance could not be created.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct InstanceError {
    /// Code.
    #[prost(string, tag = "1")]
    pub code: String,
    /// Message.
    #[prost(string, tag = "2")]
    pub message: String,
    /// 1: out of resources; 99: other.
    #[prost(int32, tag = "3")]
    pub class: i32,
}

/// Answer of `NodeGroupTemplateNodeInfo`: the same serialized `v1.Node` twice.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Template {
    /// Old field.
    #[prost(bytes = "vec", tag = "1")]
    pub old: Vec<u8>,
    /// New field.
    #[prost(bytes = "vec", tag = "2")]
    pub new: Vec<u8>,
}

/// Answer of `GPULabel`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GpuLabel {
    /// Label of Nodes with GPUs.
    #[prost(string, tag = "1")]
    pub label: String,
}

/// Answer of `GetAvailableGPUTypes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GpuTypes {
    /// Types; the autoscaler ignores the values.
    #[prost(btree_map = "string, message", tag = "1")]
    pub types: BTreeMap<String, Anything>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Anything {
    /// Type of the value.
    #[prost(string, tag = "1")]
    pub type_url: String,
}

/// `google.protobuf.Timestamp`, which `metav1.Time` equals on the wire.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Timestamp {
    /// Seconds since the Unix epoch.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Rest in nanoseconds.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl Timestamp {
    /// A time so many hours after the begin of 2026.
    pub fn after_hours(hours: i64) -> Self {
        Self { seconds: 1_767_225_600 + 3600 * hours, nanos: 0 }
    }
}

/// Request of `PricingNodePrice`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodePrice {
    /// The Node.
    #[prost(message, optional, tag = "1")]
    pub node: Option<SentNode>,
    /// Old field of the begin.
    #[prost(message, optional, tag = "2")]
    pub old_start: Option<Timestamp>,
    /// Old field of the end.
    #[prost(message, optional, tag = "3")]
    pub old_end: Option<Timestamp>,
    /// New field of the begin.
    #[prost(message, optional, tag = "4")]
    pub new_start: Option<Timestamp>,
    /// New field of the end.
    #[prost(message, optional, tag = "5")]
    pub new_end: Option<Timestamp>,
}

/// Request of `PricingPodPrice`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PodPrice {
    /// Old field of the serialized `v1.Pod`.
    #[prost(bytes = "vec", tag = "1")]
    pub old_pod: Vec<u8>,
    /// Old field of the begin.
    #[prost(message, optional, tag = "2")]
    pub old_start: Option<Timestamp>,
    /// Old field of the end.
    #[prost(message, optional, tag = "3")]
    pub old_end: Option<Timestamp>,
    /// New field of the serialized `v1.Pod`.
    #[prost(bytes = "vec", tag = "4")]
    pub new_pod: Vec<u8>,
    /// New field of the begin.
    #[prost(message, optional, tag = "5")]
    pub new_start: Option<Timestamp>,
    /// New field of the end.
    #[prost(message, optional, tag = "6")]
    pub new_end: Option<Timestamp>,
}

/// Answer of both methods for prices.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Price {
    /// Price in a currency that the server chooses.
    #[prost(double, tag = "1")]
    pub price: f64,
}
