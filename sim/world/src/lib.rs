//! The simulated truth: inventories, sessions, Kubernetes objects and pending reactions.
//!
//! The crate is pure: no I/O, no runtime, no clock and no unseeded randomness. Callers pass the
//! time to every [`World::apply`] and get [`Event`]s back. Every change that a command or a
//! reaction makes is an event. The state is the fold of all events, so a replay of the events gives
//! the same world.
//!
//! A [`Topology`] describes the initial world, a [`Command`] requests a change, and a [`Fault`] is
//! the reason for which the world refuses a command. A [`Reaction`] is a later effect in a queue.
//! [`World::next_timer`](State::next_timer) returns the time of the next reaction or session
//! expiry. [`Timing`] sets how long each [`Step`] takes.
//!
//! ```
//! use std::time::Duration;
//! use sim_world::{Command, Time, Topology};
//!
//! let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
//! let mut world = Topology::zones(3).machines(10).build(epoch, 0);
//! world.apply(Time::ZERO, Command::Reset("node-0001".into())).unwrap();
//! let address = |world: &sim_world::World| {
//!     let inventory = &world.vcenter("vc0").unwrap().inventory;
//!     let id = inventory.by_machine_name("node-0001").next().unwrap();
//!     inventory.machine(id).unwrap().guest.address
//! };
//! assert_eq!(address(&world), None, "its guest boots");
//! world.advance(Time::after_start(Duration::from_secs(20)));
//! assert!(address(&world).is_some());
//! ```
//!
//! The module [`vcenter`] has the inventory, logins and tasks of a vCenter. [`objects`] has a
//! Kubernetes object store, [`kubelet`] the requests of simulated kubelets, and [`supervisor`] the
//! Supervisor and its kinds.

pub mod kubelet;
pub mod supervisor;
pub mod vcenter;

mod act;
mod command;
mod control_plane;
mod event;
mod reactions;
mod state;
mod topology;
mod workloads;
mod world;

pub use command::{Command, Grant, ItemName, Named, TagName, VcRequest};
pub use control_plane::ControlPlane;
pub use event::{Applied, Event, Fault, Outcome};
pub use kube_sim_store::{self as objects, Ids, Time};
pub use reactions::{Completion, Held, Kubelet, Reaction, Step, Timing};
pub use sim_duration as duration;
pub use state::State;
pub use supervisor::SupervisorTopology;
pub use topology::{ADMINISTRATOR, Nodes, PROVIDER_USER, REGION_CATEGORY, Topology, ZONE_CATEGORY};
pub use workloads::Workloads;
pub use world::{Log, Retain, World};

/// The examples of the README, which are tested with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
