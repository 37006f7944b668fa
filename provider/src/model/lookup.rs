//! What is known about a node's machine: found, gone, or unknown. Only proof makes `Gone`.

use tokio::time::Instant;

use super::{Address, MachineReference};

/// The answer to a question about a node's machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Lookup<T> {
    /// The machine exists, and this is the answer.
    Found(T),
    /// The machine does not exist, as was proved at this instant.
    Gone {
        /// When the last part of the proof was read.
        proved_at: Instant,
        /// Whether the node had been matched to a machine of this reference before.
        matched: bool,
    },
    /// Not known. Never a reason to take anything away.
    Unknown(Unknown),
}

/// Why something is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The answer is on its way; the node's name will come through `Instances::changed`.
    #[error("still being looked up")]
    Pending,
    /// The node says of itself nothing that we could look for, or something that is not ours.
    #[error("not identifiable: {0}")]
    NotOurs(String),
    /// Everybody who could own the machine answered, and none shows it; that alone proves nothing.
    #[error("no such machine is to be seen")]
    NotSeen,
    /// Several machines answer to this identity.
    #[error("ambiguous: {0}")]
    Ambiguous(String),
    /// A vCenter or Supervisor that could own the machine did not answer, or not completely.
    #[error("{0}")]
    Unavailable(String),
    /// No machine of this identity is visible, and nothing shows that this login ever saw it: it may be hidden.
    #[error("{0}")]
    Unproven(String),
    /// The node's reference is not answered, and not refused either: the login may not see the machine.
    #[error("{0}")]
    Hidden(String),
    /// The node names a vCenter that is not among those of the configuration.
    #[error("{0}")]
    Elsewhere(String),
    /// The machine exists, in a datacenter that the configuration leaves out.
    #[error("{0}")]
    Outside(String),
    /// The machine is known, but this about it is not (yet).
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

/// Whether another order of the same addresses is another list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressOrder {
    /// No: a list is written when the set is another one.
    #[default]
    Any,
    /// Yes: the first address of a node is of the family that the cluster prefers.
    Kept,
}

/// What a node is told about its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "InstanceMetadata")]
pub struct Metadata {
    /// The provider ID, as it is written to the node: others compare the text. Never empty.
    pub provider_id: String,
    /// Where the machine is; none when the vCenter does not say which one it is.
    pub reference: Option<MachineReference>,
    /// Value of the instance type labels.
    pub instance_type: Option<String>,
    /// Addresses in publishing order, or why there are none to publish.
    pub addresses: Result<Vec<Address>, Unknown>,
    /// Whether the order of the addresses says something.
    pub order: AddressOrder,
    /// Zone and region; `Ok(None)` when zones are off.
    pub zone: Result<Option<Zone>, Unknown>,
}
