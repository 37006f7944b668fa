//! The simulated truth: what exists, who is logged in, and what will happen next.
//!
//! Pure. No I/O, no runtime, no clock and no unseeded randomness: time comes in with every
//! [`World::apply`], and [`Event`]s go out. Everything that happens is an event in one log; the
//! state is the fold of that log, so a replay gives the same world.

mod ids;
pub mod kubelet;
pub mod objects;
mod time;
mod world;

pub use ids::Ids;
pub use time::Time;
pub use world::{Applied, Command, Event, Fault, Outcome, World};
