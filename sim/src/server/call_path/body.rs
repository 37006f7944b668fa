//! A response body that counts its bytes, that a rule can cut, and that closes the record of its
//! call when it ends.
//!
//! A body that is complete at the start and that no rule cuts closes the record immediately. The
//! record of a read then gets the digest of the body, unless the face has set a digest.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::CallPath;
use crate::ledger::{Digest, Ended};
use crate::{Body, Class};

pub(super) struct Watched {
    inner: Body,
    /// Data that was read from `inner` for the digest and that the client has not read yet; `None`
    /// if no such data is left.
    whole: Option<Bytes>,
    open: Option<(CallPath, u64, Ended)>,
    bytes: u64,
    /// Number of further bytes after which the connection breaks; `None` if no rule cuts the body.
    cut: Option<u64>,
    /// True after the transport has had a chance to send the bytes before the break.
    sent: bool,
}

impl Watched {
    pub(super) fn new(
        inner: Body,
        path: CallPath,
        (seq, class): (u64, Class),
        ended: Ended,
        cut: Option<u64>,
    ) -> Self {
        let mut watched =
            Self { inner, whole: None, open: Some((path, seq, ended)), bytes: 0, cut, sent: false };
        // A body that is complete at the start counts as sent.
        if let (Some(size), None) = (watched.inner.size_hint().exact(), cut) {
            watched.bytes = size;
            if class == Class::Read {
                watched.look_ahead(size);
            }
            watched.close(None);
        }
        watched
    }

    /// Records the digest of a complete body of `size` bytes, unless the face has set a digest or
    /// the body comes in several pieces.
    fn look_ahead(&mut self, size: u64) {
        let Some((_, _, ended)) = &mut self.open else { return };
        if ended.digest.is_some() {
            return;
        }
        if size == 0 {
            ended.digest = Some(Digest::of_body(&[]));
            return;
        }
        let mut cx = Context::from_waker(Waker::noop());
        let first = Pin::new(&mut self.inner).poll_frame(&mut cx);
        if let Poll::Ready(Some(Ok(frame))) = first
            && let Ok(data) = frame.into_data()
        {
            // A body in several pieces gets no digest.
            if data.len() as u64 == size {
                ended.digest = Some(Digest::of_body(&data));
            }
            self.whole = Some(data);
        }
    }

    fn close(&mut self, broken: Option<&'static str>) {
        if let Some((path, seq, ended)) = self.open.take() {
            let ended = Ended { at: path.world.now(), bytes: self.bytes, broken, ..ended };
            path.ledger.close(seq, ended);
        }
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.cut == Some(0) && !std::mem::replace(&mut self.sent, true) {
            // If the connection broke at once, it would lose the data that is not written yet.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.cut == Some(0) {
            self.close(Some("truncated"));
            let error = io::Error::new(io::ErrorKind::ConnectionReset, "cut short by a rule");
            return Poll::Ready(Some(Err(error)));
        }
        if let Some(data) = self.whole.take() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => {
                // A body that ends before the cut is complete.
                self.close(None);
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                self.close(Some("reset"));
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(Some(Ok(frame))) => {
                let mut data = match frame.into_data() {
                    Ok(data) => data,
                    Err(trailers) => {
                        // Nothing follows trailers, so the transport does not ask again.
                        self.close(None);
                        return Poll::Ready(Some(Ok(trailers)));
                    }
                };
                if let Some(left) = &mut self.cut {
                    let take = usize::try_from(*left).unwrap_or(usize::MAX).min(data.len());
                    data.truncate(take);
                    *left -= take as u64;
                }
                if self.open.is_some() {
                    self.bytes += data.len() as u64;
                }
                if self.cut.is_none() && self.inner.is_end_stream() {
                    // The transport does not ask a body again that says that it has ended.
                    self.close(None);
                }
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        // A client of gRPC needs the end in the same frame as the headers, if no message follows.
        self.whole.is_none() && self.cut.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // The length of the whole body, even if a rule cuts it, so that the client notices the cut.
        match &self.whole {
            None => self.inner.size_hint(),
            Some(data) => {
                let left = self.inner.size_hint().exact().unwrap_or_default();
                SizeHint::with_exact(data.len() as u64 + left)
            }
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.close(Some("abandoned"));
    }
}
