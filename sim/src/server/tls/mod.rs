//! Certificates: one generated authority, and for each server a certificate that clients can trust
//! or pin, or that is defective on purpose.

mod authority;
mod certificates;
mod client;
mod server;

pub use authority::{Authority, TlsError};
pub(crate) use certificates::Certificates;
pub use certificates::{Certificate, Leaf, Thumbprints};
pub(crate) use client::identity;
pub(crate) use server::{Alpn, acceptor};
