//! Sends single calls over one HTTP/2 connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::AbortOnDropHandle;

const SERVICE: &str = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider";

/// A connection to a server for autoscalers.
#[derive(Clone, Debug)]
pub struct Channel {
    sender: SendRequest<Full<Bytes>>,
    /// The task that drives the connection; it ends with the last clone of the channel.
    _driver: Arc<AbortOnDropHandle<()>>,
}

/// Failure of a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("code {code}: {message}")]
pub struct CallError {
    /// gRPC status code.
    pub code: i32,
    /// Message of the status, or what was wrong with the answer.
    pub message: String,
}

/// Code of a failure that the client itself found: no answer, or an answer that is no gRPC.
const UNKNOWN: i32 = 2;
/// Code of a call that took too long.
const DEADLINE_EXCEEDED: i32 = 4;

impl CallError {
    fn own(message: impl ToString) -> Self {
        Self { code: UNKNOWN, message: message.to_string() }
    }
}

impl Channel {
    /// Opens the connection over a stream. A task of the current runtime drives it until the last
    /// clone of the channel is dropped.
    ///
    /// # Errors
    ///
    /// If the other side does not speak HTTP/2.
    pub async fn open<S>(stream: S) -> Result<Self, CallError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .handshake(TokioIo::new(stream))
            .await
            .map_err(CallError::own)?;
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender, _driver: Arc::new(AbortOnDropHandle::new(driver)) })
    }

    /// Calls a method with this deadline.
    ///
    /// # Errors
    ///
    /// The status of the answer if it is not OK; code 4 after the deadline; code 2 if the answer is
    /// no gRPC answer.
    pub async fn call<A: Message + Default>(
        &self,
        method: &str,
        request: &impl Message,
        deadline: Duration,
    ) -> Result<A, CallError> {
        let answer = tokio::time::timeout(deadline, self.exchange(method, request, deadline)).await;
        answer.unwrap_or_else(|_| {
            let message = format!("{method} was not answered within {deadline:?}");
            Err(CallError { code: DEADLINE_EXCEEDED, message })
        })
    }

    async fn exchange<A: Message + Default>(
        &self,
        method: &str,
        request: &impl Message,
        deadline: Duration,
    ) -> Result<A, CallError> {
        let request = Request::post(format!("http://autoscaler/{SERVICE}/{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("grpc-timeout", format!("{}u", deadline.as_micros()))
            .body(Full::new(framed(request)))
            .map_err(CallError::own)?;
        let response = self.sender.clone().send_request(request).await.map_err(CallError::own)?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(CallError::own)?;
        // An answer without message has its status among the headers.
        let status = status(&head.headers).or_else(|| body.trailers().and_then(status));
        match status {
            Some(CallError { code: 0, .. }) => unframed(body.to_bytes()),
            Some(error) => Err(error),
            None => Err(CallError::own("the answer has no grpc-status")),
        }
    }
}

fn status(headers: &HeaderMap) -> Option<CallError> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let message = headers.get("grpc-message").and_then(|it| it.to_str().ok()).unwrap_or_default();
    Some(CallError { code, message: message.replace("%20", " ").replace("%22", "\"") })
}

/// Returns the message behind its length, uncompressed.
fn framed(message: &impl Message) -> Bytes {
    let content = message.encode_to_vec();
    let mut frame = BytesMut::with_capacity(content.len() + 5);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(content.len()).unwrap_or(u32::MAX));
    frame.put_slice(&content);
    frame.freeze()
}

fn unframed<A: Message + Default>(mut body: Bytes) -> Result<A, CallError> {
    if body.len() < 5 || body.get_u8() != 0 {
        return Err(CallError::own("the answer has no uncompressed message"));
    }
    let length = body.get_u32() as usize;
    if length != body.len() {
        return Err(CallError::own("the length of the answer's message is wrong"));
    }
    A::decode(body).map_err(CallError::own)
}
