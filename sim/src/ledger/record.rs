//! Records of the ledger.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, de};
use sim_world::Time;

use super::Digest;
use crate::faults::Evaluation;
use crate::{Call, Caller, Class, Face, RequestNote, Target};

/// Kind of a record: a call, or a note about the world, the rules or the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// A call: a request to a face.
    Call,
    /// A change of the world or of the Supervisor's credentials by a test or the admin port.
    World,
    /// Addition or removal of a fault rule.
    Fault,
    /// A note of the code that runs the sim, such as a restart or a step of a check.
    Note,
}

/// End of a call: its time, its status, and facts about the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ended {
    /// Time of the end, in nanoseconds of world time.
    pub at: Time,
    /// HTTP status; absent if the call got no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Failure in the answer: vim25 fault class, vAPI error type or reason of a Kubernetes
    /// `Status`; for an answer without any of them, the HTTP reason or status code. `None` if the
    /// call did not fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Number of objects in the answer.
    pub objects: u64,
    /// Short text of the answer: sizes and states of instances, or the message of a failure. Only calls
    /// of Cluster Autoscalers have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Number of calls to other faces that arrived while the call was open. Only calls of Cluster
    /// Autoscalers have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
    /// Number of bytes of the answer's body that the server has sent. A body that is complete at
    /// the start counts as sent.
    pub bytes: u64,
    /// Digest of the answer to a read; absent for streams, and for answers that a rule corrupts. Of
    /// the answers that a rule cuts, only those with Kubernetes objects have a digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Reason for a missing or incomplete answer: `reset`, `truncated`, or `abandoned` if the
    /// caller disconnected, or if the call got no answer before the service stopped. The sim
    /// accepts `blackhole` in a ledger, but never writes it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "why_broken")]
    pub broken: Option<Reason>,
}

/// A value of [`BROKEN`]. The alias hides the reference from serde, which would otherwise borrow
/// the text from its input.
type Reason = &'static str;

/// All values of [`Ended::broken`].
const BROKEN: [&str; 4] = ["reset", "blackhole", "truncated", "abandoned"];

fn why_broken<'de, D: Deserializer<'de>>(text: D) -> Result<Option<Reason>, D::Error> {
    let Some(text) = Option::<String>::deserialize(text)? else { return Ok(None) };
    let known = BROKEN.into_iter().find(|it| *it == text);
    known.map(Some).ok_or_else(|| de::Error::unknown_variant(&text, &BROKEN))
}

