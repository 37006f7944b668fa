//! How the admin port says no.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};

/// A refusal: what is wrong and what to do about it.
#[derive(Debug)]
pub(super) struct AdminError {
    status: StatusCode,
    body: Complaint,
}

/// The body of every error.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Complaint {
    /// What is wrong.
    pub(crate) error: String,
    /// What to do about it.
    pub(crate) remedy: String,
}

impl AdminError {
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, body: Complaint { error: error.into(), remedy: String::new() } }
    }

    /// A request that makes no sense.
    pub(super) fn bad(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.body.remedy = remedy.into();
        self
    }
}

impl From<crate::document::Wrong> for AdminError {
    fn from(wrong: crate::document::Wrong) -> Self {
        Self::bad(wrong.what()).remedy(wrong.remedy)
    }
}

impl IntoResponse for AdminError {
    fn into_response(self) -> Response {
        (self.status, Json(self.body)).into_response()
    }
}
