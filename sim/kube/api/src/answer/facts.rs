//! Facts about an answer of another API server, read without the schemas of its objects.

use serde_json::Value;

use crate::{answer, protobuf};

/// Facts about the body of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerFacts {
    /// Reason of a failure `Status`; empty if the answer has none.
    pub reason: String,
    /// Number of items in a list; 1 for any other answer.
    pub objects: u64,
}

impl AnswerFacts {
    /// Reads the facts from a JSON or protobuf body; `None` for another content type, or if the
    /// body is malformed.
    pub fn read(content_type: &str, body: &[u8]) -> Option<Self> {
        match content_type {
            it if it.starts_with(answer::JSON) => of_json(body),
            it if it.starts_with(protobuf::MEDIA_TYPE) => protobuf::glance(body),
            _ => None,
        }
    }
}

fn of_json(body: &[u8]) -> Option<AnswerFacts> {
    let document: Value = serde_json::from_slice(body).ok()?;
    let reason = document["reason"].as_str().unwrap_or_default().to_owned();
    let items = document["items"].as_array().map(Vec::len);
    let objects = items.map_or(1, |n| n as u64);
    Some(AnswerFacts { reason, objects })
}
