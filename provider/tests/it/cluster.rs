//! A small fake API server: nodes with versions, a watch, the patches that the provider sends,
//! events, the Lease, one Secret, and reviews of access.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures::StreamExt as _;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use serde_json::{Value, json};
use tokio::sync::Notify;

#[derive(Debug, Default)]
struct State {
    version: u64,
    nodes: BTreeMap<String, Value>,
    log: Vec<(u64, Value)>,
    events: Vec<String>,
    writes: Vec<String>,
    lease: Option<Value>,
    /// Complete events about anything except nodes.
    announcements: Vec<Value>,
    /// The only Secret.
    secret: Option<Value>,
    /// True if the fake answers every request with 503.
    is_down: bool,
    /// Status with which the fake refuses patches of nodes, and the number of further patches that
    /// it will refuse.
    refusals: (u16, u32),
    /// Number of reads of single nodes that the fake still answers with the 404 of a proxy.
    reads_lost: u32,
    /// Number of patches of nodes that the fake has refused because of their version.
    n_conflicts: usize,
    /// Number of updates of the Lease that the fake still refuses as conflicts.
    lease_conflicts: u32,
    /// Time between the arrival of a patch of a node and the effect of the patch.
    write_time: Duration,
    /// Holder of the Lease at the moment of each aborted patch of a node; empty if no replica holds
    /// it.
    cut_under: Vec<String>,
    /// True if watches end as soon as they are opened.
    ends_watches: bool,
    /// Number of watches opened so far.
    n_watches: usize,
}

/// The fake API server.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A patch of a node in progress. If this value is dropped, the client has aborted the patch, and
/// the fake notes the holder of the Lease.
struct UnderWay(Arc<Mutex<State>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let state = &mut *self.0.lock().unwrap();
        let holder = state.lease.as_ref().and_then(|it| it["spec"]["holderIdentity"].as_str());
        state.cut_under.push(holder.unwrap_or_default().to_owned());
    }
}

impl Cluster {
    pub(crate) fn new() -> Self {
        Self { state: Arc::default(), changed: Arc::new(Notify::new()) }
    }

