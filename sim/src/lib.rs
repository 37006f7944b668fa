//! A fake vCenter and a fake workload cluster over one simulated world.
//!
//! A call has one path: listener → TLS → classify → ledger → faults → login check → handler →
//! world. The ledger stands outside the faults: it records what the caller met and which rule fired.

mod admin;
mod call;
pub mod cli;
mod clock;
mod control;
mod document;
mod driver;
pub mod faults;
mod handle;
mod kubeapi;
pub mod ledger;
mod listen;
mod path;
mod reply;
mod server;
mod signal;
mod sim;
mod soap;
pub mod tls;
mod vapi;
mod vim;

pub use call::{Call, Caller, Class, Face, Incoming, Peer, RequestNote, Target};
pub use clock::Clock;
pub use handle::WorldHandle;
pub use kubeapi::{Identity, Tokens};
pub use listen::{Advertise, Endpoint, Endpoints, ListenError, ListenOptions, Transport};
pub use path::Broken;
pub use reply::{Body, Outcome, Reply};
pub use server::{Server, Service};
pub use signal::Changes;
pub use sim::{Builder, CLUSTER, Sim, VIRTUAL_EPOCH};
pub use sim_world as world;
