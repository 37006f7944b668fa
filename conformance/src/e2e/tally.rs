//! Counts the calls of a phase or a scenario: in a cluster from the simulator's ledger and the API
//! server's audit log, in virtual time from the ledger of the run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sim::Class;
use sim::ledger::{Kind, Record};

use super::lab::simulator::Simulator;
use crate::scenario::Backend;

/// Numbers of calls in one phase or scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tally {
    /// Calls to vCenter or Supervisor by operation, without long polls, keep-alives and watches.
    pub(super) calls: BTreeMap<String, u64>,
    /// Long polls, keep-alives and watches by operation. Their number grows with the duration.
    pub(super) waits: BTreeMap<String, u64>,
    /// Bytes of the answers to the calls in `calls` and `waits`.
    pub(super) bytes: u64,
    /// Number of login calls to vCenter, of SOAP and vAPI, with or without success.
    pub(super) logins: u64,
    /// Calls to the cluster by operation, without those for leases and without watches.
    pub(super) cluster: BTreeMap<String, u64>,
    /// Calls to the cluster for leases, and watches, by operation.
    pub(super) cluster_waits: BTreeMap<String, u64>,
}

impl Tally {
    /// Returns the number of calls to vCenter or Supervisor, without long polls, keep-alives and
    /// watches.
    pub(super) fn total(&self) -> u64 {
        self.calls.values().sum()
    }

    /// Returns the number of create, patch, update and delete calls to the cluster, without those
    /// for leases.
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

    /// Counts the calls in the ledger of a simulator, or of a run in virtual time, which also has
    /// the calls to the cluster.
    pub(super) fn of_records<'a>(
        records: impl Iterator<Item = &'a Record>,
        backend: Backend,
    ) -> Self {
        let mut tally = Self::default();
        for call in records.filter(|it| it.kind == Kind::Call) {
            if backend.receives(call) {
                let bytes = call.ended.as_ref().map_or(0, |it| it.bytes);
                tally.machine_call(&call.op, call.class, bytes);
            } else if call.is_cluster_call() {
                tally.cluster_call(&call.op);
            }
        }
        tally
    }

    /// Adds the calls in these lines of an API server's audit log.
    pub(super) fn with_audit(mut self, audit: &[AuditEntry]) -> Self {
        for line in audit {
            self.cluster_call(&line.operation());
        }
        self
    }
}

/// A position in a simulator's ledger: the sequence number of the last record that was read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LedgerPosition(u64);

impl LedgerPosition {
    /// Returns the position behind the last record.
    pub(super) async fn now(simulator: &Simulator) -> anyhow::Result<Self> {
        let mut since = Self::default();
        since.calls(simulator).await?;
        Ok(since)
    }

    /// Counts the calls to vCenter or Supervisor since this position, and moves the position behind
    /// them. Leaves out the lab's own calls, which kubectl makes.
    pub(super) async fn calls(&mut self, simulator: &Simulator) -> anyhow::Result<Tally> {
        let records = simulator.ledger_since(&mut self.0).await?;
        let others = records.iter().filter(|it| !it.client.user_agent.starts_with("kubectl"));
        Ok(Tally::of_records(others, simulator.backend()))
    }
}

/// Fields of an audit log line from which the operation is made.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AuditEntry {
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

impl AuditEntry {
    /// Returns the operation as the ledger of a simulator names it, such as `patch nodes/status`.
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
