//! One request to the API server: pace, deadline, `Retry-After`, and errors that name the cause.

use std::{sync::Arc, time::Duration};

use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Lease, TokenBucket, pauses::Pauses};
use crate::telemetry::RequestCounter;

/// Time after which a request without an answer has failed. kube itself would wait forever.
const DEADLINE: Duration = Duration::from_secs(10);
/// Longest pause that the client keeps, even if the server asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Maximum number of times that a throttled request is sent again.
const MAX_THROTTLED: u32 = 8;
const MAX_BODY: usize = 256 * 1024 * 1024;

/// A client of the workload cluster with a rate limit of its own.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: kube::Client,
    limiter: Option<Arc<TokenBucket>>,
    deadline: Duration,
    max_throttled: u32,
    /// The lease under which the client writes; `None` without leader election.
    lease: Option<Lease>,
    counter: Option<RequestCounter>,
    /// Pauses that all requests of this client keep; without them each request keeps only its own.
    pauses: Option<Pauses>,
}

/// Reason for a failed request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    /// The API server refused the request.
    #[error("{method} {path} was answered with {code} {reason}: {message}")]
    Status {
        method: Method,
        path: String,
        code: u16,
        reason: String,
        message: String,
        hints: Box<Hints>,
    },
    /// No answer.
    #[error("{method} {path} was not answered")]
    Transport {
        method: Method,
        path: String,
        #[source]
        source: Box<kube::Error>,
    },
    /// No answer in time.
    #[error("{method} {path} was not answered within {deadline:?}")]
    TimedOut { method: Method, path: String, deadline: Duration },
    /// Not sent: as far as this process knows, it no longer holds the lease.
    #[error("{method} {path} was not sent: the lease is not held")]
    NotLeading { method: Method, path: String },
    /// An answer that is not JSON, or not what was requested.
    #[error("{path} was answered with something unreadable: {what}")]
    Malformed { path: String, what: String },
}

/// Further details of a refusal.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    /// `details.name`: the object that the answer is about, if any.
    pub(crate) about: Option<String>,
    /// Pause that the server asks for.
    pub(crate) retry_after: Option<Duration>,
}

impl ClusterError {
    /// HTTP status, when the server answered.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The pause that the server asks for, at most 60 s.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { hints, .. } => hints.retry_after.map(|pause| pause.min(LONGEST_PAUSE)),
            _ => None,
        }
    }

    /// True if another client wrote first, or the object is another one.
    pub(crate) fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// True if the API server says that this object does not exist. A 404 from something in between, which does not know the
    /// path, says nothing about the object.
    pub(crate) fn says_gone(&self, name: &str) -> bool {
        let Self::Status { code: 404, reason, message, hints, .. } = self else { return false };
        reason == "NotFound"
            && match &hints.about {
                Some(about) => about == name,
                None => message.contains(&format!("\"{name}\" not found")),
            }
    }

    /// True if the answer was 404.
    pub(crate) fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }
}

/// Kind of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// `application/strategic-merge-patch+json`, as the Go framework sends.
    Strategic,
}

impl Cluster {
    /// A client paced at `qps` with bursts of `burst`, both read as client-go reads them.
    pub(crate) fn new(client: kube::Client, qps: f64, burst: u32) -> Self {
        let limiter = TokenBucket::of_client(qps, burst).map(Arc::new);
        let (deadline, max_throttled) = (DEADLINE, MAX_THROTTLED);
        Self { client, limiter, deadline, max_throttled, lease: None, counter: None, pauses: None }
    }

    /// Returns the client with writes only while the lease is held. The check happens at the last moment, when the request is
    /// handed to the connection.
    pub(crate) fn under(self, lease: Option<Lease>) -> Self {
        Self { lease, ..self }
    }

    /// Returns the client with its requests counted.
    pub(crate) fn counted(self, counter: RequestCounter) -> Self {
        Self { counter: Some(counter), ..self }
    }

    /// Returns the client with shared pauses: a request also waits for the pause of another request of its path.
    pub(crate) fn sharing(self, pauses: &Pauses) -> Self {
        Self { pauses: Some(pauses.clone()), ..self }
    }

    fn count(&self, method: &Method, status: Option<u16>) {
        if let Some(counter) = &self.counter {
            counter.ended(method, status);
        }
    }

    /// Returns the client without retries and pauses: a throttled request is an error, and the caller waits. The content of a
    /// request may be out of date after a pause.
    pub(crate) fn impatient(self) -> Self {
        Self { max_throttled: 0, pauses: None, ..self }
    }

