//! A small fake Supervisor: machines with versions, lists in pages, a watch with bookmarks, one
//! valid token, and refusals as of a role without rights. It counts calls. The unit tests of the
//! Supervisor backend use it as well.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response, StatusCode, request::Parts};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Status codes with which the fake refuses calls; `None` if it does not refuse them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refusals {
    pub(crate) get: Option<u16>,
    pub(crate) list: Option<u16>,
    pub(crate) watch: Option<u16>,
}

#[derive(Debug, Default)]
struct State {
    version: u64,
    /// A watch from a version before this one gets the error that its version is too old.
    compacted: u64,
    machines: BTreeMap<String, Value>,
    log: Vec<(u64, Value)>,
    calls: Vec<String>,
    refusals: Refusals,
    /// Number of requests for a further page of a list that the fake will still refuse as too old.
    n_expired_pages: u32,
    /// Number of further lists that the fake answers with an empty list.
    n_empty_lists: u32,
    /// Name of a machine that lists do not show.
    left_out: Option<String>,
    /// Object that lists show in place of the current one with its name.
    old: Option<Value>,
    page: usize,
    is_mute: bool,
    /// Time after which each page of a list in pages arrives.
    delay: Duration,
    /// Time after which the answer to a read of one machine arrives.
    get_delay: Duration,
    /// `Retry-After` of all refusals, in seconds.
    retry_after: Option<u64>,
    /// Current generation of watches; the fake ends watches of an earlier one.
    generation: u64,
    /// The valid token; `None` accepts any token.
    token: Option<String>,
    n_refused: usize,
}

/// The fake Supervisor; clones share its state.
#[derive(Clone, Debug)]
pub(crate) struct Supervisor {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

/// The VirtualMachine object of a machine, with the fields that all API versions have.
pub(crate) fn object(name: &str, uuid: &str, address: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"),
            "labels": {"topology.kubernetes.io/zone": "zone-a"},
        },
        "status": {
            "powerState": "PoweredOn", "biosUUID": uuid, "network": {"primaryIP4": address},
        },
    })
}

/// Returns the name of the VirtualMachine that a path names: empty for the collection, `None` for
/// another kind, another namespace or a version that the fake does not serve.
fn subject(path: &str) -> Option<&str> {
    let (version, rest) = path.strip_prefix("/apis/vmoperator.vmware.com/")?.split_once('/')?;
    let rest = rest.strip_prefix("namespaces/dev/virtualmachines")?;
    let is_served = matches!(version, "v1alpha2" | "v1alpha5" | "v1alpha6");
    is_served.then(|| rest.trim_start_matches('/'))
}

