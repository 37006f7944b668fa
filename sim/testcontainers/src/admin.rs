//! A client of sim's admin port.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::endpoints::Told;
use crate::{Armed, Clock, Counts, Error, Record, Rule, World};

/// Timeout of a request. sim usually answers at once, but a large ledger takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Client of the admin port of one sim. The ledger does not record its requests, and fault rules do
/// not match them.
///
/// Every request may fail with [`Error::Silent`], [`Error::Refused`] or [`Error::Unknown`].
#[derive(Clone)]
pub struct Admin {
    base: String,
    token: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// Omits the bearer token, which is a secret.
impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").field("base", &self.base).finish_non_exhaustive()
    }
}

/// Body of an answer with which sim refuses a request.
#[derive(Deserialize)]
struct Complaint {
    error: String,
    remedy: String,
}

impl Admin {
    pub(crate) fn new(base: String, token: String) -> Self {
        Self { base, token, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// URL of the admin port, `http://HOST:PORT`, for other clients.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Bearer token that other clients have to send.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns the numbers of calls per server and operation. The ledger drops its oldest records
    /// above `--ledger-memory` (default 128 MiB), and their calls do not count.
    pub async fn counts(&self) -> Result<Counts, Error> {
        self.read("/ledger?format=counts").await
    }

    /// Returns the records of the ledger with a sequence number of at least `since`, except those
    /// that the ledger has dropped.
    pub async fn ledger(&self, since: u64) -> Result<Vec<Record>, Error> {
        let path = format!("/ledger?since={since}");
        let text = self.call(Method::GET, &path, None).await?;
        let records = text.lines().map(|line| parsed(&path, line));
        records.collect()
    }

    /// Adds a fault rule, in force from the next call on. The admin port refuses an invalid rule,
    /// and one whose id another rule in force has.
    pub async fn add(&self, rule: Rule) -> Result<(), Error> {
        self.add_all(&[rule]).await
    }

    /// Adds fault rules, all of them or none, in force from the next call on.
    pub async fn add_all(&self, rules: &[Rule]) -> Result<(), Error> {
        self.add_document(&rules).await
    }

    /// Adds the rules of a document in the form that `sim fault add` takes, all of them or none: a
    /// list of rules, and of names of known failures.
    pub async fn add_document(&self, document: &impl Serialize) -> Result<(), Error> {
        self.call(Method::POST, "/faults", Some(json!(document))).await.map(drop)
    }

    /// Adds a failure of sim's catalogue by its name, such as `conversion-webhook-down`;
    /// `sim fault known` lists the names.
    pub async fn add_known(&self, name: &str) -> Result<(), Error> {
        self.add_document(&[name]).await
    }

    /// Returns the active fault rules, each with its counters.
    pub async fn faults(&self) -> Result<Vec<Armed>, Error> {
        self.read("/faults").await
    }

    /// Removes every fault rule.
    pub async fn heal(&self) -> Result<(), Error> {
        self.call(Method::DELETE, "/faults", None).await.map(drop)
    }

    /// Removes the fault rule with this id. The admin port refuses an unknown id.
    pub async fn remove(&self, id: &str) -> Result<(), Error> {
        self.call(Method::DELETE, &format!("/faults/{id}"), None).await.map(drop)
    }

    /// Applies an event to the world, such as `json!({"vm.powerOff": "node-0001"})`, or a list of
    /// events in order. World events of a list happen all at one moment, or none of them. If a list
    /// with events of the Supervisor fails, a part of it may have happened. Returns sim's answer,
    /// for a list one answer per event: the number of changes, and the `id` or `reference` of a new
    /// object.
    pub async fn happen(&self, event: &impl Serialize) -> Result<Value, Error> {
        let path = "/world/events";
        let text = self.call(Method::POST, path, Some(json!(event))).await?;
        parsed(path, &text)
    }

    /// Returns the seed and the machines of the world.
    pub async fn world(&self) -> Result<World, Error> {
        self.read("/world").await
    }

    /// Returns the current time of the world.
    pub async fn clock(&self) -> Result<Clock, Error> {
        self.read("/clock").await
    }

    pub(crate) async fn told(&self) -> Result<Told, Error> {
        self.read("/endpoints").await
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        parsed(path, &self.call(Method::GET, path, None).await?)
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<String, Error> {
        let silent = |source: Box<dyn std::error::Error + Send + Sync>| Error::Silent {
            method: method.clone(),
            path: path.to_owned(),
            base: self.base.clone(),
            source,
        };
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request = http::Request::builder()
            .method(&method)
            .uri(format!("{}{path}", self.base))
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| silent(error.into()))?;
        let exchange = async {
            let response =
                self.client.request(request).await.map_err(|error| silent(error.into()))?;
            let status = response.status();
            let body =
                response.into_body().collect().await.map_err(|error| silent(error.into()))?;
            Ok((status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
        };
        let (status, text) = tokio::time::timeout(PATIENCE, exchange)
            .await
            .unwrap_or_else(|late| Err(silent(late.into())))?;
        if status.is_success() {
            return Ok(text);
        }
        Err(refused(method, path, status, text))
    }
}

fn refused(method: Method, path: &str, status: StatusCode, text: String) -> Error {
    let Complaint { error, remedy } = serde_json::from_str(&text)
        .unwrap_or(Complaint { error: text, remedy: "check that a sim listens there".to_owned() });
    Error::Refused { method, path: path.to_owned(), status, error, remedy }
}

fn parsed<T: DeserializeOwned>(path: &str, text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|source| Error::Unknown { path: path.to_owned(), source })
}
