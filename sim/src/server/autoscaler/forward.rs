//! Sends calls to the server behind the face, over one HTTP/2 connection that is opened when needed.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Uri, header, response, uri};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;

/// A connection to a server.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// Connects to the server behind the face `grpc.ca`.
pub type Dial = Arc<dyn Fn() -> BoxFuture<'static, io::Result<Box<dyn Io>>> + Send + Sync>;

/// An open connection, and the task that drives it.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    _driver: AbortOnDropHandle<()>,
}

/// Answer of the server.
pub(super) struct ForwardedAnswer {
    pub(super) head: response::Parts,
    pub(super) body: Bytes,
    pub(super) trailers: Option<HeaderMap>,
}

/// Reason why a call has no answer.
#[derive(Debug)]
pub(super) enum ForwardError {
    /// The sim has no connection to the server.
    Connect(String),
    /// The server, or the connection to it, ended the call without an answer.
    Call(String),
}

impl fmt::Display for ForwardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = format_args!("the server behind {}", super::AUTOSCALER);
        match self {
            Self::Connect(why) => write!(f, "the sim cannot reach {server}: {why}"),
            Self::Call(why) => write!(f, "{server} did not answer a call: {why}"),
        }
    }
}

pub(super) struct Forward {
    dial: Dial,
    connection: Mutex<Option<Connection>>,
}

impl Forward {
    pub(super) fn new(dial: Dial) -> Self {
        Self { dial, connection: Mutex::new(None) }
    }

    /// Sends a request, and returns the whole answer. Dropping the future cancels the call at the
    /// server.
    pub(super) async fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<ForwardedAnswer, ForwardError> {
        let failed = |err: hyper::Error| ForwardError::Call(chain(&err));
        let connected = self.sender().await;
        let mut sender = connected.map_err(|err| ForwardError::Connect(err.to_string()))?;
        let request = forwarded(request).map_err(ForwardError::Call)?;
        let (head, body) = sender.send_request(request).await.map_err(failed)?.into_parts();
        let body = body.collect().await.map_err(failed)?;
        let trailers = body.trailers().cloned();
        Ok(ForwardedAnswer { head, body: body.to_bytes(), trailers })
    }

    /// Returns the open connection, or opens one.
    async fn sender(&self) -> io::Result<SendRequest<Full<Bytes>>> {
        let mut connection = self.connection.lock().await;
        if let Some(open) = connection.as_ref().filter(|it| !it.sender.is_closed()) {
            return Ok(open.sender.clone());
        }
        let stream = TokioIo::new((self.dial)().await?);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let handshake = builder.timer(TokioTimer::new()).handshake(stream);
        let (sender, driver) = handshake.await.map_err(io::Error::other)?;
        let driver = tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "the connection to the server of autoscalers ended");
            }
        });
        let driver = AbortOnDropHandle::new(driver);
        *connection = Some(Connection { sender: sender.clone(), _driver: driver });
        Ok(sender)
    }
}

/// Returns the request for the server behind: the same call, without what belongs to the connection.
fn forwarded(request: http::Request<Bytes>) -> Result<http::Request<Full<Bytes>>, String> {
    let (mut head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", uri::PathAndQuery::as_str);
    let uri = Uri::builder().scheme("http").authority(super::AUTOSCALER).path_and_query(path);
    head.uri = uri.build().map_err(|err| err.to_string())?;
    head.version = http::Version::HTTP_2;
    for name in [header::HOST, header::CONNECTION, header::CONTENT_LENGTH] {
        head.headers.remove(name);
    }
    Ok(http::Request::from_parts(head, Full::new(body)))
}

/// Returns an error with its causes.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |it| it.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
