//! Certificates: one generated authority, and a certificate for each server that clients can trust,
//! pin, or be surprised by.

mod authority;
mod certificates;
mod client;
mod server;

pub use authority::{Authority, TlsError};
pub(crate) use certificates::Certificates;
pub use certificates::{Certificate, Leaf, Thumbprints};
pub(crate) use client::identity;
pub(crate) use server::{Alpn, acceptor};
