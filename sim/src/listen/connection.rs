//! One accepted connection: handshake, HTTP, and its end.
//!
//! A connection ends with its client, gracefully when the sim stops, or with a reset when a rule or
//! the world breaks it. A reset has to look like one: no TLS close, no FIN.

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

use super::heads::{Heads, Timed};
use crate::Identity;
use crate::server::http;
use crate::tls::{self, Alpn};

/// Time that a client may take for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time for open calls to end once the sim stops. Long polls take longer and are cut, as when a server goes away.
const GRACE: Duration = Duration::from_millis(250);

/// Events that end a connection from outside.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    /// Breaks the connection.
    pub(super) cut: CancellationToken,
    /// Stops the sim.
    pub(super) stop: CancellationToken,
}

/// An accepted connection.
pub(super) struct Connection {
    socket: Socket,
    tls: Option<TlsAcceptor>,
    ends: Ends,
    reset: Arc<AtomicBool>,
    identity: Arc<OnceLock<Identity>>,
    heads: Heads,
}

impl Connection {
    pub(super) fn new(
        stream: TcpStream,
        tls: Option<TlsAcceptor>,
        ends: Ends,
        patience: Duration,
    ) -> Self {
        let reset = Arc::new(AtomicBool::new(false));
        let heads = Heads::default();
        let socket = Socket { stream, reset: Arc::clone(&reset), patience, stalled: None };
        Self { socket, tls, ends, reset, identity: Arc::default(), heads }
    }

    /// Identity in the client's certificate; set after the handshake.
    pub(super) fn identity(&self) -> Arc<OnceLock<Identity>> {
        Arc::clone(&self.identity)
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
        let service = Noted { service, heads: heads.clone() };
        let patience = socket.patience;
        let Some(acceptor) = tls else {
            let stream = Timed::new(socket, heads, patience);
            return exchange(stream, service, alpn, ends, &reset).await;
        };
        let shaken = tokio::select! {
            // A connection that is cut during the handshake must break, not finish the handshake.
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
                    // No other code sets it.
                    let _ = identity.set(named);
                }
                let stream = Timed::new(stream, heads, patience);
                exchange(stream, service, alpn, ends, &reset).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
            Err(_) => tracing::debug!("a handshake took too long"),
        }
    }
}

/// A service that counts the requests being served.
struct Noted<S> {
    service: S,
    heads: Heads,
}

impl<S> hyper::service::Service<http::Request<Incoming>> for Noted<S>
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
    ends: Ends,
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
    tokio::select! {
        // A cut of the connection overrides anything still to be sent.
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
                tracing::debug!(%error, "a connection ended");
            }
            return;
        }
        () = ends.stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    if tokio::time::timeout(GRACE, connection).await.is_err() {
        tracing::debug!("a connection was cut while it was served");
    }
}

/// A socket that can end in a reset.
struct Socket {
    stream: TcpStream,
    reset: Arc<AtomicBool>,
    /// Time that sent data may stay unread.
    patience: Duration,
    /// End of that time, while data stays unread.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    /// Watches a write. A write that makes no progress for too long breaks the connection.
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
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
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
