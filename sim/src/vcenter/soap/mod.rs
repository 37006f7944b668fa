//! SOAP 1.1 for vim25: parser, writer and HTTP front end.
//!
//! The module does not use serde, because serde cannot read `xsi:type` and every client chooses its
//! own namespace prefixes. The parser converts a request to an element tree with resolved
//! namespaces. The writer appends values directly to the text of the answer.

mod face;
mod read;
mod versions;
mod write;

pub(crate) use face::{SoapFace, SoapRequest, label, refused, text};

#[cfg(test)]
pub(crate) use read::parse;
pub(crate) use read::{MalformedEnvelope, Request, read};
pub(crate) use write::{fault, response};
