//! The parts of a Node that this provider reads. The provider does not keep the other parts.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{
    MACHINE_ANNOTATION, MACHINE_GONE_ANNOTATION, MachineReference, NodeIdentity, NodeName, NodeUid,
};

/// Kind of a node address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressKind {
    /// The guest's host name.
    Hostname,
    /// An IP address that is reachable inside the cluster.
    InternalIp,
    /// An IP address that is reachable from outside the cluster.
    ExternalIp,
    /// A DNS name for use inside the cluster. The provider never publishes one, and removes one
    /// from a Node whose addresses it publishes.
    InternalDns,
    /// A DNS name for use outside the cluster. The provider never publishes one, and removes one
    /// from a Node whose addresses it publishes.
    ExternalDns,
}

impl AddressKind {
    /// Name of the kind in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hostname => "Hostname",
            Self::InternalIp => "InternalIP",
            Self::ExternalIp => "ExternalIP",
            Self::InternalDns => "InternalDNS",
            Self::ExternalDns => "ExternalDNS",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Hostname, Self::InternalIp, Self::ExternalIp, Self::InternalDns, Self::ExternalDns]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}

/// An IP family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// One entry of `status.addresses`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Kind of the address.
    pub kind: AddressKind,
    /// Text of the address.
    pub address: String,
}

impl Address {
    /// Creates an address of this kind with this text.
    pub fn new(kind: AddressKind, address: impl Into<String>) -> Self {
        Self { kind, address: address.into() }
    }

    /// Returns the address as JSON, in the form of `status.addresses`.
    pub fn to_json(&self) -> Value {
        serde_json::json!({"type": self.kind.as_str(), "address": self.address})
    }
}

/// One taint as JSON, with all its fields, so that a rewritten list of taints loses none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint(pub Value);

impl Taint {
    /// Key of the taint; empty if the JSON has none.
    pub fn key(&self) -> &str {
        self.0.get("key").and_then(Value::as_str).unwrap_or_default()
    }

    /// Effect of the taint; empty if the JSON has none.
    pub fn effect(&self) -> &str {
        self.0.get("effect").and_then(Value::as_str).unwrap_or_default()
    }
}

/// The parts of a Node that this provider reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`.
    pub name: NodeName,
    /// `metadata.uid`.
    pub uid: NodeUid,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.creationTimestamp`; `None` if it is absent or cannot be parsed.
    pub created: Option<Timestamp>,
    /// True if `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.labels`, all of them.
    pub labels: std::collections::BTreeMap<String, String>,
    /// The annotation `alpha.kubernetes.io/provided-node-ip`, even if empty; `None` if it is
    /// absent.
    pub provided_node_ip: Option<String>,
    /// The annotation [`MACHINE_ANNOTATION`]; `None` if it is absent or cannot be parsed.
    pub reference: Option<MachineReference>,
    /// True if the annotation [`MACHINE_GONE_ANNOTATION`] names this node's provider ID.
    pub confirmed_gone: bool,
    /// `spec.providerID`, when not empty.
    pub provider_id: Option<String>,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `status.addresses`, without addresses of unknown kinds.
    pub addresses: Vec<Address>,
    /// True if the condition `Ready` is `True`.
    pub ready: bool,
    /// `status.nodeInfo.systemUUID`, when not empty.
    pub system_uuid: Option<String>,
}

impl Node {
    /// Parses a Node object, without addresses of unknown kinds.
    ///
    /// # Errors
    ///
    /// If the JSON has no name, or a field that the provider reads has another type.
    pub fn from_json(value: &Value) -> Result<Self, serde_json::Error> {
        let raw = RawNode::deserialize(value)?;
        let some = |text: String| Some(text).filter(|t| !t.is_empty());
        let mut annotations = raw.metadata.annotations.unwrap_or_default();
        let provider_id = some(raw.spec.provider_id);
        let confirmed = annotations.remove(MACHINE_GONE_ANNOTATION);
        Ok(Self {
            name: NodeName::from(raw.metadata.name),
            uid: NodeUid::from(raw.metadata.uid),
            resource_version: raw.metadata.resource_version,
            created: raw.metadata.creation_timestamp.and_then(|t| t.parse().ok()),
            deleting: raw.metadata.deletion_timestamp.is_some(),
            labels: raw.metadata.labels.unwrap_or_default(),
            provided_node_ip: annotations.remove("alpha.kubernetes.io/provided-node-ip"),
            reference: annotations.get(MACHINE_ANNOTATION).and_then(|text| text.parse().ok()),
            confirmed_gone: confirmed
                .zip(provider_id.as_deref())
                .is_some_and(|(confirmed, id)| confirmed.trim().eq_ignore_ascii_case(id)),
            provider_id,
            taints: raw.spec.taints.unwrap_or_default().into_iter().map(Taint).collect(),
            addresses: raw
                .status
                .addresses
                .unwrap_or_default()
                .into_iter()
                .filter_map(|a| Some(Address::new(AddressKind::parse(&a.kind)?, a.address)))
                .collect(),
            ready: raw
                .status
                .conditions
                .unwrap_or_default()
                .iter()
                .any(|c| c.kind == "Ready" && c.status == "True"),
            system_uuid: some(raw.status.node_info.unwrap_or_default().system_uuid),
        })
    }

    /// Returns the fields that identify the machine of this node, and its two annotations about the
    /// machine.
    pub fn identity(&self) -> NodeIdentity {
        NodeIdentity {
            name: self.name.clone(),
            uid: self.uid.clone(),
            provider_id: self.provider_id.clone(),
            system_uuid: self.system_uuid.clone(),
            reference: self.reference.clone(),
            confirmed_gone: self.confirmed_gone,
        }
    }
}

#[derive(Deserialize)]
struct RawNode {
    metadata: RawMetadata,
    #[serde(default)]
    spec: RawSpec,
    #[serde(default)]
    status: RawStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMetadata {
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<String>,
    labels: Option<std::collections::BTreeMap<String, String>>,
    annotations: Option<std::collections::BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
struct RawSpec {
    #[serde(default, rename = "providerID")]
    provider_id: String,
    taints: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawStatus {
    addresses: Option<Vec<RawAddress>>,
    conditions: Option<Vec<RawCondition>>,
    node_info: Option<RawNodeInfo>,
}

#[derive(Deserialize)]
struct RawAddress {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

#[derive(Deserialize)]
struct RawCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

#[derive(Default, Deserialize)]
struct RawNodeInfo {
    #[serde(default, rename = "systemUUID")]
    system_uuid: String,
}
