//! Reads request bodies. Limits their size, their time to arrive, and the memory of all unfinished
//! bodies of one [`BodyReader`].

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;

/// Maximum time for a body to arrive: 60 s. A kube-apiserver allows a whole request the same time.
const DEADLINE: Duration = Duration::from_secs(60);

/// Maximum number of bytes in all unfinished bodies of one [`BodyReader`] together: 256 MiB.
const TOTAL: usize = 256 << 20;

/// Reason why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// The body is larger than this many bytes.
    TooLarge(usize),
    /// The body did not arrive within [`DEADLINE`].
    TooSlow,
    /// With this body, unfinished bodies would hold more than [`TOTAL`] bytes.
    Crowded,
    /// The body breaks off, or violates HTTP; or the head of the request lacks the host. Holds the
    /// reason.
    Broken(String),
}

impl BodyError {
    /// Returns the text that tells the client why the sim cannot read the body.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::TooLarge(limit) => format!("the body is larger than {limit} bytes"),
            Self::TooSlow => format!("the body did not arrive within {} s", DEADLINE.as_secs()),
            Self::Crowded => {
                format!("unfinished requests already hold {} MiB; retry later", TOTAL >> 20)
            }
            Self::Broken(why) => format!("the request cannot be read: {why}"),
        }
    }
}

/// Limit of the size of a body. A client that is logged in may have a larger limit.
pub(crate) struct Limit<F> {
    /// Maximum number of bytes from a client that is not logged in.
    pub(crate) open: usize,
    /// Maximum number of bytes from a client for which `is_known` returns true, if larger than
    /// `open`.
    pub(crate) known: usize,
    /// Returns true if the client is logged in. Called at most once, when the body is larger than
    /// `open`.
    pub(crate) is_known: F,
    /// True if the reader cuts a larger body after the piece that exceeds the limit, instead of
    /// refusing it. The handler can then refuse the body in its own format.
    pub(crate) cuts: bool,
}

/// Reader of request bodies that counts the bytes of unfinished ones. Clones share the count. A sim
/// has one reader for all vCenters, one per API server, and one for the admin port.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyReader {
    held: Arc<AtomicUsize>,
}

/// Number of bytes of one unfinished body in the count of its [`BodyReader`]; subtracted on drop.
struct Share<'a> {
    held: &'a AtomicUsize,
    bytes: usize,
}

impl Share<'_> {
    fn grow(&mut self, bytes: usize) -> Result<(), BodyError> {
        self.bytes += bytes;
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > TOTAL { Err(BodyError::Crowded) } else { Ok(()) }
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl BodyReader {
    /// Reads a body.
    ///
    /// Cancel safe: if the future is dropped, the reader drops the bytes of the body and no longer
    /// counts them.
    ///
    /// # Errors
    /// [`BodyError`] if the body is too large, too slow or broken, or if unfinished bodies hold too
    /// much memory.
    pub(crate) async fn read<B>(
        &self,
        body: B,
        limit: Limit<impl FnOnce() -> bool>,
    ) -> Result<Bytes, BodyError>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let read = tokio::time::timeout(DEADLINE, self.read_whole(body, limit));
        read.await.unwrap_or(Err(BodyError::TooSlow))
    }

    async fn read_whole<B>(
        &self,
        body: B,
        limit: Limit<impl FnOnce() -> bool>,
    ) -> Result<Bytes, BodyError>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Limit { open, known, is_known, cuts } = limit;
        let (mut most, mut is_known) = (open, Some(is_known));
        let mut body = pin!(body);
        let mut all = BytesMut::new();
        let mut share = Share { held: &self.held, bytes: 0 };
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|error| BodyError::Broken(innermost(error.into().as_ref())))?;
            let Ok(data) = frame.into_data() else { continue };
            // A body of one piece is not copied.
            if all.is_empty() && body.is_end_stream() && data.len() <= most {
                return Ok(data);
            }
            share.grow(data.len())?;
            all.extend_from_slice(&data);
            if all.len() > most && is_known.take().is_some_and(|is_known| is_known()) {
                most = most.max(known);
            }
            if all.len() > most {
                return if cuts { Ok(all.freeze()) } else { Err(BodyError::TooLarge(most)) };
            }
        }
        Ok(all.freeze())
    }
}

/// Message of the innermost source of an error.
fn innermost(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{FutureExt as _, StreamExt as _, stream};
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    type Piece = Result<Frame<Bytes>, Infallible>;

    fn pieces(n: usize, bytes: usize) -> impl futures::Stream<Item = Piece> + Send {
        stream::iter((0..n).map(move |_| Ok(Frame::data(Bytes::from(vec![b'x'; bytes])))))
    }

    fn limit(open: usize, known: usize, is_known: bool) -> Limit<impl FnOnce() -> bool> {
        Limit { open, known, is_known: move || is_known, cuts: false }
    }

    #[tokio::test]
    async fn a_client_that_is_not_logged_in_has_a_smaller_body_limit() {
        let inbox = BodyReader::default();
        let read = |n, is_known| {
            let body = StreamBody::new(pieces(n, 10));
            inbox.read(body, limit(25, 45, is_known)).map(|read| read.map(|body| body.len()))
        };
        assert_eq!(read(2, false).await, Ok(20));
        assert_eq!(read(3, false).await, Err(BodyError::TooLarge(25)));
        assert_eq!(read(4, true).await, Ok(40));
        assert_eq!(read(5, true).await, Err(BodyError::TooLarge(45)));
        let cut = Limit { cuts: true, ..limit(25, 25, false) };
        assert_eq!(
            inbox.read(StreamBody::new(pieces(9, 10)), cut).await.map(|it| it.len()),
            Ok(30)
        );
        assert_eq!(inbox.held.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_endless_body_times_out_and_its_memory_is_released() {
        let inbox = BodyReader::default();
        let body = StreamBody::new(pieces(3, 1000).chain(stream::pending()));
        let mut read = pin!(inbox.read(body, limit(1 << 20, 1 << 20, false)));
        assert_eq!((&mut read).now_or_never(), None);
        assert_eq!(inbox.held.load(Ordering::Relaxed), 3000);
        assert_eq!(read.await, Err(BodyError::TooSlow));
        assert_eq!(inbox.held.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_bodies_hold_no_more_than_the_total() {
        let inbox = BodyReader::default();
        let endless = || StreamBody::new(pieces(16, 1 << 20).chain(stream::pending()));
        let most = || limit(32 << 20, 32 << 20, false);
        let mut reads: Vec<_> = (0..16).map(|_| inbox.read(endless(), most()).boxed()).collect();
        for read in &mut reads {
            assert_eq!(read.now_or_never(), None);
        }
        assert_eq!(inbox.held.load(Ordering::Relaxed), TOTAL);
        assert_eq!(inbox.read(endless(), most()).await, Err(BodyError::Crowded));
        reads.pop();
        let small = StreamBody::new(pieces(2, 10));
        assert_eq!(inbox.read(small, most()).await.map(|body| body.len()), Ok(20));
    }
}
