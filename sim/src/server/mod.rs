//! Servers, which clients reach as a service in this process, over a pipe, or over a socket.
//!
//! `call_path` takes a call from its arrival to the end of its answer, `autoscaler` forwards calls of
//! Cluster Autoscalers, and `tls` has the
//! certificates of sockets.

pub(crate) mod autoscaler;
pub(crate) mod call_path;
#[cfg(feature = "listen")]
pub(crate) use call_path::is_of_stream;
#[cfg(feature = "listen")]
pub mod tls;

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio_util::sync::CancellationToken;

use crate::server::call_path::{CallPath, LastOfConnection};
use crate::{Body, Peer};

/// Number of bytes that a pipe holds in each direction before the writer waits.
const PIPE: usize = 256 * 1024;

/// A vCenter, a Kubernetes API server, or the server that forwards the calls of Cluster Autoscalers. Clones refer to the same server.
#[derive(Clone, Debug)]
pub struct Server {
    name: String,
    path: CallPath,
    connections: Arc<AtomicU64>,
}

impl Server {
    pub(crate) fn new(name: String, path: CallPath) -> Self {
        Self { name, path, connections: Arc::default() }
    }

    /// Name of the server in the ledger.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a connection as a tower service, without sockets, HTTP framing or TLS.
    ///
    /// `client` is the caller's label in the ledger and in rules. A Kubernetes API server requires
    /// no credentials from a caller with a label.
    pub fn service(&self, client: &str) -> Service {
        let connection = self.next_connection();
        let peer = Peer { client: client.to_owned(), connection, ..Peer::default() };
        Service { path: self.path.clone(), peer }
    }

    /// Returns the client's end of a connection over an in-memory pipe, HTTP/1.1 or HTTP/2 in plain
    /// text, and a future that serves the connection. The caller must poll the future.
    ///
    /// `client` is the caller's label, as in [`service`](Self::service).
    pub fn pipe(&self, client: &str) -> (DuplexStream, impl Future<Output = ()> + Send + 'static) {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let service = self.service(client);
        (theirs, serve(ours, service))
    }

    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }
}

#[cfg(feature = "listen")]
impl Server {
    /// True if the server is a vCenter whose service is stopped.
    pub(crate) fn is_down(&self) -> bool {
        self.path.front.is_down(&self.path.world.lock())
    }

    /// Returns the service of a connection that a listener accepted. `client` is the label of the
    /// listener. The connection sets `identity` after its TLS handshake.
    pub(crate) fn accepted(
        &self,
        client: &str,
        address: String,
        identity: Arc<std::sync::OnceLock<crate::Identity>>,
    ) -> Service {
        let connection = self.next_connection();
        let peer = Peer { client: client.to_owned(), connection, address, identity };
        Service { path: self.path.clone(), peer }
    }
}

/// Serves HTTP on one end of a pipe until the connection ends.
pub(crate) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: Service,
) {
    let builder = http();
    let drain = CancellationToken::new();
    let service = TowerToHyperService::new(Draining { service, drain: drain.clone() });
    let mut connection =
        pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = drain.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "HTTP over a connection inside the process failed; closing the \
                                 connection");
    }
}

/// A service that cancels a token when a rule ends its connection.
#[derive(Clone)]
pub(crate) struct Draining {
    pub(crate) service: Service,
    pub(crate) drain: CancellationToken,
}

impl<B> tower::Service<http::Request<B>> for Draining
where
    Service: tower::Service<
            http::Request<B>,
            Response = http::Response<Body>,
            Error = io::Error,
            Future: Send + 'static,
        >,
{
    type Response = http::Response<Body>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let is_http1 = request.version() < http::Version::HTTP_2;
        let (answered, drain) = (self.service.call(request), self.drain.clone());
        Box::pin(async move {
            let mut response = answered.await?;
            if response.extensions().get::<LastOfConnection>().is_some() {
                // HTTP/1 sends the head before it learns of the drain. HTTP/2 forbids the header.
                if is_http1 {
                    let close = http::HeaderValue::from_static("close");
                    response.headers_mut().insert(http::header::CONNECTION, close);
                }
                drain.cancel();
            }
            Ok(response)
        })
    }
}

/// HTTP settings for pipes and sockets.
pub(crate) fn http() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None);
    builder.http2().timer(TokioTimer::new());
    builder
}

/// One connection to a server, as a tower service.
#[derive(Clone, Debug)]
pub struct Service {
    path: CallPath,
    peer: Peer,
}

impl<B> tower::Service<http::Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = http::Response<Body>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let Self { path, peer } = self.clone();
        Box::pin(async move { path.serve(request, peer).await.map_err(io::Error::from) })
    }
}
