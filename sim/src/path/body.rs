//! A response body that is counted, can be cut short, and closes its record when it ends.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::CallPath;
use crate::Body;
use crate::ledger::Ended;

pub(super) struct Watched {
    inner: Body,
    open: Option<(CallPath, u64, Ended)>,
    bytes: u64,
    /// Bytes after which the connection breaks.
    cut: Option<u64>,
    /// Whether the transport had a moment to send what comes before the break.
    sent: bool,
}

impl Watched {
    pub(super) fn new(
        inner: Body,
        path: CallPath,
        seq: u64,
        ended: Ended,
        cut: Option<u64>,
    ) -> Self {
        let mut watched =
            Self { inner, open: Some((path, seq, ended)), bytes: 0, cut, sent: false };
        // A body that is there as a whole is as good as sent.
        if let (Some(size), None) = (watched.inner.size_hint().exact(), cut) {
            watched.bytes = size;
            watched.close(None);
        }
        watched
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
            // A connection that breaks in the same breath takes what is not yet written with it.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.cut == Some(0) {
            self.close(Some("truncated"));
            let error = io::Error::new(io::ErrorKind::ConnectionReset, "cut short by a rule");
            return Poll::Ready(Some(Err(error)));
        }
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => {
                let broken = self.cut.map(|_| "truncated");
                self.close(broken);
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                self.close(Some("reset"));
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(Some(Ok(frame))) => {
                let Ok(mut data) = frame.into_data() else {
                    return Poll::Ready(None);
                };
                if let Some(left) = &mut self.cut {
                    let take = usize::try_from(*left).unwrap_or(usize::MAX).min(data.len());
                    data.truncate(take);
                    *left -= take as u64;
                }
                if self.open.is_some() {
                    self.bytes += data.len() as u64;
                }
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        // The length is announced as if the body were whole, so that the cut shows.
        self.inner.size_hint()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.close(Some("abandoned"));
    }
}