/// A record of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Position in the ledger, from 1.
    pub seq: u64,
    /// Time of the record, in nanoseconds of world time; for a call, that of its arrival.
    pub t: Time,
    /// Kind of the record: call, change of the world, change of the rules, or note.
    pub kind: Kind,
    /// Phase that [`Ledger::set_phase`](super::Ledger::set_phase) had set; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Arc<str>>,
    /// Front end that served the call; `None` for a record that is not a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub face: Option<Face>,
    /// Name of the server that received the call; empty for a record that is not a call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// Name of the operation; for a record that is not a call, its text.
    pub op: String,
    /// Kind of work that the operation does; `None` for a record that is not a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Object that the call refers to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub target: Target,
    /// Client that made the call.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client: Caller,
    /// One-way digest of the session or credential; `None` if the call carries none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Part of the request that the ledger keeps.
    #[serde(default, skip_serializing_if = "is_default")]
    pub req: RequestNote,
    /// Evaluations of the rules that matched, whether they fired or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Evaluation>,
    /// End of the call; absent while the call is open, and for a record that is not a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Record {
    pub(super) fn call(
        seq: u64,
        t: Time,
        call: &Call,
        rules: Vec<Evaluation>,
        phase: Option<Arc<str>>,
    ) -> Self {
        let Call { face, server, operation, class, target, caller, session, request } =
            call.clone();
        Self {
            seq,
            t,
            kind: Kind::Call,
            phase,
            face: Some(face),
            server,
            op: operation,
            class: Some(class),
            target,
            client: caller,
            session,
            req: request,
            rules,
            ended: None,
        }
    }

    /// Number of bytes that the record takes in memory, without the texts in the end of the call,
    /// which are short, and without the phase, which records share.
    pub(super) fn size(&self) -> usize {
        let text = |it: &Option<String>| it.as_ref().map_or(0, String::len);
        let Target { kind, name, namespace, moref, uuid } = &self.target;
        let Caller { client, user_agent, user } = &self.client;
        let optional = [kind, name, namespace, moref, uuid, user, &self.session];
        let plain = [&self.server, &self.op, client, user_agent, &self.req.detail];
        let rules: usize =
            self.rules.iter().map(|it| size_of::<Evaluation>() + it.rule.as_str().len()).sum();
        let texts = optional.into_iter().map(text).chain(plain.into_iter().map(String::len));
        size_of::<Self>() + texts.sum::<usize>() + rules
    }

    /// True if the record is complete: a call that has ended, or a record that is not a call.
    pub(super) fn is_over(&self) -> bool {
        self.kind != Kind::Call || self.ended.is_some()
    }

    pub(super) fn note(seq: u64, t: Time, kind: Kind, op: String, phase: Option<Arc<str>>) -> Self {
        Self {
            seq,
            t,
            kind,
            phase,
            face: None,
            server: String::new(),
            op,
            class: None,
            target: Target::default(),
            client: Caller::default(),
            session: None,
            req: RequestNote::default(),
            rules: Vec::new(),
            ended: None,
        }
    }

    /// Parses a record from a line of a ledger file. Ignores fields that newer builds add.
    ///
    /// # Errors
    /// The reason why the line cannot be parsed.
    pub fn from_line(line: &str) -> serde_json::Result<Self> {
        serde_json::from_str(line)
    }

    /// Returns the record as one JSON object in canonical field order, without a line break.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("a record serializes to JSON")
    }

    /// True for a call to a vCenter, over SOAP or REST.
    pub fn is_vcenter_call(&self) -> bool {
        matches!(self.face, Some(Face::Soap | Face::Vapi))
    }

    /// True for a call to the workload cluster.
    pub fn is_cluster_call(&self) -> bool {
        self.face == Some(Face::Cluster)
    }

    /// True if a rule fired on the call.
    pub fn was_faulted(&self) -> bool {
        self.rules.iter().any(|rule| rule.fired)
    }

    /// True if the caller received a complete answer that is not a failure.
    pub fn succeeded(&self) -> bool {
        self.ended.as_ref().is_some_and(|ended| {
            ended.broken.is_none()
                && ended.fault.is_none()
                && ended.status.is_some_and(|it| it < 400)
        })
    }
}

impl std::fmt::Display for Record {
    /// Writes one line for people: of a call its time, server, operation, target, outcome and the
    /// rules that fired, of any other record its time and text.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>10} ", self.t.to_string())?;
        if self.kind != Kind::Call {
            return write!(f, "-- {}", self.op);
        }
        write!(f, "{:<8} {}", self.server, self.op)?;
        let target = &self.target;
        if let Some(name) = target.name.as_ref().or(target.moref.as_ref()).or(target.uuid.as_ref())
        {
            write!(f, " {name}")?;
        }
        match &self.ended {
            None => write!(f, " …")?,
            Some(ended) => {
                match (ended.broken, ended.status) {
                    (Some(broken), _) => write!(f, " → {broken}")?,
                    (None, Some(status)) => write!(f, " → {status}")?,
                    (None, None) => {}
                }
                if let Some(fault) = &ended.fault {
                    write!(f, " {fault}")?;
                }
                if let Some(answer) = &ended.answer {
                    write!(f, " ({answer})")?;
                }
                if let Some(n) = ended.behind.filter(|n| *n > 0) {
                    write!(f, " {n} calls behind")?;
                }
            }
        }
        for rule in self.rules.iter().filter(|rule| rule.fired) {
            write!(f, " [{}]", rule.rule)?;
        }
        Ok(())
    }
}
