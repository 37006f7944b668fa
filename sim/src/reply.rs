//! What a face answers: a response, and what the ledger should know of it.

use std::io;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

use crate::ledger::Digest;

/// A response body: whole for most calls, a stream for watches.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// What the ledger records of an answer besides its status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The fault class (`NotAuthenticated`), vAPI error type or Status reason, if it is a failure.
    pub fault: Option<String>,
    /// How many objects the answer carries.
    pub objects: u64,
    /// What it says, where the bytes of a whole body are not that.
    pub digest: Option<Digest>,
}

/// A face's answer.
#[derive(Debug)]
pub struct Reply {
    /// The HTTP response.
    pub response: http::Response<Body>,
    /// What the ledger records of it.
    pub outcome: Outcome,
}

impl Reply {
    /// A whole body of the given media type.
    pub fn new(status: http::StatusCode, content_type: &str, body: impl Into<Bytes>) -> Self {
        let mut response = http::Response::new(full(body));
        *response.status_mut() = status;
        if let Ok(value) = http::HeaderValue::from_str(content_type) {
            response.headers_mut().insert(http::header::CONTENT_TYPE, value);
        }
        Self { response, outcome: Outcome::default() }
    }

    /// The same answer, recorded as failed with `fault`.
    #[must_use]
    pub fn with_fault(mut self, fault: impl Into<String>) -> Self {
        self.outcome.fault = Some(fault.into());
        self
    }

    /// The same answer, recorded as carrying `objects` objects.
    #[must_use]
    pub fn with_objects(mut self, objects: usize) -> Self {
        self.outcome.objects = objects as u64;
        self
    }

    /// The same answer, recorded as saying this, whatever its bytes.
    #[must_use]
    pub fn saying(mut self, digest: Digest) -> Self {
        self.outcome.digest = Some(digest);
        self
    }
}

/// A body that is there as a whole.
pub(crate) fn full(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}
