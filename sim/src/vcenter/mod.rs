//! The faces of a vCenter: SOAP at `/sdk`, and vAPI REST at `/rest` and `/api`.
//!
//! `vim` is the vSphere API behind SOAP, without its encoding. The tables in `call/operations` list
//! the operations of both faces.

pub(crate) mod soap;
pub(crate) mod vapi;
mod vim;
