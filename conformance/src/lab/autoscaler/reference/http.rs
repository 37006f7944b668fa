//! Serves gRPC over one connection, without a library that knows the protocol.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};

use super::super::client::{framed, unframed};

/// Status with which a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status(pub(super) i32, pub(super) String);

impl Status {
    pub(super) fn new(code: i32, message: impl Into<String>) -> Self {
        Self(code, message.into())
    }
}

/// Serves the calls of a connection until the client closes it. `answer` gets the path and the
/// serialized request, and is dropped if the client cancels the call.
pub(super) async fn serve<S, F>(
    stream: S,
    answer: impl Fn(String, Bytes) -> F + Clone + Send + 'static,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Result<Vec<u8>, Status>> + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer.clone();
        async move {
            let path = request.uri().path().to_owned();
            let outcome = match request.into_body().collect().await {
                Ok(body) => match unframed(body.to_bytes()) {
                    Ok(body) => answer(path, body).await,
                    Err(err) => Err(Status::new(13, err.message)),
                },
                Err(err) => Err(Status::new(13, err.to_string())),
            };
            Ok::<_, Infallible>(response(outcome))
        }
    });
    let mut server = http2::Builder::new(TokioExecutor::new());
    server.max_concurrent_streams(1000);
    // The client closes the connection at the end of a case.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

fn response(outcome: Result<Vec<u8>, Status>) -> Response<BoxBody<Bytes, Infallible>> {
    let (content, Status(code, message)) = match outcome {
        Ok(content) => (Some(content), Status::new(0, "")),
        Err(status) => (None, status),
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(code));
    if let Ok(message) = HeaderValue::from_str(&message) {
        trailers.insert("grpc-message", message);
    }
    let body = match content {
        Some(content) => {
            let frames = [Frame::data(framed(&content)), Frame::trailers(trailers.clone())];
            StreamBody::new(stream::iter(frames.map(Ok))).boxed()
        }
        None => Empty::new().boxed(),
    };
    let is_error = code != 0;
    let mut response = Response::new(body);
    if is_error {
        *response.headers_mut() = trailers;
    }
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}
