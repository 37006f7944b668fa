//! How one case ended. Its world and its ledger are gone: a run of the catalogue would hold thousands of them.

use std::fmt::Write;
use std::ops::Range;
use std::time::Duration;

use sim::ledger::Record;

use crate::backend::Backend;
use crate::checks::Outcome;
use crate::judge::Violation;
use crate::lab::Run;
use crate::report::truth;
use crate::verdict::Verdict;

/// Records in a transcript.
const SHOWN: usize = 30;

/// How one case ended, and what a report says of it.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The case.
    pub case: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Invariants that were broken, whatever the verdict.
    pub broken: Vec<Violation>,
    /// How long it took.
    pub took: Duration,
    /// How much was called.
    pub calls: Calls,
    /// What happened around the moment of the verdict, and truth beside what the nodes say; empty for a pass.
    pub evidence: String,
}

/// Calls of one case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// To vCenters.
    pub vcenter: usize,
    /// To Supervisors.
    pub supervisor: usize,
    /// To the workload cluster.
    pub cluster: usize,
}

impl Judged {
    /// What is kept of an outcome.
    pub fn of(outcome: Outcome, took: Duration) -> Self {
        let is_pass = outcome.verdict.reason().is_none();
        let evidence = if is_pass { String::new() } else { evidence(&outcome) };
        let calls = Calls::of(&outcome.run);
        let Outcome { case, verdict, broken, run: _ } = outcome;
        Self { case, verdict, broken, took, calls, evidence }
    }
}

impl Calls {
    fn of(run: &Run) -> Self {
        let n = |of: fn(&Record) -> bool| run.calls().filter(|call| of(call)).count();
        Self {
            vcenter: n(Record::is_vcenter_call),
            supervisor: n(|call| Backend::Supervisor.takes(call)),
            cluster: n(Record::is_cluster_call),
        }
    }
}

fn evidence(outcome: &Outcome) -> String {
    let mut out = String::new();
    let records = &outcome.run.ledger;
    let (window, around) = window(outcome);
    let (from, to) = (window.start + 1, window.end);
    let _ = writeln!(out, "  transcript ({from} to {to} of {} records, {around}):", records.len());
    for record in &records[window] {
        let _ = writeln!(out, "    {record}");
    }
    let _ = writeln!(out, "  truth beside what the nodes say, at the end:");
    for line in truth(&outcome.run) {
        let _ = writeln!(out, "    {line}");
    }
    out
}

/// The records that a reader needs, and what they stand around: the moment that the verdict is about; the first broken
/// invariant otherwise; the end if there is neither.
fn window(outcome: &Outcome) -> (Range<usize>, String) {
    let records = &outcome.run.ledger;
    let told = outcome.verdict.reason().and_then(|why| why.at);
    let broken = || outcome.broken.first().map(|violation| violation.at);
    let (at, around) = match told.or_else(broken) {
        Some(at) => (records.partition_point(|it| it.t <= at), format!("around {at}")),
        None => (records.len(), "the last".to_owned()),
    };
    let begin = at.saturating_sub(SHOWN * 2 / 3).min(records.len().saturating_sub(SHOWN));
    (begin..records.len().min(begin + SHOWN), around)
}
