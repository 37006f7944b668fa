//! Limits for request bodies of the admin port: the size of one body, the time until it has
//! arrived, and the memory of all unfinished bodies together.

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;

use super::AdminError;
use crate::server::call_path::{BodyError, BodyReader, Limit};

/// Maximum size of a body in bytes (8 MiB). Requests of an administrator need less.
const MAX_BODY: usize = 8 << 20;

/// Applies the limits to a router. Its handlers get complete bodies.
pub(super) fn bounded<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    // Disables the limit of axum, because `arrive` has already checked the size.
    router
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(BodyReader::default(), arrive))
}

async fn arrive(State(inbox): State<BodyReader>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let limit = Limit { open: MAX_BODY, known: MAX_BODY, is_known: || false, cuts: false };
    match inbox.read(body, limit).await {
        Ok(body) => next.run(Request::from_parts(parts, body.into())).await,
        Err(unread) => refused(&unread).into_response(),
    }
}

fn refused(unread: &BodyError) -> AdminError {
    let (status, remedy) = match unread {
        BodyError::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "split it into several requests"),
        BodyError::TooSlow => (StatusCode::REQUEST_TIMEOUT, "send the whole body at once"),
        BodyError::Crowded => {
            (StatusCode::SERVICE_UNAVAILABLE, "try again when other requests have ended")
        }
        BodyError::Broken(_) => (StatusCode::BAD_REQUEST, "send a valid HTTP body"),
    };
    AdminError::new(status, unread.why()).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use axum::body::Body;
    use axum::routing::post;
    use bytes::Bytes;
    use futures::{StreamExt as _, stream};
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_end_or_is_too_large_is_refused() {
        let length = |body: Bytes| async move { body.len().to_string() };
        let router = bounded(Router::new().route("/", post(length)));
        let ask = async |body: Body| {
            let request = Request::post("/").body(body).expect("a valid request");
            let answer = router.clone().oneshot(request);
            let answer = tokio::time::timeout(Duration::from_secs(3600), answer).await;
            answer.expect("an answer in time").expect("infallible").status().as_u16()
        };
        let pieces =
            |n| stream::repeat(Ok::<_, Infallible>(Bytes::from(vec![b' '; 1 << 20]))).take(n);
        assert_eq!(ask(Body::from_stream(pieces(8))).await, 200);
        assert_eq!(ask(Body::from_stream(pieces(9))).await, 413);
        assert_eq!(ask(Body::from_stream(pieces(1).chain(stream::pending()))).await, 408);
    }
}
