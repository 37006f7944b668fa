//! Simulator of vCenters, a workload cluster and a Supervisor, which all show one world.
//!
//! A test of a cloud provider, an operator or any other client begins with [`test!`]. The macro
//! gives each test virtual time and a separate world. The message of a failed test contains the
//! last 400 records of the ledger, which lists every call.
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
//!         let vcenter = sim.vcenter("vc0").expect("every world has vc0");
//!         // A tower service for the client under test. `vcenter.pipe` gives it an HTTP
//!         // connection, `sim.listen` opens sockets with TLS.
//!         let _service = vcenter.service("my-client");
//!         // A rule makes calls fail. A command changes the world.
//!         let busy = Action::status(503);
//!         sim.fault(Rule::new("busy", [busy]).op(["Login"]).nth(2)).expect("a valid rule").keep();
//!         sim.apply(Command::StopVCenter { vcenter: None })?;
//!         sim.apply(Command::StartVCenter { vcenter: None })?;
//!         // The ledger counts the calls of the client.
//!         assert_eq!(sim.ledger().counts().of("Login"), 0);
//!         Ok(())
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! Without the macro, [`Sim::builder`] starts a world inside any tokio runtime. World time follows
//! the clock of the runtime, paused or not. [`Sim::listen`] opens sockets, as the binary
//! `sim serve` does. [`world::Command`] lists the changes that a test can make to a world,
//! [`faults`] lists the failures of calls, and [`ledger`] records the calls.
//!
//! Every call takes the same path: listener → TLS → classify → rules → ledger → login check →
//! handler → world. Services in this process skip listener and TLS, pipes too. The sim evaluates
//! the rules and opens the record with the result before a rule acts. It closes the record when
//! the answer ends. So the ledger has every call that arrives, the rules that fired, and the
//! answer that the caller received.
//!
//! # Features
//!
//! A test that uses services and pipes needs no feature: `default-features = false`.
//!
//! | feature | adds |
//! | --- | --- |
//! | `listen` | sockets with TLS and the admin port: [`Sim::listen`], [`tls`] |
//! | `cli`, the default | the program `sim`; includes `listen` |

mod call;
// The program `sim`, for its `main`.
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
mod cluster;
// Parser of documents, for the manifests of conformance.
#[doc(hidden)]
pub mod document;
pub mod faults;
pub mod ledger;
#[cfg(feature = "listen")]
mod listen;
mod server;
mod shared_world;
mod sim;
mod supervisor;
mod vcenter;

pub use call::operations::{can_be_stale, fault_classes, operations};
pub use call::{Body, Call, Caller, Class, Face, RequestNote, Target};
pub(crate) use call::{Incoming, Outcome, Peer, Reply};
#[cfg(all(any(fuzzing, test), feature = "cli"))]
#[doc(hidden)]
pub use cli::fuzzing;
pub use cluster::{AnswerFuture, Backing};
pub use kube_sim_api::{Access, Changes, Identity, Tokens};
#[cfg(feature = "listen")]
pub use listen::{
    Advertise, AutoscalerListener, ClientGate, Endpoint, Endpoints, ListenError, ListenOptions,
    Transport,
};
pub use server::autoscaler::{AUTOSCALER, Dial, Io};
#[cfg(feature = "listen")]
pub use server::tls;
pub use server::{Server, Service};
pub use shared_world::{
    Clock, Recording, RecordingError, RuleGuard, WorldHandle, read_recording, write_recording,
};
pub use sim::{Builder, CLUSTER, Sim, VIRTUAL_EPOCH, testing};
pub use sim_world as world;
pub use supervisor::{
    Profile, SUPERVISOR, SUPERVISOR_HOST, Supervisor, SupervisorError, credentials, owner_ref,
};

/// The examples of the README, which are tested with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
