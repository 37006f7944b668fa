//! Sessions: logins, the objects that a session owns, and its permissions.

mod access;
pub(super) mod logins;
pub(super) mod objects;