    pub(crate) fn client(&self) -> kube::Client {
        let this = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let this = this.clone();
            async move { Ok::<_, Infallible>(this.serve(request).await) }
        });
        kube::Client::new(service, "default")
    }

    pub(crate) fn join(&self, name: &str, system_uuid: &str) {
        self.put(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": format!("uid-{name}"), "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {"taints": [
                {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
            ]},
            "status": {
                "nodeInfo": {"systemUUID": system_uuid},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }));
    }

    /// Deletes a node as an administrator would.
    pub(crate) fn delete(&self, name: &str) {
        let state = &mut *self.state.lock().unwrap();
        state.version += 1;
        let node = state.nodes.remove(name).unwrap();
        state.log.push((state.version, json!({"type": "DELETED", "object": node})));
        self.changed.notify_waiters();
    }

    pub(crate) fn set_ready(&self, name: &str, ready: bool) {
        let mut node = self.node(name).unwrap();
        let status = if ready { "True" } else { "Unknown" };
        node["status"]["conditions"] = json!([{"type": "Ready", "status": status}]);
        self.put(node);
    }

    pub(crate) fn annotate(&self, name: &str, annotations: Value) {
        let mut node = self.node(name).unwrap();
        node["metadata"]["annotations"] = annotations;
        self.put(node);
    }

    pub(crate) fn node(&self, name: &str) -> Option<Value> {
        self.state.lock().unwrap().nodes.get(name).cloned()
    }

    pub(crate) fn n_nodes(&self) -> usize {
        self.state.lock().unwrap().nodes.len()
    }

    /// Returns the reasons of all events about nodes so far.
    pub(crate) fn events(&self) -> Vec<String> {
        self.state.lock().unwrap().events.clone()
    }

    /// Sets the time that each later patch of a node takes.
    pub(crate) fn set_write_time(&self, time: Duration) {
        self.state.lock().unwrap().write_time = time;
    }

    /// Returns the holder of the Lease at the moment of each aborted patch of a node.
    pub(crate) fn cut_under(&self) -> Vec<String> {
        self.state.lock().unwrap().cut_under.clone()
    }

    /// Returns method and path of each request since the last call of this method, without reads,
    /// reviews, requests for the Lease, and requests while the fake was down.
    pub(crate) fn take_writes(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().writes)
    }

    /// Returns the complete events about anything except nodes.
    pub(crate) fn announcements(&self) -> Vec<Value> {
        self.state.lock().unwrap().announcements.clone()
    }

    /// Sets the content of the Secret, given as plain text.
    pub(crate) fn set_secret(&self, data: &[(&str, &str)]) {
        let encoded =
            data.iter().map(|(key, value)| ((*key).to_owned(), STANDARD.encode(value).into()));
        let data: serde_json::Map<String, Value> = encoded.collect();
        self.state.lock().unwrap().secret = Some(json!({ "data": data }));
    }

    /// Refuses the next `times` patches of nodes with this status. The refusal with 404 is that of
    /// a proxy in front of the API server.
    pub(crate) fn refuse(&self, status: u16, times: u32) {
        self.state.lock().unwrap().refusals = (status, times);
    }

    /// Number of further patches of nodes that the fake will refuse.
    pub(crate) fn n_refusals(&self) -> u32 {
        self.state.lock().unwrap().refusals.1
    }

    /// Answers the next `times` reads of single nodes with the 404 of a proxy.
    pub(crate) fn lose_reads(&self, times: u32) {
        self.state.lock().unwrap().reads_lost = times;
    }

    /// Number of patches of nodes that the fake has refused because of their version.
    pub(crate) fn n_conflicts(&self) -> usize {
        self.state.lock().unwrap().n_conflicts
    }

    /// Refuses the next `times` updates of the Lease as conflicts.
    pub(crate) fn refuse_renewals(&self, times: u32) {
        self.state.lock().unwrap().lease_conflicts = times;
    }

    pub(crate) fn set_down(&self, is_down: bool) {
        self.state.lock().unwrap().is_down = is_down;
    }

    /// Makes every later watch end as soon as it is opened, without an event; with `false` later
    /// watches stay open again.
    pub(crate) fn end_watches(&self, does: bool) {
        self.state.lock().unwrap().ends_watches = does;
    }

    /// Number of watches opened so far.
    pub(crate) fn n_watches(&self) -> usize {
        self.state.lock().unwrap().n_watches
    }

    pub(crate) fn lease_duration(&self) -> Option<u64> {
        self.state.lock().unwrap().lease.as_ref()?["spec"]["leaseDurationSeconds"].as_u64()
    }

    pub(crate) fn lease_holder(&self) -> Option<String> {
        let state = self.state.lock().unwrap();
        Some(state.lease.as_ref()?["spec"]["holderIdentity"].as_str()?.to_owned())
    }

    /// Makes the replica `holder` the holder of the Lease, as if the present holder had not renewed
    /// the Lease in time.
    pub(crate) fn usurp_lease(&self, holder: &str) {
        let state = &mut *self.state.lock().unwrap();
        state.version += 1;
        let lease = state.lease.as_mut().unwrap();
        lease["spec"]["holderIdentity"] = holder.into();
        lease["metadata"]["resourceVersion"] = state.version.to_string().into();
    }

    pub(crate) fn put(&self, mut node: Value) -> Value {
        let state = &mut *self.state.lock().unwrap();
        state.version += 1;
        node["metadata"]["resourceVersion"] = state.version.to_string().into();
        let name = node["metadata"]["name"].as_str().unwrap().to_owned();
        let kind = if state.nodes.contains_key(&name) { "MODIFIED" } else { "ADDED" };
        state.nodes.insert(name, node.clone());
        state.log.push((state.version, json!({"type": kind, "object": node})));
        self.changed.notify_waiters();
        node
    }

    /// Restores the store from a backup: versions count from `version` again, and `edit` changes
    /// the nodes. An open watch gets no events until the versions exceed the last one that it sent.
    pub(crate) fn restore(&self, version: u64, edit: impl Fn(&mut Value)) {
        let state = &mut *self.state.lock().unwrap();
        state.version = version;
        state.log.clear();
        for node in state.nodes.values_mut() {
            state.version += 1;
            node["metadata"]["resourceVersion"] = state.version.to_string().into();
            edit(node);
        }
    }

    pub(crate) async fn serve(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let (method, path) = (request.method().clone(), request.uri().to_string());
        let body = request.into_body().collect_bytes().await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        if self.state.lock().unwrap().is_down {
            return status(503, "ServiceUnavailable");
        }
        if path.ends_with("reviews") {
            return ok(&review(&body["spec"]));
        }
        if method != Method::GET && !path.contains("/leases") {
            let line = format!("{method} {}", path.trim_start_matches("/api/v1/"));
            self.state.lock().unwrap().writes.push(line);
        }
        let time = self.state.lock().unwrap().write_time;
        if method == Method::PATCH && path.starts_with("/api/v1/nodes/") && !time.is_zero() {
            let under_way = UnderWay(Arc::clone(&self.state));
            tokio::time::sleep(time).await;
            std::mem::forget(under_way);
        }
        if method == Method::PATCH && path.starts_with("/api/v1/nodes/") {
            let (code, times) = &mut self.state.lock().unwrap().refusals;
            if *times > 0 {
                *times -= 1;
                return if *code == 404 { no_such_page() } else { status(*code, "Refused") };
            }
        }
        if path.contains("watch=true") {
            let from = path.split("resourceVersion=").nth(1).unwrap();
            let from: u64 = from.split('&').next().unwrap().parse().unwrap();
            let ends = {
                let state = &mut *self.state.lock().unwrap();
                state.n_watches += 1;
                // A busy loop would never end, because the paused clock stands still meanwhile.
                assert!(state.n_watches < 10_000, "the provider opens watches without pause");
                state.ends_watches
            };
            return if ends { ok(&json!({})).map(|_| empty()) } else { self.watch(from) };
        }
        if path.starts_with("/api/v1/nodes?") {
            let state = self.state.lock().unwrap();
            let items: Vec<Value> = state.nodes.values().cloned().collect();
            let version = state.version.to_string();
            return ok(&json!({"metadata": {"resourceVersion": version}, "items": items}));
        }
        if path.ends_with("/events") {
            if body["involvedObject"]["kind"] != "Node" {
                self.state.lock().unwrap().announcements.push(body.clone());
                return ok(&body);
            }
            let reason = body["reason"].as_str().unwrap().to_owned();
            self.state.lock().unwrap().events.push(reason);
            return ok(&body);
        }
        if path.contains("/secrets/") {
            let secret = self.state.lock().unwrap().secret.clone();
            return secret.map_or_else(|| status(404, "NotFound"), |secret| ok(&secret));
        }
        if path.contains("/leases") {
            return self.lease(&method, body);
        }
        let Some(name) = path.strip_prefix("/api/v1/nodes/") else {
            return status(404, "NotFound");
        };
        let name = name.trim_end_matches("/status");
        let Some(mut node) = self.node(name) else { return status(404, "NotFound") };
        match method {
            Method::GET => {
                let n_lost = &mut self.state.lock().unwrap().reads_lost;
                let is_lost = *n_lost > 0;
                *n_lost = n_lost.saturating_sub(1);
                if is_lost { no_such_page() } else { ok(&node) }
            }
            Method::DELETE => {
                if body["preconditions"]["uid"] != node["metadata"]["uid"] {
                    return status(409, "Conflict");
                }
                let state = &mut *self.state.lock().unwrap();
                state.version += 1;
                state.nodes.remove(name);
                state.log.push((state.version, json!({"type": "DELETED", "object": node})));
                self.changed.notify_waiters();
                ok(&json!({"kind": "Status", "status": "Success"}))
            }
            Method::PATCH => {
                let version = &body["metadata"]["resourceVersion"];
                if !version.is_null() && *version != node["metadata"]["resourceVersion"] {
                    self.state.lock().unwrap().n_conflicts += 1;
                    return status(409, "Conflict");
                }
                merge(&mut node, &body);
                ok(&self.put(node))
            }
            _ => status(405, "MethodNotAllowed"),
        }
    }

    fn watch(&self, from: u64) -> Response<Body> {
        let this = self.clone();
        let frames = futures::stream::unfold(from, move |seen| {
            let this = this.clone();
            async move {
                loop {
                    let changed = this.changed.notified();
                    let next = {
                        let state = this.state.lock().unwrap();
                        state.log.iter().find(|(version, _)| *version > seen).cloned()
                    };
                    if let Some((version, event)) = next {
                        let line = Bytes::from(format!("{event}\n"));
                        return Some((Ok(hyper::body::Frame::data(line)), version));
                    }
                    changed.await;
                }
            }
        });
        Response::new(StreamBody::new(frames.boxed()).boxed_unsync())
    }

    fn lease(&self, method: &Method, body: Value) -> Response<Body> {
        let state = &mut *self.state.lock().unwrap();
        state.version += 1;
        let mut new = body;
        match (method, &state.lease) {
            (&Method::GET, Some(lease)) => return ok(lease),
            (&Method::GET, None) => return status(404, "NotFound"),
            (&Method::PUT, Some(_)) if state.lease_conflicts > 0 => {
                state.lease_conflicts -= 1;
                return status(409, "Conflict");
            }
            (&Method::PUT, Some(lease))
                if lease["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"] =>
            {
                return status(409, "Conflict");
            }
            _ => {}
        }
        new["metadata"]["resourceVersion"] = state.version.to_string().into();
        new["metadata"]["uid"] = "uid-lease".into();
        state.lease = Some(new.clone());
        ok(&new)
    }
}

