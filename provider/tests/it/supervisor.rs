//! A Supervisor of a few dozen lines: VirtualMachines with versions, a watch, and one token that is good.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::Notify;

type Body = UnsyncBoxBody<Bytes, Infallible>;

#[derive(Debug, Default)]
struct State {
    machines: BTreeMap<String, Value>,
    log: Vec<Value>,
    calls: Vec<String>,
    /// What is good as a token; anything, while there is none.
    token: Option<String>,
    n_refused: usize,
}

/// The fake.
#[derive(Clone, Debug, Default)]
pub(crate) struct Supervisor {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

impl Supervisor {
    pub(crate) fn client(&self) -> kube::Client {
        let this = self.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let this = this.clone();
            async move { Ok::<_, Infallible>(this.serve(&request.into_parts().0)) }
        });
        kube::Client::new(service, "dev")
    }

    /// Adds a machine, or changes it.
    pub(crate) fn put(&self, name: &str, uuid: &str, address: &str) {
        let state = &mut *self.state.lock().unwrap();
        let kind = if state.machines.contains_key(name) { "MODIFIED" } else { "ADDED" };
        let object = json!({
            "metadata": {
                "name": name, "uid": format!("vm-{name}"),
                "resourceVersion": (state.log.len() + 1).to_string(),
                "labels": {"topology.kubernetes.io/zone": "zone-a"},
            },
            "status": {
                "powerState": "PoweredOn", "biosUUID": uuid, "network": {"primaryIP4": address},
            },
        });
        state.machines.insert(name.to_owned(), object.clone());
        state.log.push(json!({"type": kind, "object": object}));
        self.changed.notify_waiters();
    }

    pub(crate) fn delete(&self, name: &str) {
        let state = &mut *self.state.lock().unwrap();
        let mut object = state.machines.remove(name).unwrap();
        object["metadata"]["resourceVersion"] = (state.log.len() + 1).to_string().into();
        state.log.push(json!({"type": "DELETED", "object": object}));
        self.changed.notify_waiters();
    }

    /// Only this token is good from now on.
    pub(crate) fn accept(&self, token: &str) {
        self.state.lock().unwrap().token = Some(token.to_owned());
    }

    /// Calls refused for their token.
    pub(crate) fn n_refused(&self) -> usize {
        self.state.lock().unwrap().n_refused
    }

    /// Calls since the last question.
    pub(crate) fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().calls)
    }

    pub(crate) fn serve(&self, request: &http::request::Parts) -> Response<Body> {
        let state = &mut *self.state.lock().unwrap();
        let token = request.headers.get("authorization").and_then(|it| it.to_str().ok());
        if let Some(good) = &state.token
            && token != Some(&format!("Bearer {good}"))
        {
            state.n_refused += 1;
            return answer(401, &json!({"kind": "Status", "code": 401, "reason": "Unauthorized"}));
        }
        let base = "/apis/vmoperator.vmware.com/v1alpha2/namespaces/dev/virtualmachines";
        let rest = request.uri.path().strip_prefix(base).expect("nothing else is asked for");
        let query = request.uri.query().unwrap_or_default();
        if let Some(name) = rest.strip_prefix('/') {
            state.calls.push(format!("GET {name}"));
            let missing = json!({
                "kind": "Status", "code": 404, "reason": "NotFound", "details": {"name": name},
            });
            let found = state.machines.get(name);
            return found.map_or_else(|| answer(404, &missing), |machine| answer(200, machine));
        }
        if query.contains("watch=true") {
            state.calls.push("WATCH".to_owned());
            let version = query.split("resourceVersion=").nth(1).unwrap();
            return self.watch(version.split('&').next().unwrap().parse().unwrap());
        }
        state.calls.push("LIST".to_owned());
        let items: Vec<&Value> = state.machines.values().collect();
        let version = state.log.len().to_string();
        answer(200, &json!({"metadata": {"resourceVersion": version}, "items": items}))
    }

    fn watch(&self, from: usize) -> Response<Body> {
        let this = self.clone();
        let frames = futures::stream::unfold(from, move |seen| {
            let this = this.clone();
            async move {
                loop {
                    let changed = this.changed.notified();
                    let next = this.state.lock().unwrap().log.get(seen).cloned();
                    if let Some(event) = next {
                        let line = Bytes::from(format!("{event}\n"));
                        return Some((Ok(Frame::data(line)), seen + 1));
                    }
                    changed.await;
                }
            }
        });
        Response::new(StreamBody::new(frames.boxed()).boxed_unsync())
    }
}

fn answer(code: u16, value: &Value) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(value.to_string())).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}
