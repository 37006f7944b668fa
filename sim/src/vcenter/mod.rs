//! The faces of a vCenter: SOAP at `/sdk`, and vAPI REST at `/rest` and `/api`.
//!
//! `vim` is the vSphere API behind SOAP, without its encoding. Both faces read requests by the tables
//! in `call/operations`.

pub(crate) mod soap;
pub(crate) mod vapi;
mod vim;