/// Applies a strategic merge patch, as far as nodes need it.
fn merge(into: &mut Value, patch: &Value) {
    if let (Value::Object(into), Value::Object(patch)) = (&mut *into, patch) {
        for (key, value) in patch {
            if value.is_null() {
                into.remove(key);
            } else {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        return;
    }
    *into = match patch {
        Value::Array(items) => {
            items.iter().filter(|item| item.get("$patch").is_none()).cloned().collect()
        }
        other => other.clone(),
    };
}

fn empty() -> Body {
    http_body_util::Empty::new().boxed_unsync()
}

fn ok(value: &Value) -> Response<Body> {
    let bytes = Bytes::from(value.to_string());
    Response::new(http_body_util::Full::new(bytes).boxed_unsync())
}

fn status(code: u16, reason: &str) -> Response<Body> {
    let value = json!({"kind": "Status", "code": code, "reason": reason, "message": reason});
    let mut response = ok(&value);
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
    response
}

/// The 404 of a proxy that does not serve the path. Its body is not a Kubernetes Status.
fn no_such_page() -> Response<Body> {
    let body = http_body_util::Full::new(Bytes::from("404 page not found\n")).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::NOT_FOUND;
    response
}

/// Answers a TokenReview or SubjectAccessReview: only the token `scraper` is valid, and only its
/// user may do anything.
fn review(spec: &Value) -> Value {
    let is_scraper = spec["token"] == "scraper" || spec["user"] == "scraper";
    let status = match spec.get("token") {
        Some(_) if is_scraper => json!({"authenticated": true, "user": {"username": "scraper"}}),
        Some(_) => json!({"authenticated": false}),
        None => json!({ "allowed": is_scraper }),
    };
    json!({ "status": status })
}
