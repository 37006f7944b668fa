//! What was called.

use serde::Deserialize;
use serde_json::{Map, Value};

/// How often each operation was called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Counts {
    /// Calls of all operations.
    pub total: u64,
    /// Per server and operation.
    pub operations: Vec<OperationCount>,
}

impl Counts {
    /// Calls of one operation, on all servers: `Login`, `GET /api/vcenter/vm`, `list nodes`.
    pub fn of(&self, op: &str) -> u64 {
        self.operations.iter().filter(|it| it.op == op).map(|it| it.calls).sum()
    }
}

/// How often one operation of one server was called.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct OperationCount {
    /// `vc0`, `cluster`, `supervisor`.
    pub server: String,
    /// The operation's name.
    pub op: String,
    /// How many calls.
    pub calls: u64,
}

/// One line of the ledger: a call, or something that was made to happen.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// Position, from 1.
    pub seq: u64,
    /// When, in nanoseconds of world time.
    pub t: u64,
    /// `call`, `world`, `fault` or `note`.
    pub kind: String,
    /// Who was asked; empty for what is no call.
    #[serde(default)]
    pub server: String,
    /// The operation, or what happened.
    pub op: String,
    /// Who asked.
    #[serde(default)]
    pub client: Client,
    /// How it ended; `None` while it is being served, and for what is no call.
    #[serde(default)]
    pub ended: Option<Ended>,
    /// Everything else that the line says: class, target, session, request, rules that matched.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Who asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Client {
    /// Its `User-Agent`.
    #[serde(default)]
    pub user_agent: Option<String>,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Ended {
    /// When, in nanoseconds of world time.
    pub at: u64,
    /// HTTP status; `None` if the connection broke.
    #[serde(default)]
    pub status: Option<u16>,
    /// Fault class, error type or reason.
    #[serde(default)]
    pub fault: Option<String>,
    /// Why there was no whole answer: `reset`, `blackhole`, `truncated`, `abandoned`.
    #[serde(default)]
    pub broken: Option<String>,
}
