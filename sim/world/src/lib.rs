//! The simulated truth: what exists, who is logged in, and what will happen next.
//!
//! Pure. No I/O, no runtime, no clock and no unseeded randomness: time comes in with every
//! [`World::apply`], and [`Event`]s go out. Everything that happens is an event in one log; the
//! state is the fold of that log, so a replay gives the same world.

pub mod duration;
mod ids;
pub mod kubelet;
pub mod objects;
mod time;
pub mod vcenter;

mod act;
mod command;
mod completion;
mod invariants;
mod log;
mod reactions;
mod topology;
mod world;

pub use command::{Command, Grant, Named, TagName, VcRequest};
pub use completion::{Completion, Step, Timing};
pub use ids::Ids;
pub use log::{Log, Retain};
pub use reactions::{Held, Kubelet, Reaction};
pub use time::Time;
pub use topology::{ADMINISTRATOR, Nodes, PROVIDER_USER, REGION_CATEGORY, Topology, ZONE_CATEGORY};
pub use world::{Applied, Event, Fault, Outcome, State, World};
