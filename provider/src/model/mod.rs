//! The vocabulary: identities, addresses, nodes, and results of lookups. No I/O.

mod clock;
mod identity;
mod lookup;
mod node;
mod node_name;
mod reference;
mod view_state;

pub use clock::{Clock, SteppedTime, TimeSource};
pub(crate) use identity::parse_uuid;
pub use identity::{
    MachineId, NodeIdentity, NodeUid, ParseProviderIdError, ProviderId, swap_byte_order,
};
pub use lookup::{AddressOrder, Lookup, Metadata, Unknown, Zone};
pub use node::{Address, AddressKind, Family, Node, Taint};
pub use node_name::NodeName;
pub use reference::{
    MACHINE_ANNOTATION, MACHINE_GONE_ANNOTATION, MachineReference, ParseReferenceError,
};
pub use view_state::ViewState;