    /// A client without pacing and with its own deadline, for leases.
    pub(crate) fn unpaced(client: kube::Client, deadline: Duration) -> Self {
        Self { limiter: None, deadline, ..Self::new(client, 0.0, 0) }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, ClusterError> {
        self.request(Method::GET, path, None, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, ClusterError> {
        self.request(Method::POST, path, Some("application/json"), Some(body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Result<Value, ClusterError> {
        self.request(Method::PUT, path, Some("application/json"), Some(body)).await
    }

    pub(crate) async fn patch(
        &self,
        path: &str,
        kind: PatchKind,
        body: &Value,
    ) -> Result<Value, ClusterError> {
        let PatchKind::Strategic = kind;
        let content_type = "application/strategic-merge-patch+json";
        self.request(Method::PATCH, path, Some(content_type), Some(body)).await
    }

    /// Deletes with an optional UID precondition: an object of the same name and another UID stays.
    pub(crate) async fn delete(
        &self,
        path: &str,
        uid: Option<&str>,
    ) -> Result<Value, ClusterError> {
        let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(uid) = uid {
            body["preconditions"] = json!({ "uid": uid });
        }
        self.request(Method::DELETE, path, Some("application/json"), Some(&body)).await
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Value, ClusterError> {
        let bytes = body.map(|b| b.to_string().into_bytes()).unwrap_or_default();
        let mut throttled = 0;
        loop {
            if let Some(limiter) = &self.limiter {
                limiter.take().await;
            }
            if let Some(pauses) = &self.pauses {
                pauses.over(path).await;
            }
            let request = build(&method, path, content_type, bytes.clone())?;
            // Checked as late as possible above the client: between here and the socket are only its queue and a connection.
            let is_write = method != Method::GET;
            if is_write && self.lease.as_ref().is_some_and(|lease| !lease.is_held()) {
                return Err(ClusterError::NotLeading { method, path: path.to_owned() });
            }
            let exchange = self.exchange(&method, path, request);
            let timed_out = || ClusterError::TimedOut {
                method: method.clone(),
                path: path.to_owned(),
                deadline: self.deadline,
            };
            let answer = tokio::time::timeout(self.deadline, exchange).await;
            let status = answer.as_ref().ok().and_then(|it| it.as_ref().ok()).map(|it| it.0);
            self.count(&method, status);
            let (status, retry_after, body) = answer.map_err(|_| timed_out())??;
            let is_throttled = status == 429 || (status == 503 && retry_after.is_some());
            if is_throttled {
                let wait = retry_after.unwrap_or(Duration::from_secs(1)).min(LONGEST_PAUSE);
                if let Some(pauses) = &self.pauses {
                    pauses.note(path, Instant::now() + wait);
                }
                if throttled < self.max_throttled {
                    throttled += 1;
                    tokio::time::sleep(wait).await;
                    continue;
                }
            }
            return read(&method, path, status, retry_after, &body);
        }
    }

    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        request: Request<kube::client::Body>,
    ) -> Result<(u16, Option<Duration>, Vec<u8>), ClusterError> {
        let transport = |source| ClusterError::Transport {
            method: method.clone(),
            path: path.to_owned(),
            source: Box::new(source),
        };
        let response = self.client.send(request).await.map_err(transport)?;
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers());
        let mut body = response.into_body();
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(transport)?.into_data() else { continue };
            if bytes.len() + data.len() > MAX_BODY {
                let what = "too large".to_owned();
                return Err(ClusterError::Malformed { path: path.to_owned(), what });
            }
            bytes.extend_from_slice(&data);
        }
        Ok((status, retry_after, bytes))
    }

    /// Opens a watch and returns its body. Not paced: watches are exempt, as in client-go.
    pub(crate) async fn open(&self, path: &str) -> Result<kube::client::Body, ClusterError> {
        let request = build(&Method::GET, path, None, Vec::new())?;
        let timed_out = || ClusterError::TimedOut {
            method: Method::GET,
            path: path.to_owned(),
            deadline: self.deadline,
        };
        let opened = tokio::time::timeout(self.deadline, self.client.send(request)).await;
        let answer = opened.as_ref().ok().and_then(|it| it.as_ref().ok());
        self.count(&Method::GET, answer.map(|it| it.status().as_u16()));
        let response = opened.map_err(|_| timed_out())?.map_err(|source| {
            let path = path.to_owned();
            ClusterError::Transport { method: Method::GET, path, source: Box::new(source) }
        })?;
        let status = response.status().as_u16();
        if status == 200 {
            return Ok(response.into_body());
        }
        let retry_after = retry_after(response.headers());
        let collected = tokio::time::timeout(self.deadline, response.into_body().collect_bytes());
        let body = collected.await.map_err(|_| timed_out())?.unwrap_or_default();
        match read(&Method::GET, path, status, retry_after, &body) {
            Err(err) => Err(err),
            Ok(_) => Err(ClusterError::Malformed {
                path: path.to_owned(),
                what: format!("status {status} for a watch"),
            }),
        }
    }
}

fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

fn build(
    method: &Method,
    path: &str,
    content_type: Option<&str>,
    body: Vec<u8>,
) -> Result<Request<kube::client::Body>, ClusterError> {
    let mut request =
        Request::builder().method(method).uri(path).header(header::ACCEPT, "application/json");
    if let Some(content_type) = content_type {
        request = request.header(header::CONTENT_TYPE, content_type);
    }
    request.body(kube::client::Body::from(body)).map_err(|err| ClusterError::Malformed {
        path: path.to_owned(),
        what: format!("not a usable path: {err}"),
    })
}

fn read(
    method: &Method,
    path: &str,
    status: u16,
    retry_after: Option<Duration>,
    body: &[u8],
) -> Result<Value, ClusterError> {
    let parsed = serde_json::from_slice::<Value>(body);
    if (200..300).contains(&status) {
        return parsed.map_err(|err| ClusterError::Malformed {
            path: path.to_owned(),
            what: err.to_string(),
        });
    }
    let text = |pointer: &str| {
        let value = parsed.as_ref().ok()?.pointer(pointer)?.as_str()?;
        Some(value.to_owned())
    };
    Err(ClusterError::Status {
        method: method.clone(),
        path: path.to_owned(),
        code: status,
        reason: text("/reason").unwrap_or_default(),
        message: text("/message").unwrap_or_default(),
        hints: Box::new(Hints {
            about: text("/details/name").filter(|name| !name.is_empty()),
            retry_after,
        }),
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Number of requests to a cluster that always answers like this.
    async fn asked(status: u16, retry_after: Option<&'static str>) -> usize {
        let n = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&n);
        let service = tower::service_fn(move |_: Request<kube::client::Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut response = http::Response::builder().status(status);
            if let Some(seconds) = retry_after {
                response = response.header("Retry-After", seconds);
            }
            let response = response.body(http_body_util::Full::new(bytes::Bytes::new()));
            async move { Ok::<_, Infallible>(response.unwrap()) }
        });
        let cluster = Cluster::new(kube::Client::new(service, "default"), -1.0, 0);
        assert!(cluster.get("/api/v1/nodes/a").await.is_err());
        n.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_sent_again_where_the_server_asks_for_it() {
        for (status, retry_after, is_repeated) in [
            (429, None, true),
            (429, Some("1"), true),
            (503, Some("1"), true),
            (503, None, false),
            (500, Some("1"), false),
            (404, Some("1"), false),
        ] {
            let n = asked(status, retry_after).await;
            assert_eq!(n > 1, is_repeated, "{status} {retry_after:?}: {n} times");
        }
    }

    /// Seconds at which requests for a path arrive. The first request is throttled; another client, which `second` makes with
    /// the pauses of the first one, sends the second request a second later.
    async fn arrivals(second: fn(Cluster, &Pauses) -> Cluster) -> Vec<u64> {
        let start = Instant::now();
        let arrived = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&arrived);
        let service = tower::service_fn(move |_: Request<kube::client::Body>| {
            let mut arrived = noted.lock().unwrap();
            arrived.push(start.elapsed().as_secs());
            let status = if arrived.len() == 1 { 429 } else { 404 };
            let response = http::Response::builder().status(status).header("Retry-After", "5");
            let response = response.body(http_body_util::Full::new(bytes::Bytes::new()));
            async move { Ok::<_, Infallible>(response.unwrap()) }
        });
        let kube = kube::Client::new(service, "default");
        let (pauses, new) = (Pauses::default(), || Cluster::new(kube.clone(), -1.0, 0));
        let first = new().sharing(&pauses);
        let later = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            second(new(), &pauses).get("/vms").await
        };
        let (first, second) = tokio::join!(first.get("/vms"), later);
        assert!(first.is_err() && second.is_err());
        let arrived = arrived.lock().unwrap();
        arrived.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_shared_pause_delays_requests_of_other_clients_for_the_same_path() {
        assert_eq!(arrivals(|client, _| client).await, [0, 1, 5]);
        assert_eq!(arrivals(Cluster::sharing).await, [0, 5, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_impatient_request_ignores_the_pauses_of_other_requests() {
        assert_eq!(arrivals(|client, all| client.sharing(all).impatient()).await, [0, 1, 5]);
    }
}
