//! Result of a lookup of a node's machine: found, gone, or unknown. Only a proof makes `Gone`.

use tokio::time::Instant;

use super::{Address, MachineReference};

/// Answer to a lookup of a node's machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Lookup<T> {
    /// The machine exists, and the value is the answer.
    Found(T),
    /// The machine was proved not to exist.
    Gone {
        /// Instant of the last read of the proof.
        proved_at: Instant,
        /// True if the node had been matched to a machine of this reference before.
        matched: bool,
    },
    /// Not known. Never a reason to remove anything.
    Unknown(Unknown),
}

/// Reason why something is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The lookup is still running; the node's name will come through `Instances::changed`.
    #[error("still being looked up")]
    Pending,
    /// The node has no identity that we could look for, or one that is not ours.
    #[error("not identifiable: {0}")]
    NotOurs(String),
    /// All servers that could own the machine answered, and none shows it; that alone proves nothing.
    #[error("no such machine is to be seen")]
    NotSeen,
    /// Several machines have this identity.
    #[error("ambiguous: {0}")]
    Ambiguous(String),
    /// A vCenter or Supervisor that could own the machine did not answer, or not completely.
    #[error("{0}")]
    Unavailable(String),
    /// No machine of this identity is visible, and nothing shows that this login ever saw it; the machine may be hidden.
    #[error("{0}")]
    Unproven(String),
    /// The server neither returns nor rejects the node's reference: the login may not see the machine.
    #[error("{0}")]
    Hidden(String),
    /// The node names a vCenter that is not among those of the configuration.
    #[error("{0}")]
    Elsewhere(String),
    /// The machine exists in a datacenter that the configuration leaves out.
    #[error("{0}")]
    Outside(String),
    /// The machine is known, but the requested fact about it is not (yet).
    #[error("{0}")]
    Incomplete(String),
}

/// Zone and region of a machine, from one consistent read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Value of the zone labels.
    pub zone: String,
    /// Value of the region labels.
    pub region: String,
}

/// Significance of the order of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressOrder {
    /// None: the provider writes a list only if the set of addresses differs.
    #[default]
    Any,
    /// The order counts: the first address of a node has the family that the cluster prefers.
    Kept,
}

/// Facts about a machine that the provider writes to its Node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "InstanceMetadata")]
pub struct Metadata {
    /// The provider ID as written to the Node; other components compare the text. Never empty.
    pub provider_id: String,
    /// Reference of the machine; `None` if the vCenter does not report its instance UUID.
    pub reference: Option<MachineReference>,
    /// Value of the instance type labels.
    pub instance_type: Option<String>,
    /// Addresses in publishing order, or the reason why none can be published.
    pub addresses: Result<Vec<Address>, Unknown>,
    /// Significance of the order of the addresses.
    pub order: AddressOrder,
    /// Zone and region; `Ok(None)` when zones are off.
    pub zone: Result<Option<Zone>, Unknown>,
}
