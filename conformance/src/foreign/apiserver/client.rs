//! HTTP client of the real server: for the mirror, and for requests of providers that the sim
//! passes on.

use std::fmt;
use std::io;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use sim::Body;

/// Timeout of the requests that this program makes itself, which are small. It does not apply to
/// providers' requests.
const PATIENCE: Duration = Duration::from_secs(60);

/// Client of the real server, with the rights of its administrator. Clones share connections.
#[derive(Clone)]
pub(super) struct Client {
    kube: kube::Client,
    authorization: HeaderValue,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// Makes a client; must be called inside a tokio runtime. The client does not check the
    /// server's certificate, because the test server signs its own.
    pub(super) fn new(server: &str, token: &str) -> anyhow::Result<Self> {
        let url = server.parse().with_context(|| {
            format!(
                "{server:?} is not a valid URL of a real API server; expected one such as \
                 https://127.0.0.1:6443"
            )
        })?;
        let mut config = kube::Config::new(url);
        config.accept_invalid_certs = true;
        // The client must not repeat requests: a provider itself decides what to do about 429, 503
        // and 504.
        config.default_retry = false;
        let kube = kube::Client::try_from(config)
            .context("cannot make an HTTP client for the real API server")?;
        let mut authorization = HeaderValue::try_from(format!("Bearer {token}"))?;
        authorization.set_sensitive(true);
        Ok(Self { kube, authorization })
    }

    /// Sends a request with the administrator's token in place of its own.
    pub(super) async fn pass_on(&self, mut request: Request<Bytes>) -> io::Result<Response<Body>> {
        request.headers_mut().insert(AUTHORIZATION, self.authorization.clone());
        let request = request.map(|body| kube::client::Body::from(body.to_vec()));
        let response = self.kube.send(request).await.map_err(io::Error::other)?;
        Ok(response.map(|body| body.map_err(io::Error::other).boxed_unsync()))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        document: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let body = document.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json")
            .body(Bytes::from(body))?;
        let answered = async {
            let response = self.pass_on(request).await?;
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            anyhow::Ok((status, body))
        };
        let answered = tokio::time::timeout(PATIENCE, answered).await;
        let (status, body) =
            answered.unwrap_or_else(|late| Err(late.into())).with_context(|| {
                format!(
                    "the real API server does not answer the request for {path}; check that \
                     kube-apiserver still runs"
                )
            })?;
        let said = match serde_json::from_slice(&body) {
            Ok(said) => said,
            Err(bad) if status.is_success() => {
                bail!(
                    "the real API server answers the request for {path} with {status} and content \
                     that is not JSON: {bad}"
                )
            }
            // An overloaded server answers with text instead of JSON.
            Err(_) => json!({"message": String::from_utf8_lossy(&body)}),
        };
        Ok((status, said))
    }

    /// Returns an object, or `None` if it does not exist.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Option<Value>> {
        match self.send(Method::GET, path, None).await? {
            (StatusCode::OK, object) => Ok(Some(object)),
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (status, said) => bail!(refused("get", path, status, &said)),
        }
    }

    /// Returns all objects of a collection.
    pub(super) async fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        match self.send(Method::GET, path, None).await? {
            (StatusCode::OK, mut list) => match list["items"].take() {
                Value::Array(items) => Ok(items),
                _ => Ok(Vec::new()),
            },
            (status, said) => bail!(refused("list", path, status, &said)),
        }
    }

    /// Creates an object; returns `None` if an object of this name exists already.
    pub(super) async fn create(
        &self,
        collection: &str,
        object: &Value,
    ) -> anyhow::Result<Option<Value>> {
        match self.send(Method::POST, collection, Some(object)).await? {
            (StatusCode::CREATED, object) => Ok(Some(object)),
            (StatusCode::CONFLICT, _) => Ok(None),
            (status, said) => bail!(refused("create", collection, status, &said)),
        }
    }

    /// Replaces an object, and returns the new state. Returns `None` if the object's UID or version
    /// is not that of `object`, or if the object no longer exists.
    pub(super) async fn put(&self, path: &str, object: &Value) -> anyhow::Result<Option<Value>> {
        match self.send(Method::PUT, path, Some(object)).await? {
            (StatusCode::OK, object) => Ok(Some(object)),
            (StatusCode::CONFLICT | StatusCode::NOT_FOUND, _) => Ok(None),
            (status, said) => bail!(refused("replace", path, status, &said)),
        }
    }

    /// Deletes an object. Does nothing if the object does not exist or, with `uid`, has another
    /// UID.
    pub(super) async fn delete(&self, path: &str, uid: Option<&str>) -> anyhow::Result<()> {
        let mut how = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if let Some(uid) = uid {
            how["preconditions"] = json!({"uid": uid});
        }
        match self.send(Method::DELETE, path, Some(&how)).await? {
            (it, _) if it.is_success() => Ok(()),
            (StatusCode::CONFLICT | StatusCode::NOT_FOUND, _) => Ok(()),
            (status, said) => bail!(refused("delete", path, status, &said)),
        }
    }
}

fn refused(what: &str, path: &str, status: StatusCode, said: &Value) -> String {
    let message = said["message"].as_str().unwrap_or_default();
    format!("the real API server rejects the request to {what} {path} with {status}: {message}")
}
