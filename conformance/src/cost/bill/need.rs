//! Which call of a ledger was needed, and which was not: a pure function over its records.
//!
//! A call is judged by what its client knew when it made it. It is a *re-read* if it was told what it was last told; a
//! *re-login* if a session of it was alive, or would be had it not ended it itself; *N+1* if it is one of many about one
//! object each, where one about all would do. Everything else is needed, also what waits for news, what writes, and what
//! makes sure after a failure. Of several reasons the first in this order counts.
//!
//! Clients are told apart by the label of their connection or their user, and by their user agent. A process that is
//! started anew knows nothing: the driver's notes tell of that. In a ledger without them two processes of one program under
//! one account are one client.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use serde::Serialize;
use sim::Class;
use sim::ledger::{Digest, Kind, Record};
use sim::world::Time;

use super::trigger::{self, Trigger};

/// What a call was worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Need {
    /// Told the client something, changed something, or waited for something to happen.
    #[serde(rename = "needed")]
    Needed,
    /// The answer is what this client was last served.
    #[serde(rename = "re-read")]
    Reread,
    /// A login while a session was alive, or that would not be needed without the logout before; and that logout.
    #[serde(rename = "re-login")]
    Relogin,
    /// One look-up per object, where one for all would do.
    #[serde(rename = "n+1")]
    PerObject,
}

impl Need {
    /// As a table has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Needed => "needed",
            Self::Reread => "re-read",
            Self::Relogin => "re-login",
            Self::PerObject => "n+1",
        }
    }
}

/// A call, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// Its position in the ledger.
    pub seq: u64,
    /// What it was worth.
    pub need: Need,
    /// What brought it about, as far as the ledger tells.
    pub trigger: Trigger,
    /// Whether it is also one of many about one object each.
    #[serde(rename = "perObject")]
    pub per_object: bool,
}

/// A session that is not used for so long has ended, as vCenter has it unless it is told otherwise.
const IDLE: Duration = Duration::from_secs(1800);
/// Look-ups of one kind belong together until one comes so much later: a client that may ask five times a second of the clock
/// asks every two seconds of a world that lives ten times as fast.
const TOGETHER: Duration = Duration::from_secs(15);
/// So many objects are looked up one by one before anybody says that one call would do: a node has two UUIDs.
const MANY: usize = 3;
/// Whoever asks whether a server lives does not ask what it told.
const HEALTH: [&str; 3] = ["get /healthz", "get /livez", "get /readyz"];
/// Nothing gives several of these in one answer.
const ONE_BY_ONE: [&str; 2] = ["tagging.tag.get", "tagging.category.get"];

/// Judges every call of a ledger, in its order. A sequence number that is not greater than the one before begins another
/// ledger, as in the file that `conformance run --out` leaves.
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
    let triggers = trigger::of(records);
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

/// Who asks whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Client<'a> {
    server: &'a str,
    face: Option<sim::Face>,
    label: &'a str,
    agent: &'a str,
}

impl<'a> Client<'a> {
    pub(super) fn of(call: &'a Record) -> Self {
        let caller = &call.client;
        // Before its login a client over a socket is nobody; afterwards it is its user.
        let is_label =
            caller.user.as_deref() != Some(&caller.client) && caller.client != "anonymous";
        let label = if is_label { caller.client.as_str() } else { "" };
        Self { server: &call.server, face: call.face, label, agent: &caller.user_agent }
    }
}

/// Whether the driver says that a process begins and knows nothing.
pub(super) fn is_start(record: &Record) -> bool {
    record.kind == Kind::Note && record.op.starts_with("replica ") && record.op.ends_with(" starts")
}

/// Whether somebody ended sessions or watches from outside.
pub(super) fn is_cut(record: &Record) -> bool {
    let words = ["session.expireAll", "cluster.endWatches", "vcenter.stop", "credentials.rotate"];
    record.kind == Kind::World && words.iter().any(|it| record.op.contains(it))
}

/// Whether a call failed so that its client cannot know what holds now. That there is no such object is an answer.
pub(super) fn failed(call: &Record) -> bool {
    let Some(ended) = &call.ended else { return false };
    match (ended.broken, ended.status) {
        // Who waits for news may stop waiting.
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

/// Reads whose answer is what this client was last served for the same request, and it had no reason to doubt that.
fn rereads(records: &[Record]) -> BTreeSet<u64> {
    let mut served: HashMap<(Client<'_>, Request), (Digest, u64)> = HashMap::new();
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
        let client = Client::of(record);
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
        let request = Request::of(record, *page);
        let doubted = doubts.get(&client).copied().unwrap_or(0).max(everybody_doubts);
        let before = served.insert((client, request), (digest, record.seq));
        if before.is_some_and(|(last, at)| last == digest && at > doubted) {
            found.insert(record.seq);
        }
    }
    found
}

/// A request as far as the ledger keeps it; since when a client knows something is no part of its question.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Request {
    op: String,
    object: [Option<String>; 4],
    detail: String,
    page: u32,
}

impl Request {
    fn of(call: &Record, page: u32) -> Self {
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

/// Pages of what belong together.
fn page_of(call: &Record) -> &str {
    call.op.strip_prefix("Continue").unwrap_or(&call.op)
}

fn is_next_page(call: &Record) -> bool {
    call.op.starts_with("Continue") || call.req.detail.split(' ').any(|it| it == "continue")
}

/// Logins of a client whose session was alive or was ended by itself, and the logouts before those.
fn relogins(records: &[Record]) -> BTreeSet<u64> {
    #[derive(Clone, Copy)]
    enum Session {
        Alive(Time),
        /// It logged out itself, with this call.
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
        let client = Client::of(record);
        if record.class != Some(Class::Login) {
            if failed(record) {
                // Refused or lost: whoever logs in now has reason to.
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

/// Look-ups that are one of many, all but the first: in one burst, about one object each.
fn per_object(calls: &[&Record]) -> BTreeSet<u64> {
    // A session, a folder and a machine are not three of a kind.
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
        let burst = bursts.entry((Client::of(call), op, kind)).or_default();
        if burst.last().is_some_and(|last| call.t.since(last.t) > TOGETHER) {
            close(&std::mem::take(burst));
        }
        burst.push(call);
    }
    bursts.values().for_each(|burst| close(burst));
    found
}

/// The object that a call is about.
pub(super) fn object(call: &Record) -> Option<&str> {
    let target = &call.target;
    let named = target.name.as_ref().or(target.uuid.as_ref()).or(target.moref.as_ref());
    named.map(String::as_str).filter(|it| !it.is_empty())
}
