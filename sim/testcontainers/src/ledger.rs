//! Records of sim's ledger, and counts of calls.

use serde::Deserialize;
use serde_json::{Map, Value};

/// Numbers of calls in the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Counts {
    /// Number of calls of all operations.
    pub total: u64,
    /// Number of calls per server and operation.
    pub operations: Vec<OperationCount>,
}

impl Counts {
    /// Returns the number of calls of the operation `op`, such as `Login`, `cis.session.create` or
    /// `list nodes`, on all servers.
    pub fn of(&self, op: &str) -> u64 {
        self.operations.iter().filter(|it| it.op == op).map(|it| it.calls).sum()
    }
}

/// Number of calls of one operation on one server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct OperationCount {
    /// Name of the server: `vc0`, `vc1` and so on, `cluster` or `supervisor`.
    pub server: String,
    /// Name of the operation, such as `Login` or `list nodes`.
    pub op: String,
    /// Number of calls in the ledger's memory.
    pub calls: u64,
}

/// A record of the ledger: a call, a change of the world, a change of the rules, or a note.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// Position in the ledger, from 1.
    pub seq: u64,
    /// Time of the record in nanoseconds of world time; for a call, that of its arrival.
    pub t: u64,
    /// Kind of the record: `call`, `world`, `fault` or `note`.
    pub kind: String,
    /// Name of the server that received the call; empty for a record that is not a call.
    #[serde(default)]
    pub server: String,
    /// Name of the operation, or text of the event or note.
    pub op: String,
    /// Client that made the call; empty for a record that is not a call.
    #[serde(default)]
    pub client: Client,
    /// End of the call; `None` while sim serves the call, and for a record that is not a call.
    #[serde(default)]
    pub ended: Option<Ended>,
    /// All other fields of the record, such as class, target, session, request, and the rules that
    /// matched.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Client that made a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Client {
    /// `User-Agent` header of the client; `None` if the record has none.
    #[serde(default)]
    pub user_agent: Option<String>,
}

/// End of a call: its time, its status and the failure in the answer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Ended {
    /// Time of the end in nanoseconds of world time.
    pub at: u64,
    /// HTTP status; `None` if the connection broke before sim sent a status.
    #[serde(default)]
    pub status: Option<u16>,
    /// SOAP fault class, vAPI error type or Kubernetes reason; `None` for an answer without one.
    #[serde(default)]
    pub fault: Option<String>,
    /// Reason for a missing or incomplete answer: `reset`, `truncated`, or `abandoned` if the
    /// client disconnected or the service stopped before sim answered, as after a `blackhole` rule.
    /// `None` for a complete answer.
    #[serde(default)]
    pub broken: Option<String>,
}
