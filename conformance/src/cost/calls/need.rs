//! Judges which calls of a ledger were needed: a pure function over its records.
//!
//! A call is judged by the answers that its client had when it made the call. The call is a
//! *re-read* if the answer equals the last one that the client got to the same request. A login is
//! a *re-login* if a session of the client was alive, or would have been if the client had not
//! logged out; that logout is then a re-login, too. A call is *N+1* if it is one of many about one
//! object each, where one call about all of them would do. Every other call is needed, including
//! calls that wait for changes, writes, and reads after a failure. If several of these apply, the
//! first in this order counts.
//!
//! Clients are distinguished by server, face, user agent, and the label of their connection. A
//! process that starts anew has no earlier answers; the driver's notes record its start. Over a
//! socket a connection has no label, so in a ledger without notes all processes of one program
//! count as one client.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use serde::Serialize;
use sim::Class;
use sim::ledger::{Digest, Kind, Record};
use sim::world::Time;

use super::trigger::{self, Trigger};

/// Need for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Need {
    /// No other need applies: the call returned news, changed something, waited for a change, or
    /// came after a failure.
    #[serde(rename = "needed")]
    Needed,
    /// The answer equals the last one that this client got to the same request.
    #[serde(rename = "re-read")]
    Reread,
    /// A login while a session was alive, a login that only the client's own logout made necessary,
    /// or that logout.
    #[serde(rename = "re-login")]
    Relogin,
    /// One lookup per object, where one call for all would do.
    #[serde(rename = "n+1")]
    PerObject,
}

impl Need {
    /// Returns the word for this need in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Needed => "needed",
            Self::Reread => "re-read",
            Self::Relogin => "re-login",
            Self::PerObject => "n+1",
        }
    }
}

/// Judgement of a call: whether it was needed, and its trigger.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// Sequence number in the ledger.
    pub seq: u64,
    /// Need for the call.
    pub need: Need,
    /// Trigger of the call, as far as the ledger shows.
    pub trigger: Trigger,
    /// True if the call is one of many about one object each, whatever its need is; false for the
    /// first of them.
    #[serde(rename = "perObject")]
    pub per_object: bool,
}

/// Idle time after which a session has ended: the default of vCenter.
const IDLE: Duration = Duration::from_secs(1800);
/// Maximum pause within a burst of lookups of one kind. A client that may send five requests per
/// second of the clock sends one every two seconds of world time, if world time runs ten times as
/// fast as the clock.
const TOGETHER: Duration = Duration::from_secs(15);
/// Minimum number of objects in a burst of lookups that counts as N+1. The lookup of a single node
/// may already use two UUIDs.
const MANY: usize = 3;
/// Health requests. They count as needed although the answer stays the same, because the client
/// must know whether the server is up now.
const HEALTH: [&str; 3] = ["get /healthz", "get /livez", "get /readyz"];
/// Operations without a variant for several objects.
const ONE_BY_ONE: [&str; 2] = ["tagging.tag.get", "tagging.category.get"];

/// Judges every call of a ledger, in its order. A sequence number that is not greater than the
/// previous one begins another ledger, as in the file of `conformance run --out`.
pub fn marks(records: &[Record]) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut from = 0;
    for at in 1..=records.len() {
        if at == records.len() || records[at].seq <= records[at - 1].seq {
            marks.extend(of_one_ledger(&records[from..at]));
            from = at;
        }
    }
    marks
}

fn of_one_ledger(records: &[Record]) -> Vec<Mark> {
    let calls: Vec<&Record> = records.iter().filter(|it| it.kind == Kind::Call).collect();
    let per_object = per_object(&calls);
    let relogins = relogins(records);
    let rereads = rereads(records);
    let triggers = trigger::triggers(records);
    let mark = |call: &&Record| {
        let seq = call.seq;
        let need = match call.class {
            Some(Class::Login) if relogins.contains(&seq) => Need::Relogin,
            Some(Class::Read) if rereads.contains(&seq) => Need::Reread,
            Some(Class::Read) if per_object.contains(&seq) => Need::PerObject,
            _ => Need::Needed,
        };
        let trigger = triggers.get(&seq).copied().unwrap_or(Trigger::Unknown);
        Mark { seq, need, trigger, per_object: per_object.contains(&seq) }
    };
    calls.iter().map(mark).collect()
}

