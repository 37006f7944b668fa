//! Error answers of the admin port.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An error answer of the admin port: a status, and a body with problem and remedy.
#[derive(Debug)]
pub(super) struct AdminError {
    status: StatusCode,
    body: ErrorBody,
}

/// Body of an error answer of the admin port, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ErrorBody {
    /// Problem, in a sentence.
    pub(crate) error: String,
    /// Remedy for the problem.
    pub(crate) remedy: String,
    /// Answers to the events of the list that were carried out before the error; empty if none was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) done: Vec<Value>,
}

impl AdminError {
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            body: ErrorBody { error: error.into(), remedy: String::new(), done: Vec::new() },
        }
    }

    /// Returns an error with status 400, for a malformed request.
    pub(super) fn bad(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// Puts `place`, the place of the event in its list such as `event 2 of 3: `, before the error
    /// text.
    pub(super) fn at(mut self, place: &str) -> Self {
        self.body.error.insert_str(0, place);
        self
    }

    /// Sets `done` in the body: the answers to those events of the list that the sim carried out
    /// before the error.
    pub(super) fn after(mut self, done: &[Value]) -> Self {
        self.body.done = done.to_vec();
        self
    }

    /// Adds to the remedy that no event of the list was carried out.
    pub(super) fn none_happened(mut self) -> Self {
        self.body.remedy.push_str("; no event of this list has happened");
        self
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.body.remedy = remedy.into();
        self
    }
}

impl From<crate::document::DocumentError> for AdminError {
    fn from(wrong: crate::document::DocumentError) -> Self {
        Self::bad(wrong.summary()).remedy(wrong.remedy)
    }
}

impl IntoResponse for AdminError {
    fn into_response(self) -> Response {
        (self.status, Json(self.body)).into_response()
    }
}
