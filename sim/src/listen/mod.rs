//! Sockets: one listener for each vCenter, the cluster, the Supervisor and the admin port, and the
//! requests of the admin port.
//!
//! [`Sim::listen`](crate::Sim::listen) binds all listeners before any of them serves. If a port is
//! busy, it returns an error and no listener serves.

mod accept;
pub(crate) mod admin;
pub(crate) mod causes;
mod connection;
mod endpoints;
mod framing;
mod gate;
mod heads;
mod hosts;
mod open;
mod options;

pub use endpoints::{Endpoint, Endpoints};
pub use gate::ClientGate;
pub use open::ListenError;
pub use options::{Advertise, AutoscalerListener, ListenOptions, Transport};
