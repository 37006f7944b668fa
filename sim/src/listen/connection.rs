//! One accepted connection: TLS handshake, HTTP, and its end.
//!
//! The client can end the connection. When the sim stops, the connection ends gracefully. A rule,
//! the stop of a vCenter, a shut [`ClientGate`](super::ClientGate) or a client that does not read
//! breaks the connection: it ends with a TCP reset, without TLS close and without FIN. A request
//! head that does not arrive in time ends the connection, too.

use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::heads::{HeadDeadline, ServedRequests};
use crate::Identity;
use crate::server::http;
use crate::tls::{self, Alpn};

/// Maximum time of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time that open calls get to end when the sim stops. Long polls take longer, so the sim closes
/// their connections without an answer, as a real server does at its shutdown.
const GRACE: Duration = Duration::from_millis(250);

/// Tokens with which other code ends a connection.
#[derive(Clone, Debug)]
pub(super) struct CloseTokens {
    /// Breaks the connection with a reset when canceled.
    pub(super) cut: CancellationToken,
    /// Canceled when a rule ends the connection after its open calls.
    pub(super) drain: CancellationToken,
    /// Canceled when the sim stops; ends the connection gracefully.
    pub(super) stop: CancellationToken,
}

/// An accepted connection of a client, with its TLS settings and the tokens that end it.
pub(super) struct Connection {
    socket: Socket,
    tls: Option<TlsAcceptor>,
    ends: CloseTokens,
    reset: Arc<AtomicBool>,
    identity: Arc<OnceLock<Identity>>,
    heads: ServedRequests,
}

impl Connection {
    pub(super) fn new(
        stream: TcpStream,
        tls: Option<TlsAcceptor>,
        ends: CloseTokens,
        patience: Duration,
    ) -> Self {
        let reset = Arc::new(AtomicBool::new(false));
        let heads = ServedRequests::default();
        let socket = Socket { stream, reset: Arc::clone(&reset), patience, stalled: None };
        Self { socket, tls, ends, reset, identity: Arc::default(), heads }
    }

    /// Identity in the client's certificate; set after the handshake if the client shows a
    /// certificate with a common name.
    pub(super) fn identity(&self) -> Arc<OnceLock<Identity>> {
        Arc::clone(&self.identity)
    }

    /// Token that ends this connection after its open calls when canceled.
    pub(super) fn drain(&self) -> CancellationToken {
        self.ends.drain.clone()
    }

    /// Token that breaks this connection when canceled.
    pub(super) fn fault(&self) -> CancellationToken {
        self.ends.cut.clone()
    }

    /// Serves the connection until it ends.
    pub(super) async fn serve<S, B>(self, service: S, alpn: Alpn)
    where
        S: hyper::service::Service<
                http::Request<Incoming>,
                Response = http::Response<B>,
                Future: Send + 'static,
                Error: Into<Box<dyn std::error::Error + Send + Sync>>,
            > + Send
            + 'static,
        B: http_body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
            + Send
            + 'static,
    {
        let Self { socket, tls, ends, reset, identity, heads } = self;
        let service = CountingService { service, heads: heads.clone() };
        let patience = socket.patience;
        let Some(acceptor) = tls else {
            let stream = HeadDeadline::new(socket, heads, patience);
            return exchange(stream, service, alpn, ends, &reset).await;
        };
        let shaken = tokio::select! {
            // First: a connection that is cut during the handshake must not finish the handshake.
            biased;
            () = ends.cut.cancelled() => {
                reset.store(true, Ordering::Relaxed);
                return;
            }
            () = ends.stop.cancelled() => return,
            shaken = tokio::time::timeout(HANDSHAKE, acceptor.accept(socket)) => shaken,
        };
        match shaken {
            Ok(Ok(stream)) => {
                let (_, session) = stream.get_ref();
                let shown = session.peer_certificates().and_then(<[_]>::first);
                if let Some(named) = shown.and_then(|shown| tls::identity(shown)) {
                    // Cannot fail, because no other code sets the identity.
                    let _ = identity.set(named);
                }
                let stream = HeadDeadline::new(stream, heads, patience);
                exchange(stream, service, alpn, ends, &reset).await;
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "TLS handshake with a client failed; closing the connection")
            }
            Err(_) => {
                tracing::debug!("TLS handshake with a client timed out; closing the connection")
            }
        }
    }
}

/// Service that counts its requests until their answers begin.
struct CountingService<S> {
    service: S,
    heads: ServedRequests,
}

impl<S> hyper::service::Service<http::Request<Incoming>> for CountingService<S>
where
    S: hyper::service::Service<http::Request<Incoming>, Future: Send + 'static>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        let open = self.heads.open();
        let served = self.service.call(request);
        Box::pin(async move {
            let answer = served.await;
            drop(open);
            answer
        })
    }
}

async fn exchange<S, B>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: S,
    alpn: Alpn,
    ends: CloseTokens,
    reset: &AtomicBool,
) where
    S: hyper::service::Service<
            http::Request<Incoming>,
            Response = http::Response<B>,
            Future: Send + 'static,
            Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        > + Send
        + 'static,
    B: http_body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + 'static,
{
    let builder = match alpn {
        Alpn::Http1 => http().http1_only(),
        Alpn::Http2 => http(),
    };
    let mut connection =
        pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let mut is_draining = false;
    loop {
        tokio::select! {
            // First: a cut discards everything that is still to be sent.
            biased;
            () = ends.cut.cancelled() => {
                reset.store(true, Ordering::Relaxed);
                return;
            }
            ended = connection.as_mut() => {
                if ends.cut.is_cancelled() {
                    reset.store(true, Ordering::Relaxed);
                }
                if let Err(error) = ended {
                    tracing::debug!(%error, "the connection to a client ended with an error; \
                                             closing the connection");
                }
                return;
            }
            () = ends.drain.cancelled(), if !is_draining => {
                is_draining = true;
                connection.as_mut().graceful_shutdown();
            }
            () = ends.stop.cancelled() => break,
        }
    }
    connection.as_mut().graceful_shutdown();
    if tokio::time::timeout(GRACE, connection).await.is_err() {
        tracing::debug!(
            "the open calls of a connection did not end in time; closing the connection"
        );
    }
}

/// Socket that closes with a TCP reset if `reset` is set.
struct Socket {
    stream: TcpStream,
    reset: Arc<AtomicBool>,
    /// Maximum time that a write may make no progress because the client does not read.
    patience: Duration,
    /// Deadline of the write that makes no progress; `None` if writes progress.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    /// Checks the result of a write. Breaks the connection if writes make no progress for
    /// `patience`.
    fn wrote<T>(
        &mut self,
        cx: &mut Context<'_>,
        wrote: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.stalled = None;
            return wrote;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        if stalled.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        // The reset discards unsent data, which the system would otherwise keep.
        self.reset.store(true, Ordering::Relaxed);
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read its data",
        )))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.reset.load(Ordering::Relaxed) {
            // Closing without lingering discards unsent data and resets the connection.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(cx, wrote)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
