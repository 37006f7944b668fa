//! The autoscaler's side of the protocol `externalgrpc`: a client that sends single calls.
//!
//! The messages are written by hand here, because a judge that shared them with the provider would
//! share its mistakes about the protocol.

mod client;
mod wire;

pub use client::{CallError, Channel};
pub use wire::*;
