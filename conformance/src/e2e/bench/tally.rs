//! Calls of a phase, counted: from ledger lines and audit lines of a cluster, or from the ledger of a run in virtual time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sim::Class;
use sim::ledger::Record;

use crate::backend::Backend;

/// Calls of one phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tally {
    /// To vCenter or Supervisor, by operation; long polls and watches are apart.
    pub(super) calls: BTreeMap<String, u64>,
    /// Long polls, keep-alives and watches, by operation: they come with the time that passes.
    pub(super) waits: BTreeMap<String, u64>,
    /// Bytes of their answers.
    pub(super) bytes: u64,
    /// Sessions opened.
    pub(super) logins: u64,
    /// To the cluster, by operation; leases and watches are apart.
    pub(super) cluster: BTreeMap<String, u64>,
    /// To leases, and watches.
    pub(super) cluster_waits: BTreeMap<String, u64>,
}

impl Tally {
    /// How many calls, those apart not counted.
    pub(super) fn total(&self) -> u64 {
        self.calls.values().sum()
    }

    /// How many writes to Nodes and events.
    pub(super) fn writes(&self) -> u64 {
        let writes = ["create ", "patch ", "update ", "delete "];
        let is_write = |op: &str| writes.iter().any(|it| op.starts_with(it));
        self.cluster.iter().filter(|(op, _)| is_write(op)).map(|(_, n)| n).sum()
    }

    fn machine_call(&mut self, op: &str, class: Option<Class>, bytes: u64) {
        let waits =
            class == Some(Class::Longpoll) || op.starts_with("watch ") || op == "CurrentTime";
        let counts = if waits { &mut self.waits } else { &mut self.calls };
        *counts.entry(op.to_owned()).or_default() += 1;
        self.bytes += bytes;
        self.logins += u64::from(["Login", "LoginByToken", "cis.session.create"].contains(&op));
    }

    fn cluster_call(&mut self, op: &str) {
        let waits = op.ends_with(" leases") || op.starts_with("watch ");
        let counts = if waits { &mut self.cluster_waits } else { &mut self.cluster };
        *counts.entry(op.to_owned()).or_default() += 1;
    }

    /// Of a run in virtual time, in this phase.
    pub(super) fn of_records<'a>(
        records: impl Iterator<Item = &'a Record>,
        backend: Backend,
    ) -> Self {
        let mut tally = Self::default();
        for call in records {
            if backend.takes(call) {
                let bytes = call.ended.as_ref().map_or(0, |it| it.bytes);
                tally.machine_call(&call.op, call.class, bytes);
            } else if call.is_cluster_call() {
                tally.cluster_call(&call.op);
            }
        }
        tally
    }

    /// Of a simulator's ledger, as JSON lines, and of an audit log, as JSON lines.
    pub(super) fn of_lines(ledger: &[Line], audit: &[Audited]) -> Self {
        let mut tally = Self::default();
        for line in ledger {
            tally.machine_call(&line.op, line.class(), line.bytes());
        }
        for line in audit {
            tally.cluster_call(&line.operation());
        }
        tally
    }
}

/// A line of a simulator's ledger, as far as it is counted.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Line {
    pub(super) seq: u64,
    pub(super) kind: String,
    pub(super) op: String,
    #[serde(default)]
    class: Option<String>,
    #[serde(default)]
    ended: Option<Ended>,
}

#[derive(Clone, Debug, Deserialize)]
struct Ended {
    bytes: u64,
}

impl Line {
    /// Calls alone are counted: what happens in the world, and notes, are lines too.
    pub(super) fn is_call(&self) -> bool {
        self.kind == "call"
    }

    /// Whether it waits for something to happen.
    pub(super) fn waits(&self) -> bool {
        self.class() == Some(Class::Longpoll)
    }

    fn class(&self) -> Option<Class> {
        let all = [Class::Read, Class::Write, Class::Login, Class::Longpoll, Class::Task];
        let word = self.class.as_deref()?;
        all.into_iter().find(|it| it.tag().strip_prefix('@') == Some(word))
    }

    fn bytes(&self) -> u64 {
        self.ended.as_ref().map_or(0, |it| it.bytes)
    }
}

/// A line of an audit log, as far as it is counted.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Audited {
    verb: String,
    #[serde(default)]
    object_ref: Option<Object>,
    #[serde(rename = "requestURI")]
    uri: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Object {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: String,
}

impl Audited {
    /// As the ledger of a simulator names it: `patch nodes/status`.
    fn operation(&self) -> String {
        match &self.object_ref {
            None => format!("{} {}", self.verb, self.uri),
            Some(Object { resource, subresource }) if subresource.is_empty() => {
                format!("{} {resource}", self.verb)
            }
            Some(Object { resource, subresource }) => {
                format!("{} {resource}/{subresource}", self.verb)
            }
        }
    }
}
