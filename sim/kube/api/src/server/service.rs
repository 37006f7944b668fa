//! The server as a tower service, for clients in the same process and for HTTP servers such as
//! hyper's.

use std::convert::Infallible;
use std::error::Error;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use kube_sim_store::Status;
use tower_service::Service as TowerService;

use crate::MAX_BODY_BYTES;
use crate::answer::{Body, Reply};
use crate::objects::Effects;
use crate::request::Client;
use crate::server::KubeApi;

/// One connection to an API server.
#[derive(Clone, Debug)]
pub struct Service {
    api: KubeApi,
    client: Client,
}

impl KubeApi {
    /// Returns a connection of `client` as a tower service.
    pub fn service(&self, client: Client) -> Service {
        Service { api: self.clone(), client }
    }
}

impl<B> TowerService<http::Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let Self { api, client } = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let reply = match read(body).await {
                Ok(body) => {
                    let (_, request) = api.classify(&parts, &body, &client);
                    api.handle(request, &Effects::default()).await
                }
                Err(why) => Reply::failure(&Status::new(500, "", why)),
            };
            Ok(reply.response)
        })
    }
}

/// Reads a body, up to the piece that exceeds [`MAX_BODY_BYTES`]. The server then refuses a
/// request that needs its body.
///
/// # Errors
/// The reason for which the body ends early.
async fn read<B>(body: B) -> Result<Bytes, String>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut body = pin!(body);
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| error.into().to_string())?;
        if let Ok(data) = frame.into_data() {
            all.extend_from_slice(&data);
        }
        if all.len() > MAX_BODY_BYTES {
            break;
        }
    }
    Ok(all.freeze())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use futures::stream;
    use http::StatusCode;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use serde_json::Value;

    use super::*;
    use crate::{Memory, Tokens};

    /// Sends a ConfigMap in these pieces, and returns code and message of the answer.
    async fn post(pieces: Vec<io::Result<Bytes>>) -> (StatusCode, String) {
        let objects = Arc::new(Memory::new(0, "2026-01-01T00:00:00Z".parse().unwrap()));
        let api = KubeApi::new(objects, Tokens::default());
        let mut service = api.service(Client { is_trusted: true, ..Client::default() });
        let pieces = pieces.into_iter().map(|piece| piece.map(Frame::data));
        let request = http::Request::post("/api/v1/namespaces/default/configmaps")
            .header("content-type", "application/json")
            .body(StreamBody::new(stream::iter(pieces)))
            .unwrap();
        let answer = service.call(request).await.unwrap();
        let code = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        (code, body["message"].as_str().unwrap_or_default().to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_in_pieces_creates_an_object() {
        let pieces = [r#"{"metadata":"#, r#"{"name":"colors"}}"#];
        let (code, message) = post(pieces.map(|it| Ok(it.into())).into()).await;
        assert_eq!((code.as_u16(), message.as_str()), (201, ""));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_beyond_the_limit_is_refused_with_413() {
        let mebibyte = || Ok(Bytes::from(vec![b' '; 1 << 20]));
        let (code, message) = post((0..5).map(|_| mebibyte()).collect()).await;
        let limit = "Request entity too large: limit is 3145728";
        assert_eq!((code.as_u16(), message.as_str()), (413, limit));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_breaks_off_is_answered_with_500() {
        let broken = Err(io::Error::other("connection reset"));
        let (code, message) = post(vec![Ok("{".into()), broken]).await;
        assert_eq!((code.as_u16(), message.as_str()), (500, "connection reset"));
    }
}
