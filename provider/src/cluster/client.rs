//! Client of an API server: paces requests, sets deadlines, obeys `Retry-After`, and returns errors
//! that name the cause.

use std::{sync::Arc, time::Duration};

use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{TokenBucket, WritePermission, pauses::Pauses};
use crate::telemetry::RequestCounter;

/// Default time after which an attempt at a request fails if it has no complete answer. kube itself
/// would wait forever.
const DEADLINE: Duration = Duration::from_secs(10);
/// Longest pause before a request is sent again, even if the server requests a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Maximum number of times that a throttled request is sent again.
const MAX_THROTTLED: u32 = 8;
const MAX_BODY: usize = 256 * 1024 * 1024;

/// A client of one API server. Its clones share its rate limit.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: kube::Client,
    limiter: Option<Arc<TokenBucket>>,
    deadline: Duration,
    max_throttled: u32,
    /// The lease without which the client does not write; `None` without leader election.
    lease: Option<WritePermission>,
    counter: Option<RequestCounter>,
    /// Pauses that delay all requests for a path; if `None`, a pause delays only the request that
    /// the server throttled.
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
        hints: Box<ErrorDetails>,
    },
    /// The connection failed or broke before the answer was complete.
    #[error("{method} {path} was not answered")]
    Transport {
        method: Method,
        path: String,
        #[source]
        source: Box<kube::Error>,
    },
    /// The answer was not complete before the deadline.
    #[error("{method} {path} was not answered within {deadline:?}")]
    TimedOut { method: Method, path: String, deadline: Duration },
    /// The client did not send the write, because this process does not hold the leader lease.
    #[error("{method} {path} was not sent: this process does not hold the leader lease")]
    NotLeading { method: Method, path: String },
    /// The answer is not JSON, is larger than 256 MiB or lacks what the request asked for; or the
    /// request path is invalid.
    #[error("{path} was answered with invalid content: {what}")]
    Malformed { path: String, what: String },
}

/// Further details of a refused request.
#[derive(Debug, Default)]
pub(crate) struct ErrorDetails {
    /// `details.name`: name of the object that the answer is about, if it names one.
    pub(crate) about: Option<String>,
    /// Pause that the server requests with `Retry-After`.
    pub(crate) retry_after: Option<Duration>,
}

impl ClusterError {
    /// HTTP status, if the server refused the request.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The pause that the server requests with its refusal, at most 60 s; `None` if it requests
    /// none.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { hints, .. } => hints.retry_after.map(|pause| pause.min(LONGEST_PAUSE)),
            _ => None,
        }
    }

    /// True if the answer was 409: another client wrote first, the object of this name has another
    /// UID, or an object to create exists already.
    pub(crate) fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// True if the API server says that the object `name` does not exist. A 404 about something
    /// else, for example from a proxy that does not serve the path, proves nothing about the
    /// object.
    pub(crate) fn says_gone(&self, name: &str) -> bool {
        let Self::Status { code: 404, reason, message, hints, .. } = self else { return false };
        reason == "NotFound"
            && match &hints.about {
                Some(about) => about == name,
                None => message.contains(&format!("\"{name}\" not found")),
            }
    }

    /// True if the request may have taken effect although no answer arrived.
    pub(crate) fn lost_the_answer(&self) -> bool {
        matches!(self, Self::Transport { .. } | Self::TimedOut { .. })
    }

    /// True if the answer was 404.
    pub(crate) fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }
}

/// Kind of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// `application/strategic-merge-patch+json`, which the Go framework sends.
    Strategic,
    /// `application/merge-patch+json`, the kind that custom resources accept.
    Merge,
}

impl Cluster {
    /// A client limited to `qps` requests per second with bursts of `burst`; see
    /// [`TokenBucket::of_client`].
    pub(crate) fn new(client: kube::Client, qps: f64, burst: u32) -> Self {
        let limiter = TokenBucket::of_client(qps, burst).map(Arc::new);
        let (deadline, max_throttled) = (DEADLINE, MAX_THROTTLED);
        Self { client, limiter, deadline, max_throttled, lease: None, counter: None, pauses: None }
    }

