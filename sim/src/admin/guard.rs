//! Who may use the admin port: everybody on loopback, holders of the token elsewhere and where one was asked for.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use sha2::{Digest, Sha256};

use super::AdminError;

/// The digest of the token; comparing digests takes the same time for every guess.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    token: Option<[u8; 32]>,
}

impl Guard {
    pub(super) fn new(token: Option<String>) -> Self {
        Self { token: token.map(|token| Sha256::digest(token.as_bytes()).into()) }
    }
}

/// Lets a request in, or does not.
pub(super) async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let Some(wanted) = guard.token else { return next.run(request).await };
    let shown = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "))
        .map(|token| <[u8; 32]>::from(Sha256::digest(token.trim().as_bytes())));
    if shown == Some(wanted) {
        return next.run(request).await;
    }
    AdminError::new(StatusCode::UNAUTHORIZED, "the admin port wants its bearer token")
        .remedy("send Authorization: Bearer with SIM_ADMIN_TOKEN of the file that --env named")
        .into_response()
}
