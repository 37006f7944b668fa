//! Sends single calls over one HTTP/2 connection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures::future::BoxFuture;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use percent_encoding::percent_decode_str;
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::AbortOnDropHandle;

pub(super) const SERVICE: &str = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider";

/// A connection to a server for autoscalers.
#[derive(Clone)]
pub struct Channel(Transport);

#[derive(Clone)]
enum Transport {
    Http2 {
        sender: SendRequest<Full<Bytes>>,
        /// The task that drives the connection; it ends with the last clone of the channel.
        _driver: Arc<AbortOnDropHandle<()>>,
    },
    Memory(Server),
}

/// A server in this process: returns the serialized answer to a path and a serialized request.
pub(super) type Server =
    Arc<dyn Fn(String, Bytes) -> BoxFuture<'static, Result<Bytes, CallError>> + Send + Sync>;

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Channel")
    }
}

/// Failure of a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("code {code}: {message}")]
pub struct CallError {
    /// gRPC status code.
    pub code: i32,
    /// Message of the status, or what was wrong with the answer.
    pub message: String,
    /// True if the server answered with this status; false if the client found the failure.
    pub is_answer: bool,
}

/// Code of a failure that the client itself found: no answer, or an answer that is no gRPC.
const UNKNOWN: i32 = 2;
/// Code of a call that took too long.
const DEADLINE_EXCEEDED: i32 = 4;

impl CallError {
    /// A failure that the client found before it sent a call.
    pub fn local(message: impl Into<String>) -> Self {
        Self { code: UNKNOWN, message: message.into(), is_answer: false }
    }

    /// A failure by a deadline that the client itself found.
    pub fn late(of: &str) -> Self {
        let message = format!("{of} took longer than the deadline");
        Self { code: DEADLINE_EXCEEDED, message, is_answer: false }
    }

    /// The status with which a server failed a call.
    pub(super) fn status(code: i32, message: String) -> Self {
        Self { code, message, is_answer: true }
    }

    pub(super) fn own(message: impl ToString) -> Self {
        Self::local(message.to_string())
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
        let driver = Arc::new(AbortOnDropHandle::new(driver));
        Ok(Self(Transport::Http2 { sender, _driver: driver }))
    }

    /// Creates a connection that calls a server in this process, without HTTP.
    pub(super) fn in_memory(server: Server) -> Self {
        Self(Transport::Memory(server))
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
        let path = format!("/{SERVICE}/{method}");
        let answer = self.call_path(&path, request.encode_to_vec().into(), deadline).await?;
        A::decode(answer).map_err(CallError::own)
    }

    /// Calls the method at this path with a serialized request, and returns the serialized answer.
    ///
    /// # Errors
    ///
    /// As [`Self::call`].
    pub async fn call_path(
        &self,
        path: &str,
        request: Bytes,
        deadline: Duration,
    ) -> Result<Bytes, CallError> {
        let answer = tokio::time::timeout(deadline, self.exchange(path, &request, deadline)).await;
        answer.unwrap_or_else(|_| {
            let message = format!("{path} was not answered within {deadline:?}");
            Err(CallError { code: DEADLINE_EXCEEDED, message, is_answer: false })
        })
    }

    async fn exchange(
        &self,
        path: &str,
        request: &[u8],
        deadline: Duration,
    ) -> Result<Bytes, CallError> {
        let sender = match &self.0 {
            Transport::Memory(server) => {
                return server(path.to_owned(), Bytes::copy_from_slice(request)).await;
            }
            Transport::Http2 { sender, .. } => sender,
        };
        let request = Request::post(format!("http://autoscaler{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("grpc-timeout", timeout(deadline))
            .body(Full::new(framed(request)))
            .map_err(CallError::own)?;
        let response = sender.clone().send_request(request).await.map_err(CallError::own)?;
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

/// Returns the deadline in the format of gRPC: at most eight digits and a unit.
fn timeout(deadline: Duration) -> String {
    match deadline.as_micros() {
        micros @ 0..=99_999_999 => format!("{micros}u"),
        micros => format!("{}m", (micros / 1000).min(99_999_999)),
    }
}

fn status(headers: &HeaderMap) -> Option<CallError> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let message = headers.get("grpc-message").and_then(|it| it.to_str().ok()).unwrap_or_default();
    let message = percent_decode_str(message).decode_utf8_lossy().into_owned();
    Some(CallError { code, message, is_answer: true })
}

/// Returns the message behind its length, uncompressed.
pub(super) fn framed(content: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(content.len() + 5);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(content.len()).unwrap_or(u32::MAX));
    frame.put_slice(content);
    frame.freeze()
}

/// Returns the only message of a body.
pub(super) fn unframed(mut body: Bytes) -> Result<Bytes, CallError> {
    if body.len() < 5 || body.get_u8() != 0 {
        return Err(CallError::own("the body has no uncompressed message"));
    }
    let length = body.get_u32() as usize;
    if length != body.len() {
        return Err(CallError::own("the length of the message is wrong"));
    }
    Ok(body)
}
