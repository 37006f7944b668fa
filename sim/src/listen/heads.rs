//! Deadline for the heads of HTTP/1 requests.
//!
//! A head whose first bytes have arrived must be complete within the deadline. The time starts anew
//! when no other request of the connection waits for its answer any more. An idle connection may
//! stay open. hyper's own deadline also runs while a connection is idle, so it would close
//! connections that clients keep for later requests.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::framing::Framing;

/// Number of requests of one connection whose answers have not begun. Clones refer to the same
/// connection.
#[derive(Clone, Debug, Default)]
pub(super) struct ServedRequests {
    n_open: Arc<AtomicU64>,
}

/// A request whose answer has not begun.
pub(super) struct ServedRequest(Arc<AtomicU64>);

impl Drop for ServedRequest {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ServedRequests {
    /// Counts a request until the returned value is dropped.
    pub(super) fn open(&self) -> ServedRequest {
        self.n_open.fetch_add(1, Ordering::Relaxed);
        ServedRequest(Arc::clone(&self.n_open))
    }
}

/// The plain-text stream of a connection. A read fails if an HTTP/1 head that has begun is still
/// incomplete at its deadline.
pub(super) struct HeadDeadline<S> {
    stream: S,
    heads: ServedRequests,
    lasts: Duration,
    framing: Framing,
    /// Number of the head that has begun, and its deadline; `None` while no head is awaited.
    begun: Option<(u64, Pin<Box<Sleep>>)>,
}

impl<S> HeadDeadline<S> {
    /// Wraps a stream. Each head must be complete within `lasts` of its first bytes, or of the time
    /// from which no other request waits for its answer.
    pub(super) fn new(stream: S, heads: ServedRequests, lasts: Duration) -> Self {
        Self { stream, heads, lasts, framing: Framing::default(), begun: None }
    }

    /// True if a head has begun and is still incomplete at its deadline. The first call while no
    /// other request waits for its answer starts the deadline. The deadline wakes the task of `cx`.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        // A head that begins while another request waits for its answer is checked later.
        let is_idle = self.heads.n_open.load(Ordering::Relaxed) == 0;
        let Some(head) = self.framing.begun().filter(|_| is_idle) else {
            self.begun = None;
            return false;
        };
        if self.begun.as_ref().is_none_or(|(of, _)| *of != head) {
            self.begun = Some((head, Box::pin(tokio::time::sleep(self.lasts))));
        }
        let due = self.begun.as_mut().map(|(_, due)| due.as_mut().poll(cx));
        due.is_some_and(|due| due.is_ready())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadDeadline<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.framing.read(&buf.filled()[before..]);
        if read.is_pending() && self.is_over(cx) {
            let error = "the head of a request did not arrive in time";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, error)));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadDeadline<S> {
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
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
