//! SOAP 1.1 for vim25: envelopes read and written by hand.
//!
//! serde cannot read `xsi:type`, and which prefix a client uses for what is its own affair; so
//! requests become an element tree with namespaces resolved, and answers are written directly.

mod face;
mod read;
mod write;

pub(crate) use face::{Parsed, SoapFace, label, refused, text};

pub(crate) use read::{MalformedEnvelope, Request, read};
pub(crate) use write::{fault, response};

/// `/sdk/vimServiceVersions.xml`: the whole chain, so that every client finds one it knows.
const VERSIONS: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8"?>"#,
    "\n<namespaces version=\"1.0\"><namespace><name>urn:vim25</name><version>8.0.3.0</version>",
    "<priorVersions>",
    "<version>8.0.2.0</version><version>8.0.1.0</version><version>8.0.0.2</version>",
    "<version>8.0.0.1</version><version>8.0.0.0</version><version>7.0.3.2</version>",
    "<version>7.0.3.1</version><version>7.0.3.0</version><version>7.0.2.1</version>",
    "<version>7.0.2.0</version><version>7.0.1.1</version><version>7.0.1.0</version>",
    "<version>7.0.0.2</version><version>7.0.0.0</version><version>6.9.1</version>",
    "<version>6.8.7</version><version>6.7.3</version><version>6.7.2</version>",
    "<version>6.7.1</version><version>6.7</version><version>6.5</version><version>6.0</version>",
    "<version>5.5</version><version>5.1</version><version>5.0</version><version>4.1</version>",
    "<version>4.0</version><version>2.5u2</version><version>2.5</version>",
    "<version>2.0</version></priorVersions></namespace></namespaces>",
);
