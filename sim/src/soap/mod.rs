//! SOAP 1.1 for vim25: envelopes read and written by hand.
//!
//! serde cannot read `xsi:type`, and which prefix a client uses for what is its own affair; so
//! requests become an element tree with namespaces resolved, and answers are written directly.

mod face;
mod read;
mod versions;
mod write;

pub(crate) use face::{Parsed, SoapFace, label, refused, text};

pub(crate) use read::{MalformedEnvelope, Request, read};
pub(crate) use write::{fault, response};
