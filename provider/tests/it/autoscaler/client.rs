//! A client of the autoscaler's protocol over a pipe.

use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message;
use tokio::io::DuplexStream;

/// Deadline of the autoscaler's calls.
const DEADLINE: Duration = Duration::from_secs(5);

/// A connection to the server.
pub(super) struct Channel(SendRequest<Full<Bytes>>);

impl Channel {
    pub(super) async fn open(stream: DuplexStream) -> Self {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(async move { drop(connection.await) });
        Self(sender)
    }

    /// Calls a method. An error is the code of the answer and its message.
    pub(super) async fn call<A: Message + Default>(
        &self,
        method: &str,
        request: impl Message,
    ) -> Result<A, (i32, String)> {
        let content = request.encode_to_vec();
        let mut frame = BytesMut::new();
        frame.put_u8(0);
        frame.put_u32(u32::try_from(content.len()).unwrap());
        frame.put_slice(&content);
        let request = Request::post(format!("http://server/{}/{method}", externalgrpc::SERVICE))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("grpc-timeout", format!("{}m", DEADLINE.as_millis()))
            .body(Full::new(frame.freeze()))
            .unwrap();
        let exchange = async {
            let (head, body) = self.0.clone().send_request(request).await.unwrap().into_parts();
            let body = body.collect().await.unwrap();
            let (code, message) =
                status(&head.headers).or_else(|| body.trailers().and_then(status)).unwrap();
            if code != 0 {
                return Err((code, message));
            }
            let mut bytes = body.to_bytes();
            bytes.advance(5);
            Ok(A::decode(bytes).unwrap())
        };
        tokio::time::timeout(DEADLINE, exchange).await.expect("the server answers in time")
    }
}

fn status(headers: &HeaderMap) -> Option<(i32, String)> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let message = headers.get("grpc-message").and_then(|it| it.to_str().ok()).unwrap_or_default();
    let message = percent_encoding::percent_decode_str(message).decode_utf8_lossy().into_owned();
    Some((code, message))
}
