//! The autoscaler's side of the protocol `externalgrpc`, and servers that are judged over it.
//!
//! The messages are written by hand here, because a judge that shared them with the provider would
//! share its mistakes about the protocol.

mod caches;
mod client;
mod node;
mod options;
mod ours;
mod reference;
mod session;
mod subject;
mod tls;
mod wire;

pub use caches::IdleAutoscaler;
pub use client::{CallError, Channel};
pub use node::{Node, Quantity};
pub use options::{NewDuration, OfOptions, OldDuration, Options, OptionsAnswer, Times};
pub use ours::{MachineDeployment, MemoryJournal, Ours, cluster_api_machines};
pub use reference::{Flaw, Reference, Wire};
pub use session::{Answer, Asked, Session, Transcript};
pub use subject::{
    Act, ActError, Connection, Control, Credentials, Endpoint, Generation, Overrides, Setting,
    Subject, TlsFacts,
};
pub use tls::ClientTls;
pub use wire::*;
