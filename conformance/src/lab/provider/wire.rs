//! Rejects requests that a server would reject on an HTTP connection, but that a service in the
//! same process accepts.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Version, header};
use tower::Service;

/// A service that rejects each HTTP/1.1 request without a host, and passes all other requests to
/// the inner service.
#[derive(Clone, Debug)]
pub(super) struct Wire<S>(pub(super) S);

impl<S, B> Service<Request<B>> for Wire<S>
where
    S: Service<Request<B>, Error = io::Error>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
{
    type Response = S::Response;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let has_host =
            request.headers().contains_key(header::HOST) || request.uri().authority().is_some();
        if request.version() == Version::HTTP_11 && !has_host {
            let refused = "HTTP/1.1 servers refuse a request without a Host header";
            return Box::pin(async move { Err(io::Error::other(refused)) });
        }
        Box::pin(self.0.call(request))
    }
}
