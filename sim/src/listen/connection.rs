//! One accepted connection: handshake, HTTP, and how it ends.
//!
//! It ends with its client; politely when the sim stops; with a reset when a rule or the world says
//! that the connection breaks. A reset has to look like one: no TLS farewell, no FIN.

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
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::Identity;
use crate::server::http;
use crate::tls::{self, Alpn};

/// How long a client may take to shake hands.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long calls that are being served may take once the sim stops. Long polls take longer and are
/// cut, as they are when a server goes away.
const GRACE: Duration = Duration::from_millis(250);

/// What ends a connection from outside.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    /// It breaks.
    pub(super) cut: CancellationToken,
    /// The sim stops.
    pub(super) stop: CancellationToken,
}

/// An accepted connection.
pub(super) struct Connection {
    socket: Socket,
    tls: Option<TlsAcceptor>,
    ends: Ends,
    reset: Arc<AtomicBool>,
    identity: Arc<OnceLock<Identity>>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, tls: Option<TlsAcceptor>, ends: Ends) -> Self {
        let reset = Arc::new(AtomicBool::new(false));
        let socket = Socket { stream, reset: Arc::clone(&reset) };
        Self { socket, tls, ends, reset, identity: Arc::default() }
    }

    /// Where it will stand whom the client's certificate names.
    pub(super) fn identity(&self) -> Arc<OnceLock<Identity>> {
        Arc::clone(&self.identity)
    }

    /// Breaks this connection when cancelled.
    pub(super) fn fault(&self) -> CancellationToken {
        self.ends.cut.clone()
    }

    /// Serves it to its end.
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
        let Self { socket, tls, ends, reset, identity } = self;
        let Some(acceptor) = tls else {
            return exchange(socket, service, alpn, ends, &reset).await;
        };
        let shaken = tokio::select! {
            // A connection that breaks while it shakes hands has to break, not to finish.
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
                    // Nobody else sets it.
                    let _ = identity.set(named);
                }
                exchange(stream, service, alpn, ends, &reset).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
            Err(_) => tracing::debug!("a handshake took too long"),
        }
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
        // What breaks the connection goes before what it still has to say.
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
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.reset.load(Ordering::Relaxed) {
            // Closing without lingering discards what is unsent and resets.
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
        Pin::new(&mut self.stream).poll_write(cx, bytes)
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
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