/// A client of one server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Client<'a> {
    server: &'a str,
    face: Option<sim::Face>,
    label: &'a str,
    agent: &'a str,
}

impl<'a> Client<'a> {
    pub(super) fn of_call(call: &'a Record) -> Self {
        let caller = &call.client;
        // Over a socket, the ledger labels a client `anonymous` before its login and with its user
        // afterwards, so neither is a label.
        let is_label =
            caller.user.as_deref() != Some(&caller.client) && caller.client != "anonymous";
        let label = if is_label { caller.client.as_str() } else { "" };
        Self { server: &call.server, face: call.face, label, agent: &caller.user_agent }
    }
}

/// True for the driver's note that a replica starts. The new process has no earlier answers.
pub(super) fn is_start(record: &Record) -> bool {
    record.kind == Kind::Note && record.op.starts_with("replica ") && record.op.ends_with(" starts")
}

/// True for an event of the world that ends sessions or watches of clients.
pub(super) fn is_cut(record: &Record) -> bool {
    let words = ["session.expireAll", "cluster.endWatches", "vcenter.stop", "credentials.rotate"];
    record.kind == Kind::World && words.iter().any(|it| record.op.contains(it))
}

/// True if a call ended without an answer that its client can use: the connection broke, the server
/// refused the call (401, 403, 410, 429) or failed (from 500 on), or vCenter answered with a SOAP
/// fault. A "not found" is an answer. A wait for changes that the client itself ends, and a call
/// that has not ended, did not fail.
pub(super) fn failed(call: &Record) -> bool {
    let Some(ended) = &call.ended else { return false };
    match (ended.broken, ended.status) {
        // A client may end its wait for changes.
        (Some("abandoned"), _) if call.class == Some(Class::Longpoll) => false,
        (Some(_), _) => true,
        (None, Some(401 | 403 | 410 | 429)) => true,
        (None, Some(status)) => match ended.fault.as_deref() {
            Some("NotFound" | "ManagedObjectNotFound") => false,
            Some(_) if call.face == Some(sim::Face::Soap) => true,
            _ => status >= 500,
        },
        (None, None) => false,
    }
}

