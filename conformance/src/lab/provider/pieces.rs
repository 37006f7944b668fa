//! Splits the bodies of answers into pieces, as a connection does. A service in the same process
//! would deliver each body whole.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use tower::util::MapResponse;

/// Maximum length of a piece, in bytes.
const LONGEST: usize = 16 << 10;

/// A body whose data comes in pieces.
#[derive(Debug)]
pub(super) struct Pieces<B> {
    inner: B,
    /// Rest of the inner body's last frame, which this body has not delivered yet.
    rest: Bytes,
}

/// A service whose answers have bodies in pieces.
pub(super) type ChunkedService<S, B> = MapResponse<S, fn(Response<B>) -> Response<Pieces<B>>>;

/// Wraps a service so that the bodies of its answers come in pieces.
pub(super) fn chunked<S, B>(service: S) -> ChunkedService<S, B> {
    MapResponse::new(service, in_pieces::<B>)
}

fn in_pieces<B>(response: Response<B>) -> Response<Pieces<B>> {
    response.map(|inner| Pieces { inner, rest: Bytes::new() })
}

impl<B: Body<Data = Bytes> + Unpin> Body for Pieces<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if self.rest.is_empty() {
            match Pin::new(&mut self.inner).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if data.len() > LONGEST => self.rest = data,
                    Ok(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return other,
            }
        }
        let n = LONGEST.min(self.rest.len());
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(n)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let inner = self.inner.size_hint();
        let rest = self.rest.len() as u64;
        let mut hint = SizeHint::new();
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(inner.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};

    use super::*;

    #[tokio::test]
    async fn a_long_body_comes_in_pieces_and_a_short_one_whole() {
        for (length, pieces) in [(0, vec![]), (5, vec![5]), (LONGEST, vec![LONGEST])]
            .into_iter()
            .chain([(2 * LONGEST + 1, vec![LONGEST, LONGEST, 1])])
        {
            let text = Bytes::from(vec![b'a'; length]);
            let mut body = in_pieces(Response::new(Full::new(text))).into_body();
            let mut found = Vec::new();
            while let Some(frame) = body.frame().await {
                let left = body.size_hint().exact();
                found.push(frame.unwrap().into_data().unwrap().len());
                assert_eq!(left, Some((length - found.iter().sum::<usize>()) as u64));
            }
            assert_eq!(found, pieces);
            assert!(body.is_end_stream());
        }
    }
}
