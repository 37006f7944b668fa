//! What is known about a node's machine: found, gone, or unknown. Only proof makes `Gone`.

use tokio::time::Instant;

use super::{Address, MachineReference, ProviderId};

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
    /// Every vCenter answered and none shows the machine; that alone proves nothing.
    #[error("no vCenter shows such a machine")]
    NotSeen,
    /// Several machines answer to this identity.
    #[error("ambiguous: {0}")]
    Ambiguous(String),
    /// A vCenter that could own the machine did not answer, or not completely.
    #[error("{0}")]
    Unavailable(String),
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

/// What a node is told about its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "InstanceMetadata")]
pub struct Metadata {
    /// The identity; always present, never empty.
    pub provider_id: ProviderId,
    /// Where the machine is; none when the vCenter does not say which one it is.
    pub reference: Option<MachineReference>,
    /// Value of the instance type labels.
    pub instance_type: Option<String>,
    /// Addresses in publishing order, or why there are none to publish.
    pub addresses: Result<Vec<Address>, Unknown>,
    /// Zone and region; `Ok(None)` when zones are off.
    pub zone: Result<Option<Zone>, Unknown>,
}
