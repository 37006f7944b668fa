//! Result of a lookup of a node's machine: found, gone or unknown. Only a proof leads to `Gone`.

use tokio::time::Instant;

use super::{Address, MachineReference};

/// Answer to a lookup of a node's machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Lookup<T> {
    /// The machine exists; the value is the requested fact about it.
    Found(T),
    /// The provider has proved that the machine does not exist.
    Gone {
        /// Instant for which the proof holds: the start of its first read. For the variant `v1` of
        /// the Supervisor backend, the end of its lookup. For a node without a reference in the
        /// variant `v1` of the vCenter backend, the start of its last search.
        proved_at: Instant,
        /// True if the node once had a machine: the provider matched the node to one, or has its
        /// reference and vCenter does not return another machine under it. Always true from the
        /// variant `v1` of the Supervisor backend.
        matched: bool,
    },
    /// The provider cannot answer. Never a reason to delete a Node, set a taint or remove an
    /// address.
    Unknown(Unknown),
}

/// Reason why the provider cannot answer a lookup.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The lookup still runs; `Instances::changed` will return the node's name when the answer is
    /// available.
    #[error("the lookup of the machine still runs")]
    Pending,
    /// The node's provider ID belongs to another provider, has no valid UUID, or is missing where
    /// the lookup needs it.
    #[error("the machine of the node cannot be identified: {0}")]
    NotOurs(String),
    /// All servers that could own the machine answered, and none shows it; that alone proves
    /// nothing.
    #[error(
        "no vCenter or Supervisor shows a machine for this node; check that the machine exists and \
         that the login may see it"
    )]
    NotSeen,
    /// Several machines have this identity, the machine belongs to another node or has another UUID
    /// than the node, or an object has several tags of one category.
    #[error("the answer is ambiguous: {0}")]
    Ambiguous(String),
    /// A vCenter or Supervisor that could own the machine did not answer completely, or its answers
    /// cannot be trusted now.
    #[error("{0}")]
    Unavailable(String),
    /// No machine with this identity is visible, and nothing proves that this login ever saw it.
    /// The login may lack the privilege to see the machine.
    #[error("{0}")]
    Unproven(String),
    /// The server neither returns the machine of the node's reference nor says that it does not
    /// exist. The login may lack the privilege to see the machine.
    #[error("{0}")]
    Hidden(String),
    /// The node's reference names a vCenter that the configuration does not contain.
    #[error("{0}")]
    Elsewhere(String),
    /// The machine exists, in a datacenter that the configuration does not name.
    #[error("{0}")]
    Outside(String),
    /// The server answered, but did not report the requested fact about the machine (yet), or what
    /// it reports cannot be used.
    #[error("{0}")]
    Incomplete(String),
}

/// Zone and region of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Value of the zone labels.
    pub zone: String,
    /// Value of the region labels; `None` in Supervisor mode, where the node gets no region labels.
    pub region: Option<String>,
}

/// Meaning of the order of a node's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressOrder {
    /// The order has no meaning: the provider writes the list only if the set of addresses differs.
    #[default]
    Any,
    /// The order matters, because the first address of a node has the family that the cluster
    /// prefers: the provider also writes the list if only the order differs.
    Kept,
}

/// Facts about a machine that the provider writes to its Node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "InstanceMetadata")]
pub struct Metadata {
    /// Text of the provider ID to write to the Node. Never empty. Its spelling matters, because
    /// other components compare the text.
    pub provider_id: String,
    /// Reference of the machine; `None` if the vCenter does not report its instance UUID, and in
    /// Supervisor mode.
    pub reference: Option<MachineReference>,
    /// Value of the instance type labels; `None` or an empty value adds no label.
    pub instance_type: Option<String>,
    /// Addresses in publishing order, or the reason why none can be published.
    pub addresses: Result<Vec<Address>, Unknown>,
    /// Significance of the order of the addresses.
    pub order: AddressOrder,
    /// Zone and region; `Ok(None)` if zones are off, or if the Supervisor reports no zone of the
    /// machine. Except in the Supervisor backend with a view, also `Ok(None)` if the lookup did not
    /// request a zone. In vCenter mode a requested zone is an error, even with zones off, if
    /// vCenter cannot read a property that the zone or the instance type depends on.
    pub zone: Result<Option<Zone>, Unknown>,
}
