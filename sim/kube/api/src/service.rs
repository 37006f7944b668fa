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

use super::{Body, Client, Effects, KubeApi, MAX_BODY_BYTES, Reply};

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

/// Reads a body, up to the piece that exceeds [`MAX_BODY_BYTES`]. The server then refuses it.
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
