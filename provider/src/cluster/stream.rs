//! Reads the events of one watch, one line of JSON each. Also encodes texts for a query.

use std::time::Duration;

use bytes::BytesMut;
use http_body_util::BodyExt as _;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::ClusterError;

const MAX_LINE: usize = 16 * 1024 * 1024;

/// Result of waiting for an event.
#[derive(Debug)]
pub(crate) enum WatchItem {
    /// A complete event.
    Event(Value),
    /// No data within the time to wait.
    Nothing,
    /// The server ended the watch.
    End,
}

/// Reader of the events in the body of a watch.
pub(crate) struct WatchEvents {
    path: String,
    body: kube::client::Body,
    buffer: BytesMut,
    /// Length of the part of the buffer, from its start, that contains no line end.
    n_searched: usize,
}

impl WatchEvents {
    /// Reads events from `body`; `path` is the path of the watch, for errors.
    pub(crate) fn new(path: String, body: kube::client::Body) -> Self {
        Self { path, body, buffer: BytesMut::new(), n_searched: 0 }
    }

    /// Returns the next event; waits up to `patience` for each piece of the body.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// If the connection breaks, a line is not JSON, or more than 16 MiB of the body wait to be
    /// read as lines.
    pub(crate) async fn next(&mut self, patience: Duration) -> Result<WatchItem, ClusterError> {
        loop {
            while let Some(line) = self.take_line() {
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                let event = serde_json::from_slice(&line);
                return event.map(WatchItem::Event).map_err(|err| self.malformed(err.to_string()));
            }
            let Ok(frame) = tokio::time::timeout(patience, self.body.frame()).await else {
                return Ok(WatchItem::Nothing);
            };
            let Some(frame) = frame else { return Ok(WatchItem::End) };
            let frame = frame.map_err(|source| ClusterError::Transport {
                method: http::Method::GET,
                path: self.path.clone(),
                source: Box::new(source),
            })?;
            let Ok(data) = frame.into_data() else { continue };
            self.buffer.extend_from_slice(&data);
            if self.buffer.len() > MAX_LINE {
                return Err(self.malformed("a line is longer than 16 MiB".to_owned()));
            }
        }
    }

    fn take_line(&mut self) -> Option<BytesMut> {
        let end = self.buffer[self.n_searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end else {
            self.n_searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.n_searched + end + 1);
        self.n_searched = 0;
        Some(line)
    }

    fn malformed(&self, what: String) -> ClusterError {
        ClusterError::Malformed { path: self.path.clone(), what }
    }
}

/// Bytes that [`encode`] replaces: all except the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Percent-encodes a text for a query.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures::StreamExt as _;
    use http_body_util::StreamBody;

    use super::*;

    /// A watch whose body arrives in the given pieces.
    async fn watch(pieces: &'static [&'static str]) -> WatchEvents {
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
            let frame = |text: &&'static str| {
                let data = Bytes::from_static(text.as_bytes());
                Ok::<_, Infallible>(hyper::body::Frame::data(data))
            };
            let frames = futures::stream::iter(pieces.iter().map(frame)).boxed();
            Ok::<_, Infallible>(http::Response::new(StreamBody::new(frames)))
        });
        let client = kube::Client::new(service, "default");
        let request = http::Request::new(kube::client::Body::empty());
        WatchEvents::new("/x".to_owned(), client.send(request).await.unwrap().into_body())
    }

    async fn heard(events: &mut WatchEvents) -> String {
        match events.next(Duration::from_secs(1)).await {
            Ok(WatchItem::Event(event)) => event.to_string(),
            other => format!("{other:?}").chars().take(16).collect(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn watch_events_are_read_regardless_of_chunk_boundaries() {
        for (name, pieces) in [
            ("at once", &["{\"a\":1}\n{\"a\":2}\n"][..]),
            ("one by one", &["{\"a\":1}\n", "{\"a\":2}\n"]),
            ("in the middle", &["{\"a", "\":1}\n{\"a\":", "2}", "\n"]),
            ("with blank lines", &["\n", "{\"a\":1}\n \r\n{\"a\":2}\n\n"]),
        ] {
            let mut events = watch(pieces).await;
            assert_eq!(heard(&mut events).await, "{\"a\":1}", "{name}");
            assert_eq!(heard(&mut events).await, "{\"a\":2}", "{name}");
            assert_eq!(heard(&mut events).await, "Ok(End)", "{name}");
        }
        let mut events = watch(&["{\"a\":1\n{\"a\":2}\n"]).await;
        assert_eq!(heard(&mut events).await, "Err(Malformed { ");
        assert_eq!(heard(&mut events).await, "{\"a\":2}", "the next line is valid");
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_without_end_is_refused() {
        let half: &'static str = "x".repeat(MAX_LINE / 2 + 1).leak();
        let pieces: &'static [&'static str] = Box::leak(Box::new([half, half, half]));
        let mut events = watch(pieces).await;
        let Err(ClusterError::Malformed { what, .. }) = events.next(Duration::from_secs(1)).await
        else {
            panic!("the line was accepted");
        };
        assert_eq!(what, "a line is longer than 16 MiB");
    }

    #[test]
    fn texts_are_encoded_for_queries() {
        assert_eq!(encode("a-Z_9.~"), "a-Z_9.~");
        assert_eq!(encode("a=b,c/d é"), "a%3Db%2Cc%2Fd%20%C3%A9");
    }
}