    /// Returns the client, which from now on sends a write only while this process holds `lease`,
    /// if any. The client checks this at the last moment, when it hands the request to the
    /// connection.
    pub(crate) fn with_lease(self, lease: Option<WritePermission>) -> Self {
        Self { lease, ..self }
    }

    /// Returns the client, which counts its requests with `counter`.
    pub(crate) fn with_counter(self, counter: RequestCounter) -> Self {
        Self { counter: Some(counter), ..self }
    }

    /// Returns the client, which shares `pauses`: a request also waits for the pause of another
    /// request for the same path.
    pub(crate) fn with_pauses(self, pauses: &Pauses) -> Self {
        Self { pauses: Some(pauses.clone()), ..self }
    }

    fn count(&self, method: &Method, status: Option<u16>) {
        if let Some(counter) = &self.counter {
            counter.ended(method, status);
        }
    }

    /// Returns the client without retries and without shared pauses: a throttled request fails at
    /// once. The caller waits and makes a new request, because the content of the old one may be
    /// out of date after a pause.
    pub(crate) fn without_retries(self) -> Self {
        Self { max_throttled: 0, pauses: None, ..self }
    }

    /// A client without a rate limit, whose requests have this deadline; for the leader lease.
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
        let content_type = match kind {
            PatchKind::Strategic => "application/strategic-merge-patch+json",
            PatchKind::Merge => "application/merge-patch+json",
        };
        self.request(Method::PATCH, path, Some(content_type), Some(body)).await
    }

    /// Deletes an object. With `uid` the request has a UID precondition, so that an object of the
    /// same name and another UID stays.
    pub(crate) async fn delete(
        &self,
        path: &str,
        uid: Option<&str>,
    ) -> Result<Value, ClusterError> {
        self.delete_at(path, uid, None).await
    }

    /// Deletes an object like [`Cluster::delete`]. With `version` the request also has a
    /// precondition on the resource version, so that an object that has changed stays.
    pub(crate) async fn delete_at(
        &self,
        path: &str,
        uid: Option<&str>,
        version: Option<&str>,
    ) -> Result<Value, ClusterError> {
        let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(uid) = uid {
            body["preconditions"] = json!({ "uid": uid });
        }
        if let Some(version) = version {
            body["preconditions"]["resourceVersion"] = version.into();
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
                pauses.wait(path).await;
            }
            let request = build(&method, path, content_type, bytes.clone())?;
            // The check is as late as possible: after it, only kube's queue and the connection
            // delay the request.
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
                let what = "the body is larger than 256 MiB".to_owned();
                return Err(ClusterError::Malformed { path: path.to_owned(), what });
            }
            bytes.extend_from_slice(&data);
        }
        Ok((status, retry_after, bytes))
    }

    /// Opens a watch and returns its body; any status other than 200 is an error. The rate limit
    /// does not apply to watches, as in client-go; pauses and retries do not apply either.
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
                what: format!("status {status} instead of 200 for a watch"),
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
        what: format!("the request path is invalid: {err}"),
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
        hints: Box::new(ErrorDetails {
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

    /// Reads a node from a cluster whose answer is always the same, and returns the number of
    /// requests that the client sends for this read.
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
    async fn a_request_is_repeated_after_429_and_after_503_with_retry_after() {
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

    /// Returns the seconds at which requests for a path arrive. The server throttles the first
    /// request for 5 s and answers 404 to the others. One second after the first client, a second
    /// client requests the path; `second` makes it from a new client and the pauses of the first
    /// one.
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
        let first = new().with_pauses(&pauses);
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
        assert_eq!(arrivals(Cluster::with_pauses).await, [0, 5, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_impatient_request_ignores_the_pauses_of_other_requests() {
        assert_eq!(
            arrivals(|client, all| client.with_pauses(all).without_retries()).await,
            [0, 1, 5]
        );
    }
}