impl Supervisor {
    pub(crate) fn new() -> Self {
        let state = State { version: 100, page: usize::MAX, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), changed: Arc::new(Notify::new()) }
    }

    /// A Supervisor with `n` machines, named `n0000`, `n0001`, … and with UUIDs `e0000`, `e0001`,
    /// ….
    pub(crate) fn with(n: usize) -> Self {
        let this = Self::new();
        for i in 0..n {
            let address = format!("10.0.{}.{}", i / 250, i % 250 + 1);
            this.put(object(&format!("n{i:04}"), &format!("e{i:04}"), &address));
        }
        this
    }

    pub(crate) fn client(&self) -> kube::Client {
        let this = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let this = this.clone();
            async move {
                let (parts, _) = request.into_parts();
                let mut answer = this.serve(&parts);
                let (get_delay, retry_after) = {
                    let state = this.state.lock().unwrap();
                    (state.get_delay, state.retry_after)
                };
                if let Some(seconds) = retry_after.filter(|_| !answer.status().is_success()) {
                    answer.headers_mut().insert("retry-after", seconds.into());
                }
                if parts.uri.query().is_none() {
                    tokio::time::sleep(get_delay).await;
                }
                if parts.uri.query().is_some_and(|query| query.starts_with("limit")) {
                    let delay = this.state.lock().unwrap().delay;
                    tokio::time::sleep(delay).await;
                }
                Ok::<_, Infallible>(answer)
            }
        });
        kube::Client::new(service, "dev")
    }

    /// Adds or changes a machine.
    pub(crate) fn put(&self, mut object: Value) {
        let state = &mut *self.state.lock().unwrap();
        state.version += 1;
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let kind = if state.machines.contains_key(&name) { "MODIFIED" } else { "ADDED" };
        state.machines.insert(name, object.clone());
        state.log.push((state.version, json!({"type": kind, "object": object})));
        self.changed.notify_waiters();
    }

    pub(crate) fn set(&self, name: &str, pointer: &str, value: Value) {
        let mut object = self.state.lock().unwrap().machines[name].clone();
        *object.pointer_mut(pointer).unwrap() = value;
        self.put(object);
    }

    pub(crate) fn delete(&self, name: &str) {
        let state = &mut *self.state.lock().unwrap();
        state.version += 1;
        let mut object = state.machines.remove(name).unwrap();
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        state.log.push((state.version, json!({"type": "DELETED", "object": object})));
        self.changed.notify_waiters();
    }

    /// Removes a machine without a watch event, as a restore of the database does.
    pub(crate) fn lose(&self, name: &str) {
        self.state.lock().unwrap().machines.remove(name).unwrap();
    }

    /// Sets the version of the store and of all machines back to `version`, as a restore from a
    /// backup does, and ends all watches.
    pub(crate) fn restore(&self, version: u64) {
        {
            let state = &mut *self.state.lock().unwrap();
            state.version = version;
            state.log.clear();
            state.generation += 1;
            for machine in state.machines.values_mut() {
                machine["metadata"]["resourceVersion"] = version.to_string().into();
            }
        }
        self.changed.notify_waiters();
    }

    pub(crate) fn refuse(&self, refusals: Refusals) {
        self.state.lock().unwrap().refusals = refusals;
    }

    /// Makes this the only valid token.
    pub(crate) fn accept(&self, token: &str) {
        self.state.lock().unwrap().token = Some(token.to_owned());
    }

    /// Number of calls that the fake has refused because of their token.
    pub(crate) fn n_refused(&self) -> usize {
        self.state.lock().unwrap().n_refused
    }

    /// Ends all watches.
    pub(crate) fn cut(&self) {
        self.state.lock().unwrap().generation += 1;
        self.changed.notify_waiters();
    }

    /// Forgets all earlier versions; open watches get the error that their version is too old.
    pub(crate) fn compact(&self) {
        {
            let state = &mut *self.state.lock().unwrap();
            state.version += 1;
            state.compacted = state.version;
        }
        self.changed.notify_waiters();
    }

    /// Holds back all events and bookmarks of watches while `is_mute` is true. Afterwards an open
    /// watch goes on at the next change.
    pub(crate) fn mute(&self, is_mute: bool) {
        self.state.lock().unwrap().is_mute = is_mute;
    }

    /// Sets the time after which answers to lists in pages arrive; an answer shows the state at the
    /// request.
    pub(crate) fn delay_lists(&self, delay: Duration) {
        self.state.lock().unwrap().delay = delay;
    }

    /// Sets the time after which answers to reads by name arrive; an answer shows the state at the
    /// request.
    pub(crate) fn delay_gets(&self, delay: Duration) {
        self.state.lock().unwrap().get_delay = delay;
    }

    /// Sets the `Retry-After` of all refusals.
    pub(crate) fn ask_to_wait(&self, seconds: u64) {
        self.state.lock().unwrap().retry_after = Some(seconds);
    }

    /// Leaves this machine out of all later lists; reads by name still show it.
    pub(crate) fn leave_out(&self, name: &str) {
        self.state.lock().unwrap().left_out = Some(name.to_owned());
    }

    /// Makes all later lists show this object in place of the current one with its name, as a list
    /// from an old cache does.
    pub(crate) fn list_as(&self, old: Value) {
        self.state.lock().unwrap().old = Some(old);
    }

    /// Makes the next `n_lists` lists complete, consistent and empty.
    pub(crate) fn empty_lists(&self, n_lists: u32) {
        self.state.lock().unwrap().n_empty_lists = n_lists;
    }

    /// Sets the number of machines per page of a list; the fake refuses the second page of the next
    /// `n_expired_pages` lists that have one.
    pub(crate) fn pages_of(&self, page: usize, n_expired_pages: u32) {
        let state = &mut *self.state.lock().unwrap();
        (state.page, state.n_expired_pages) = (page, n_expired_pages);
    }

    /// Returns the calls since the last `take_calls`: `GET name`, `LIST`, `LIST …` for a further
    /// page, `WATCH`. Calls with an invalid token are not among them.
    pub(crate) fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().calls)
    }

    pub(crate) fn serve(&self, request: &Parts) -> Answer {
        let token = request.headers.get("authorization").and_then(|it| it.to_str().ok());
        let Some(name) = subject(request.uri.path()) else {
            return refused(404, "the server could not find the requested resource", None);
        };
        let query = request.uri.query().unwrap_or_default();
        let parameter = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
        };
        let state = &mut *self.state.lock().unwrap();
        if let Some(good) = &state.token
            && token != Some(&format!("Bearer {good}"))
        {
            state.n_refused += 1;
            return refused(401, "Unauthorized", None);
        }
        if !name.is_empty() {
            state.calls.push(format!("GET {name}"));
            if let Some(code) = state.refusals.get {
                return refused(code, "refused", None);
            }
            return match state.machines.get(name) {
                Some(machine) => json_answer(200, machine),
                None => refused(404, &format!("machines \"{name}\" not found"), Some(name)),
            };
        }
        if parameter("watch").is_some() {
            state.calls.push("WATCH".to_owned());
            if let Some(code) = state.refusals.watch {
                return refused(code, "refused", None);
            }
            // A watch without a version begins with the current state.
            let from = parameter("resourceVersion").unwrap().parse().unwrap_or(state.version);
            let seconds = parameter("timeoutSeconds").unwrap().parse().unwrap();
            let until = Instant::now() + Duration::from_secs(seconds);
            return self.watch(from, until, state.generation);
        }
        let offset = parameter("continue").map(|text| text.parse::<usize>().unwrap());
        list(state, offset, parameter("limit").is_some())
    }

    fn watch(&self, from: u64, until: Instant, generation: u64) -> Answer {
        let this = self.clone();
        let frames = futures::stream::unfold(Some(from), move |seen| {
            let this = this.clone();
            async move {
                let (event, seen) = this.next(seen?, until, generation).await?;
                let line = Bytes::from(format!("{event}\n"));
                Some((Ok(Frame::data(line)), seen))
            }
        });
        Response::new(StreamBody::new(frames.boxed()).boxed_unsync())
    }

    /// Waits for the next event after the version `seen`, or for a bookmark after 60 s. Returns the
    /// event with its version. An error, after which the watch ends, has the version `None`.
    /// Returns `None` if the watch ends without an event: at `until`, or once its `generation` is
    /// over.
    async fn next(
        &self,
        seen: u64,
        until: Instant,
        generation: u64,
    ) -> Option<(Value, Option<u64>)> {
        let bookmark_at = Instant::now() + Duration::from_secs(60);
        loop {
            let changed = self.changed.notified();
            let (next, is_mute, version) = {
                let state = self.state.lock().unwrap();
                if state.generation != generation {
                    return None;
                }
                if seen < state.compacted {
                    let status = json!({"kind": "Status", "code": 410, "message": "too old"});
                    return Some((json!({"type": "ERROR", "object": status}), None));
                }
                let next = state.log.iter().find(|(version, _)| *version > seen).cloned();
                (next, state.is_mute, state.version)
            };
            if let Some((version, event)) = next.filter(|_| !is_mute) {
                return Some((event, Some(version)));
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(until) => return None,
                () = tokio::time::sleep_until(bookmark_at), if !is_mute => {
                    let metadata = json!({"resourceVersion": version.to_string()});
                    let object = json!({"kind": "VirtualMachine", "metadata": metadata});
                    return Some((json!({"type": "BOOKMARK", "object": object}), Some(version)));
                }
            }
        }
    }
}

