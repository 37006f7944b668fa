//! Records of the ledger, and counts of calls.

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
    /// Returns the number of calls of one operation on all servers: `Login`, `cis.session.create`, `list nodes`.
    pub fn of(&self, op: &str) -> u64 {
        self.operations.iter().filter(|it| it.op == op).map(|it| it.calls).sum()
    }
}

/// Number of calls of one operation on one server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct OperationCount {
    /// Name of the server: `vc0`, `cluster`, `supervisor`.
    pub server: String,
    /// Name of the operation.
    pub op: String,
    /// Number of calls.
    pub calls: u64,
}

/// A record of the ledger: a call, a change of the world, a change of the rules, or a note.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// Position in the ledger, from 1.
    pub seq: u64,
    /// Time in nanoseconds of world time.
    pub t: u64,
    /// `call`, `world`, `fault` or `note`.
    pub kind: String,
    /// Name of the server that received the call; empty for other records.
    #[serde(default)]
    pub server: String,
    /// Name of the operation, or text of the event or note.
    pub op: String,
    /// Client that made the call.
    #[serde(default)]
    pub client: Client,
    /// End of the call; `None` while sim serves the call, and for other records.
    #[serde(default)]
    pub ended: Option<Ended>,
    /// All other fields of the record: class, target, session, request, rules that matched.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Client that made a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Client {
    /// `User-Agent` header of the client.
    #[serde(default)]
    pub user_agent: Option<String>,
}

/// End of a call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Ended {
    /// Time in nanoseconds of world time.
    pub at: u64,
    /// HTTP status; `None` if the connection broke.
    #[serde(default)]
    pub status: Option<u16>,
    /// Fault class, error type or reason.
    #[serde(default)]
    pub fault: Option<String>,
    /// Reason for a missing or incomplete answer: `reset`, `blackhole`, `truncated`, `abandoned`.
    #[serde(default)]
    pub broken: Option<String>,
}
