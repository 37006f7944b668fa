//! A fake vCenter and a fake workload cluster over one simulated world.
//!
//! A test of a cloud provider, an operator or any other client begins with [`test!`]: it gives
//! virtual time, a separate world, and a failure message with the ledger of every call.
//!
//! ```
//! use sim::faults::{Action, Rule};
//! use sim::world::{Command, Topology};
//! use sim::Sim;
//!
//! sim::test! {
//!     async fn it_survives_a_restart(
//!         sim: &Sim = Sim::builder().topology(Topology::zones(3).machines(10))
//!     ) -> Result<(), sim::world::Fault> {
//!         let vcenter = sim.vcenter("vc0").expect("a world has at least one");
//!         // A tower service for the client under test; `pipe` and `listen` speak HTTP and TLS.
//!         let _service = vcenter.service("my-client");
//!         // What goes wrong: a rule for calls, a command for the world.
//!         let busy = Action::Status { code: 503, retry_after: None, message: None };
//!         sim.fault(Rule::new("busy", [busy]).op(["Login"]).nth(2)).expect("a good rule");
//!         sim.apply(Command::StopVCenter { vcenter: None })?;
//!         sim.apply(Command::StartVCenter { vcenter: None })?;
//!         // What it did about that.
//!         assert_eq!(sim.ledger().counts().of("Login"), 0);
//!         Ok(())
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! Without a macro: [`Sim::builder`] starts a world inside any tokio runtime and follows its clock,
//! paused or not. [`Sim::listen`] opens sockets; the binary `sim serve` does the same.
//! [`world::Command`] lists the events of a world, [`faults`] the failures of calls, and [`ledger`] records the calls.
//!
//! A call has one path: listener → TLS → classify → ledger → faults → login check → handler →
//! world. The ledger stands outside the faults: it records the answer that the caller got and the rules that fired.

mod admin;
mod call;
pub mod cli;
mod clock;
mod control;
pub mod document;
mod driver;
pub mod faults;
mod files;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod handle;
mod kubeapi;
pub mod ledger;
mod listen;
mod names;
mod path;
mod recording;
mod reply;
mod server;
mod signal;
mod sim;
mod soap;
mod supervisor;
pub mod testing;
pub mod tls;
mod vapi;
mod vim;

pub use call::{Call, Caller, Class, Face, Incoming, Peer, RequestNote, Target};
pub use clock::Clock;
pub use handle::WorldHandle;
pub use kubeapi::{Access, Answering, Backing, Identity, Tokens};
pub use listen::{Advertise, Door, Endpoint, Endpoints, ListenError, ListenOptions, Transport};
pub use names::{can_be_stale, fault_classes, operations};
pub use path::Broken;
pub use recording::{Recording, RecordingError, read_recording, write_recording};
pub use reply::{Body, Outcome, Reply};
pub use server::{Server, Service};
pub use signal::Changes;
pub use sim::{Builder, CLUSTER, Sim, VIRTUAL_EPOCH};
pub use sim_world as world;
pub use supervisor::{
    Profile, SUPERVISOR, SUPERVISOR_HOST, Supervisor, SupervisorError, credentials, owner_ref,
};
