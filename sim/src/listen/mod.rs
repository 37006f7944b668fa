//! Sockets: a listener per vCenter, one for the cluster, one for the admin port.
//!
//! [`Sim::listen`](crate::Sim::listen) binds them all before any serves, so that a busy port is an
//! error and never half a lab.

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