/// Returns the sequence numbers of the reads whose answer equals the last one to this client for
/// the same request. Leaves out a read if, since that last answer, a call of the client failed,
/// sessions or watches ended, or a replica started: the client must make sure then. Leaves out
/// health requests, too.
fn rereads(records: &[Record]) -> BTreeSet<u64> {
    let mut served: HashMap<(Client<'_>, RequestIdentity), (Digest, u64)> = HashMap::new();
    let mut doubts: HashMap<Client<'_>, u64> = HashMap::new();
    let mut pages: HashMap<(Client<'_>, &str), u32> = HashMap::new();
    let mut everybody_doubts = 0;
    let mut found = BTreeSet::new();
    for record in records {
        if is_start(record) {
            served.clear();
        }
        if is_cut(record) {
            everybody_doubts = record.seq;
        }
        if record.kind != Kind::Call {
            continue;
        }
        let client = Client::of_call(record);
        if failed(record) {
            doubts.insert(client, record.seq);
            continue;
        }
        let digest = record.ended.as_ref().and_then(|it| it.digest);
        let (Some(Class::Read), Some(digest)) = (record.class, digest) else { continue };
        if HEALTH.contains(&record.op.as_str()) {
            continue;
        }
        let page = pages.entry((client.clone(), page_of(record))).or_default();
        *page = if is_next_page(record) { *page + 1 } else { 0 };
        let request = RequestIdentity::of_call(record, *page);
        let doubted = doubts.get(&client).copied().unwrap_or(0).max(everybody_doubts);
        let before = served.insert((client, request), (digest, record.seq));
        if before.is_some_and(|(last, at)| last == digest && at > doubted) {
            found.insert(record.seq);
        }
    }
    found
}

/// A request as the ledger records it. Leaves out the resource version and the timeout, which may
/// differ between equal requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RequestIdentity {
    op: String,
    object: [Option<String>; 4],
    detail: String,
    page: u32,
}

impl RequestIdentity {
    fn of_call(call: &Record, page: u32) -> Self {
        let target = &call.target;
        let (namespace, name) = (target.namespace.clone(), target.name.clone());
        let (moref, uuid) = (target.moref.clone(), target.uuid.clone());
        let detail = &call.req.detail;
        let detail = if call.face.is_some_and(sim::Face::is_kubernetes) {
            let passing = |it: &&str| {
                !["resourceVersion=", "timeoutSeconds="].iter().any(|key| it.starts_with(key))
            };
            detail.split(' ').filter(passing).collect::<Vec<_>>().join(" ")
        } else {
            detail.clone()
        };
        Self { op: call.op.clone(), object: [namespace, name, moref, uuid], detail, page }
    }
}

/// Returns the operation of a read without the prefix `Continue`, so that all pages of the read
/// have the same operation.
fn page_of(call: &Record) -> &str {
    call.op.strip_prefix("Continue").unwrap_or(&call.op)
}

fn is_next_page(call: &Record) -> bool {
    call.op.starts_with("Continue") || call.req.detail.split(' ').any(|it| it == "continue")
}

/// Returns the sequence numbers of the logins of a client whose session was alive, and of the
/// logins after the client's own logout, together with those of these logouts.
fn relogins(records: &[Record]) -> BTreeSet<u64> {
    #[derive(Clone, Copy)]
    enum Session {
        Alive(Time),
        /// The client logged out with the call of this sequence number.
        Left(u64),
    }
    let mut sessions: BTreeMap<Client<'_>, Session> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for record in records {
        if is_start(record) || is_cut(record) {
            sessions.clear();
        }
        if record.kind != Kind::Call {
            continue;
        }
        let client = Client::of_call(record);
        if record.class != Some(Class::Login) {
            if failed(record) {
                // After a refused or lost call, the client has a reason to log in again.
                sessions.remove(&client);
            } else if let Some(Session::Alive(used)) = sessions.get_mut(&client) {
                *used = record.ended.as_ref().map_or(record.t, |it| it.at.max(record.t));
            }
            continue;
        }
        if is_logout(record) {
            if matches!(sessions.get(&client), Some(Session::Alive(_))) {
                sessions.insert(client, Session::Left(record.seq));
            }
        } else if is_login(record) {
            match sessions.get(&client) {
                Some(Session::Alive(used)) if record.t.since(*used) < IDLE => {
                    found.insert(record.seq);
                }
                Some(Session::Left(logout)) => {
                    found.extend([*logout, record.seq]);
                }
                _ => {}
            }
            if record.succeeded() {
                sessions.insert(client, Session::Alive(record.t));
            }
        }
    }
    found
}

fn is_logout(call: &Record) -> bool {
    ["Logout", "cis.session.delete"].contains(&call.op.as_str())
}

pub(super) fn is_login(call: &Record) -> bool {
    call.class == Some(Class::Login)
        && (call.op.starts_with("Login") || call.op == "cis.session.create")
}

/// Returns the sequence numbers of the lookups in bursts about at least [`MANY`] different objects,
/// except the first lookup of each burst. Each lookup is about one object.
fn per_object(calls: &[&Record]) -> BTreeSet<u64> {
    // The kind is part of the key, because a session, a folder and a machine do not form a burst.
    let mut bursts: BTreeMap<(Client<'_>, &str, Option<&str>), Vec<&Record>> = BTreeMap::new();
    let mut found = BTreeSet::new();
    let mut close = |burst: &[&Record]| {
        let objects: BTreeSet<&str> = burst.iter().filter_map(|it| object(it)).collect();
        if objects.len() >= MANY {
            found.extend(burst.iter().skip(1).map(|it| it.seq));
        }
    };
    for call in calls {
        let op = call.op.as_str();
        if call.class != Some(Class::Read) || ONE_BY_ONE.contains(&op) || object(call).is_none() {
            continue;
        }
        let kind = call.target.kind.as_deref();
        let burst = bursts.entry((Client::of_call(call), op, kind)).or_default();
        if burst.last().is_some_and(|last| call.t.since(last.t) > TOGETHER) {
            close(&std::mem::take(burst));
        }
        burst.push(call);
    }
    bursts.values().for_each(|burst| close(burst));
    found
}

/// Returns the name, else the UUID, else the reference of the object that a call is about; `None`
/// if the call names no object.
pub(super) fn object(call: &Record) -> Option<&str> {
    let target = &call.target;
    let named = target.name.as_ref().or(target.uuid.as_ref()).or(target.moref.as_ref());
    named.map(String::as_str).filter(|it| !it.is_empty())
}
