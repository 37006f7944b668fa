//! SOAP 1.1 for vim25, with a parser and a writer of its own.
//!
//! serde cannot read `xsi:type`, and every client chooses its own namespace prefixes. Requests
//! therefore become an element tree with resolved namespaces, and answers are written directly.

mod face;
mod read;
mod versions;
mod write;

pub(crate) use face::{Parsed, SoapFace, label, refused, text};

pub(crate) use read::{MalformedEnvelope, Request, read};
pub(crate) use write::{fault, response};
