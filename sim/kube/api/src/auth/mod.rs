//! Authentication, authorization and impersonation of clients.

pub(crate) mod access;
pub(crate) mod impersonation;
mod reviews;
pub(crate) mod tokens;

pub use access::Access;
pub use tokens::{Identity, Tokens};
