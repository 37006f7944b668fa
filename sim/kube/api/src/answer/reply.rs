//! Answers of the server: an HTTP response, and the facts about it that a recorder of calls needs.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use kube_sim_store::Status;
use serde_json::Value;

use crate::answer;

/// A response body: complete for most requests, a stream for watches.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Facts about an answer besides its status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Reason of a failure, such as `NotFound`; the status code if the failure has no reason.
    /// `None` for a success.
    pub fault: Option<String>,
    /// Objects in the answer, in the state in which the answer has them. `None` for an answer that
    /// has none by its nature, such as a discovery document, a failure or a watch.
    pub objects: Option<Vec<Arc<Value>>>,
}

/// Answer to one request, with facts about it for a recorder of requests.
#[derive(Debug)]
pub struct Reply {
    /// The HTTP response for the client.
    pub response: http::Response<Body>,
    /// Facts about the answer besides its status.
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

    /// Answer with a failure `Status`, and with `Retry-After` and warnings if the status has them.
    pub fn failure(status: &Status) -> Self {
        answer::failure(status)
    }

    /// Failure with a page of plain text in place of a `Status`, as the real server's filters
    /// answer. `fault` is its name in [`Outcome::fault`].
    pub fn failure_page(status: http::StatusCode, text: &str, fault: &str) -> Self {
        answer::unsniffed(answer::text(status, text.to_owned()).with_fault(fault))
    }

    /// Adds `X-Content-Type-Options: nosniff`, which the real server's filters add.
    #[must_use]
    pub fn with_nosniff(self) -> Self {
        answer::unsniffed(self)
    }

    /// Records the answer as a failure with `fault`.
    #[must_use]
    pub(crate) fn with_fault(mut self, fault: impl Into<String>) -> Self {
        self.outcome.fault = Some(fault.into());
        self
    }

    /// Records `objects` as the objects in the answer.
    #[must_use]
    pub(crate) fn with_objects(mut self, objects: Vec<Arc<Value>>) -> Self {
        self.outcome.objects = Some(objects);
        self
    }
}

/// Returns a body whose bytes are all known, in contrast to the stream of a watch.
pub(crate) fn full(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}
