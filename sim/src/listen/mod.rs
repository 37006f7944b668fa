//! Sockets: a listener per vCenter, and one each for the cluster, the Supervisor and the admin port.
//!
//! [`Sim::listen`](crate::Sim::listen) binds all listeners before any serves, so that a busy port is an
//! error and never leaves half a lab.

mod accept;
mod connection;
mod door;
mod endpoints;
mod framing;
mod heads;
mod open;
mod options;

pub use door::Door;
pub use endpoints::{Endpoint, Endpoints};
pub use open::ListenError;
pub use options::{Advertise, ListenOptions, Transport};
