//! Answers of faces: an HTTP response, and the facts about it that the ledger records.

use std::io;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

use super::Digest;

/// A response body: whole for most calls, a stream for watches.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Part of an answer that the ledger records besides the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Fault class (`NotAuthenticated`), vAPI error type or Status reason of a failed call; for an
    /// answer without any of them, the HTTP reason or status code. `None` if the call did not fail,
    /// and for an answer that a rule corrupts.
    pub fault: Option<String>,
    /// Number of objects in the answer.
    pub objects: u64,
    /// Short text of the answer of a server for Cluster Autoscalers.
    pub answer: Option<String>,
    /// Number of calls to other faces that arrived while a call of a Cluster Autoscaler was open.
    pub behind: Option<u64>,
    /// Digest of the answer to a read; if `None`, the ledger computes it from the bytes of a whole
    /// body. Ignored for other classes of calls.
    pub digest: Option<Digest>,
}

/// Answer of a face to one call.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The HTTP response for the client.
    pub response: http::Response<Body>,
    /// Part of the answer that the ledger records.
    pub outcome: Outcome,
}

impl Reply {
    /// Returns an answer with a complete body of the media type `content_type`.
    pub(crate) fn new(
        status: http::StatusCode,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Self {
        let mut response = http::Response::new(full(body));
        *response.status_mut() = status;
        if let Ok(value) = http::HeaderValue::from_str(content_type) {
            response.headers_mut().insert(http::header::CONTENT_TYPE, value);
        }
        Self { response, outcome: Outcome::default() }
    }

    /// Makes the ledger record the answer as failed with `fault`.
    #[must_use]
    pub(crate) fn with_fault(mut self, fault: impl Into<String>) -> Self {
        self.outcome.fault = Some(fault.into());
        self
    }

    /// Makes the ledger record `objects` as the number of objects in the answer.
    #[must_use]
    pub(crate) fn with_objects(mut self, objects: usize) -> Self {
        self.outcome.objects = objects as u64;
        self
    }
}

/// Returns a body whose bytes are all known, in contrast to the stream of a watch.
pub(crate) fn full(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}
