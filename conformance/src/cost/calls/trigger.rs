//! Finds the trigger of each call, as far as the ledger shows it.
//!
//! The first of these rules that applies to a call decides:
//!
//! - calls in the driver's phases of a stop or a restart belong to these;
//! - calls from the start of a process to the first lookup of a single machine or write of a Node
//!   belong to the start;
//! - calls after a failure of anything but a write, or after an end of sessions or watches, up to
//!   the next successful read belong to a reconnect, and so does such a failing call without a
//!   phase;
//! - calls in another phase of the driver belong to the trigger that the phase names;
//! - reads shortly before a write that initializes or deletes a Node belong to a join or to a
//!   deletion;
//! - reads that recur belong to a period: at short intervals to the monitor period, else to the
//!   address sync period.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use sim::Class;
use sim::ledger::{Kind, Record};
use sim::world::Time;

use super::need::{Client, failed, is_cut, is_login, is_start, object};

/// Event that caused a call, as far as the ledger shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// The provider starts.
    StartUp,
    /// The provider starts with a fleet that it or another provider has initialized before.
    Restart,
    /// A node is initialized.
    Join,
    /// The address sync period passed, and nothing has changed.
    StatusPeriod,
    /// The address sync period passed, and machines have changed.
    Change,
    /// The provider checks a node that is NotReady.
    NotReady,
    /// A machine is gone, and the provider deletes the machine's Node.
    Deletion,
    /// Sessions or watches were lost, or a call other than a write failed.
    Reconnect,
    /// The provider was asked to stop.
    Stop,
    /// The ledger does not show the trigger.
    Unknown,
}

impl Trigger {
    /// Returns the words for this trigger in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StartUp => "start-up",
            Self::Restart => "restart",
            Self::Join => "join of nodes",
            Self::StatusPeriod => "status period",
            Self::Change => "status period, changes",
            Self::NotReady => "nodes NotReady",
            Self::Deletion => "deletion of a node",
            Self::Reconnect => "reconnect",
            Self::Stop => "stop",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the trigger of the calls in a phase of the driver, or `None` if the phase names
    /// none.
    fn of_phase(phase: &str) -> Option<Self> {
        Some(match phase {
            "join" => Self::Join,
            "steady" => Self::StatusPeriod,
            "change" => Self::Change,
            "not-ready" => Self::NotReady,
            "delete" => Self::Deletion,
            "session-lost" | "watch-lost" | "reconnect" => Self::Reconnect,
            "restart" | "takeover" => Self::Restart,
            "stop" => Self::Stop,
            _ => return None,
        })
    }
}

/// Maximum pause between calls of one burst; shorter than a monitor period.
const GAP: Duration = Duration::from_secs(4);
/// Maximum time from the end of a burst to a write that it prepared.
const SOON: Duration = Duration::from_secs(10);
/// Maximum interval that counts as the monitor period.
const MONITOR: Duration = Duration::from_secs(30);

/// Returns the trigger of each call, by sequence number.
pub(super) fn triggers(records: &[Record]) -> BTreeMap<u64, Trigger> {
    let bursts = bursts(records);
    let mut found = BTreeMap::new();
    let (mut starting, mut lost) = (true, false);
    for record in records {
        if is_start(record) {
            (starting, lost) = (true, false);
        }
        lost |= is_cut(record);
        if record.kind != Kind::Call {
            continue;
        }
        let phase = record.phase.as_deref().and_then(Trigger::of_phase);
        starting &= !is_about_one_machine(record) && !is_node_write(record);
        let trigger = match phase {
            Some(phase @ (Trigger::Stop | Trigger::Restart)) => phase,
            _ if starting => Trigger::StartUp,
            Some(phase) if !lost => phase,
            _ if lost || (failed(record) && record.class != Some(Class::Write)) => {
                Trigger::Reconnect
            }
            _ => bursts.get(&record.seq).copied().unwrap_or(Trigger::Unknown),
        };
        found.insert(record.seq, trigger);
        let news = record.class != Some(Class::Longpoll);
        if failed(record) && record.class != Some(Class::Write) {
            lost = true;
        } else if news && !is_login(record) && record.class != Some(Class::Write) {
            lost = false;
        }
    }
    found
}

/// True if the call is about one machine, or about its object in a Supervisor.
fn is_about_one_machine(call: &Record) -> bool {
    let kind = call.target.kind.as_deref();
    let is_machine = kind == Some("VirtualMachine") || call.target.uuid.is_some();
    is_machine && object(call).is_some()
}

/// True if the call writes a Node.
fn is_node_write(call: &Record) -> bool {
    call.class == Some(Class::Write) && call.is_cluster_call() && call.op.contains(" nodes")
}

/// Returns the trigger of each read, from the burst of reads to which it belongs. A burst contains
/// the reads of one client with pauses of at most [`GAP`]. Its trigger comes from the writes of
/// Nodes during the burst and up to [`SOON`] after it, else from the interval at which similar
/// bursts recur.
fn bursts(records: &[Record]) -> BTreeMap<u64, Trigger> {
    struct Burst {
        from: Time,
        to: Time,
        calls: Vec<u64>,
        ops: BTreeSet<String>,
    }
    let mut by_client: BTreeMap<Client<'_>, Vec<Burst>> = BTreeMap::new();
    let reads = |it: &&Record| it.kind == Kind::Call && it.class == Some(Class::Read);
    for call in records.iter().filter(reads) {
        let bursts = by_client.entry(Client::of_call(call)).or_default();
        match bursts.last_mut() {
            Some(last) if call.t.since(last.to) <= GAP => {
                last.to = call.t;
                last.calls.push(call.seq);
                last.ops.insert(call.op.clone());
            }
            _ => bursts.push(Burst {
                from: call.t,
                to: call.t,
                calls: vec![call.seq],
                ops: BTreeSet::from([call.op.clone()]),
            }),
        }
    }
    let written: Vec<(Time, Trigger)> = records.iter().filter_map(written).collect();
    let mut found = BTreeMap::new();
    for bursts in by_client.values() {
        for (n, burst) in bursts.iter().enumerate() {
            let within = |at: Time| at >= burst.from && at <= burst.to + SOON;
            let about = written.iter().filter(|(at, _)| within(*at)).map(|(_, what)| *what).min();
            let alike = |it: &&Burst| it.ops.intersection(&burst.ops).next().is_some();
            let before = bursts[..n].iter().rev().find(alike).map(|it| burst.from.since(it.from));
            let after = bursts[n + 1..].iter().find(alike).map(|it| it.from.since(burst.from));
            let every = before.into_iter().chain(after).min();
            let trigger = about.or_else(|| {
                every.map(|every| match every <= MONITOR {
                    true => Trigger::NotReady,
                    false => Trigger::StatusPeriod,
                })
            });
            let trigger = trigger.unwrap_or(Trigger::Unknown);
            found.extend(burst.calls.iter().map(|seq| (*seq, trigger)));
        }
    }
    found
}

/// Returns the time of a call that initializes or deletes a Node, with the trigger that such a call
/// shows. Returns `None` for other calls.
fn written(call: &Record) -> Option<(Time, Trigger)> {
    if !is_node_write(call) {
        return None;
    }
    let detail = &call.req.detail;
    if call.op.starts_with("delete") {
        Some((call.t, Trigger::Deletion))
    } else if detail.contains("providerID") || detail.contains("uninitialized") {
        Some((call.t, Trigger::Join))
    } else {
        None
    }
}
