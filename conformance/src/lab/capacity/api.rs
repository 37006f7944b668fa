//! A small client of a Kubernetes API server for objects of any kind.

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::Value;

/// A client of an API server. Clones share connections.
#[derive(Clone)]
pub struct Api(kube::Client);

/// Failure of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{method} {path}: {message}")]
pub struct ApiError {
    /// HTTP status; `None` without an answer.
    pub status: Option<u16>,
    method: Method,
    path: String,
    message: String,
}

impl ApiError {
    /// True if the object has changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.status == Some(409)
    }

    /// True if the object or its kind does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status == Some(404)
    }
}

impl Api {
    /// Wraps a client that has credentials.
    pub fn new(client: kube::Client) -> Self {
        Self(client)
    }

    /// Returns an object or a list.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.send(Method::GET, path, None).await
    }

    /// Creates an object in a collection, and returns it.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn create(&self, collection: &str, object: &Value) -> Result<Value, ApiError> {
        self.send(Method::POST, collection, Some(object)).await
    }

    /// Applies a merge patch, and returns the object.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn patch(&self, path: &str, patch: &Value) -> Result<Value, ApiError> {
        self.send(Method::PATCH, path, Some(patch)).await
    }

    /// Replaces an object, and returns it.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn replace(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        self.send(Method::PUT, path, Some(object)).await
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn delete(&self, path: &str) -> Result<(), ApiError> {
        self.send(Method::DELETE, path, None).await.map(drop)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ApiError> {
        let failure = |status: Option<StatusCode>, message: String| ApiError {
            status: status.map(|it| it.as_u16()),
            method: method.clone(),
            path: path.to_owned(),
            message,
        };
        let content_type = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = body.map(|it| it.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder()
            .method(&method)
            .uri(path)
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, content_type)
            .body(kube::client::Body::from(body))
            .map_err(|err| failure(None, err.to_string()))?;
        let response = self.0.send(request).await.map_err(|err| failure(None, err.to_string()))?;
        let status = response.status();
        let body = response.into_body().collect().await;
        let body: Bytes = body.map_err(|err| failure(None, err.to_string()))?.to_bytes();
        let content: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status.is_success() {
            return Ok(content);
        }
        let message = content["message"].as_str().map_or_else(|| status.to_string(), str::to_owned);
        Err(failure(Some(status), message))
    }
}

/// Applies a merge patch to a value.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.as_object_mut().and_then(|it| it.remove(key));
            }
            value => merge(&mut target[key.as_str()], value),
        }
    }
}