fn list(state: &mut State, offset: Option<usize>, is_paged: bool) -> Answer {
    state.calls.push(if offset.is_some() { "LIST …" } else { "LIST" }.to_owned());
    if let Some(code) = state.refusals.list {
        return refused(code, "refused", None);
    }
    if offset.is_some() && state.n_expired_pages > 0 {
        state.n_expired_pages -= 1;
        return refused(410, "the provided continue parameter is too old", None);
    }
    let version = state.version.to_string();
    if state.n_empty_lists > 0 {
        state.n_empty_lists -= 1;
        return json_answer(200, &json!({"metadata": {"resourceVersion": version}, "items": []}));
    }
    let offset = offset.unwrap_or(0);
    let page = if is_paged { state.page } else { usize::MAX };
    let is_shown = |name: &String| state.left_out.as_ref() != Some(name);
    let as_listed = |it: &'_ Value| match &state.old {
        Some(old) if old["metadata"]["name"] == it["metadata"]["name"] => old.clone(),
        _ => it.clone(),
    };
    let shown =
        state.machines.iter().filter(|(name, _)| is_shown(name)).map(|(_, it)| as_listed(it));
    let items: Vec<Value> = shown.skip(offset).take(page).collect();
    let next = offset.saturating_add(items.len());
    let token = if next < state.machines.len() { next.to_string() } else { String::new() };
    let metadata = json!({"resourceVersion": version, "continue": token});
    json_answer(200, &json!({"metadata": metadata, "items": items}))
}

fn json_answer(code: u16, value: &Value) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(value.to_string())).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

fn refused(code: u16, message: &str, about: Option<&str>) -> Answer {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        410 => "Expired",
        _ => "Other",
    };
    let details = about.map(|name| json!({"name": name})).unwrap_or_default();
    let status = json!({"kind": "Status", "code": code, "reason": reason, "message": message, "details": details});
    json_answer(code, &status)
}
