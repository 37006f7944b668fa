//! Results of cases without their worlds and ledgers, because memory cannot hold the worlds and
//! ledgers of all cases.

use std::fmt::Write;
use std::ops::Range;
use std::time::Duration;

use sim::ledger::Record;

use crate::checks::{Case, PlayedCase};
use crate::judge::verdict::Verdict;
use crate::judge::{Violation, truth};
use crate::lab::{Run, Stage, memory};
use crate::scenario::Backend;

/// Maximum number of records in a transcript.
const SHOWN: usize = 30;

/// Result of one case, with the text for the report.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// Name of the case.
    pub case: String,
    /// Verdict of the case.
    pub verdict: Verdict,
    /// Violations of invariants in the run, including those that do not affect the verdict.
    pub broken: Vec<Violation>,
    /// Wall time of the case.
    pub took: Duration,
    /// Number of calls in the case.
    pub calls: Calls,
    /// Text for the report: up to 30 records of the ledger, around the moment that the verdict
    /// names, else around the first violation, else the last records. After them, up to twelve
    /// Nodes at the end of the run, each beside its machine. Empty for a pass.
    pub evidence: String,
}

/// Number of calls of one case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls to vCenters.
    pub vcenter: usize,
    /// Calls to Supervisors.
    pub supervisor: usize,
    /// Calls to the workload cluster.
    pub cluster: usize,
}

impl CaseResult {
    /// Plays a case, calls `show` with its outcome, which still contains world and ledger, and
    /// returns the result. `clock` returns the wall time since any fixed point.
    ///
    /// # Errors
    /// Returns the error of `show`.
    pub(crate) fn play(
        case: &Case,
        stage: &Stage,
        clock: impl Fn() -> Duration,
        show: impl FnOnce(&PlayedCase) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let _memory = memory::reserve(memory::estimate(&case.scenario));
        let begin = clock();
        let outcome = case.run(stage);
        let took = clock().saturating_sub(begin);
        show(&outcome)?;
        Ok(Self::new(outcome, took))
    }

    /// Returns the result of `outcome` and drops its run.
    pub fn new(outcome: PlayedCase, took: Duration) -> Self {
        let is_pass = outcome.verdict.reason().is_none();
        let evidence = if is_pass { String::new() } else { evidence(&outcome) };
        let calls = Calls::in_run(&outcome.run);
        let PlayedCase { case, verdict, broken, run: _ } = outcome;
        Self { case, verdict, broken, took, calls, evidence }
    }
}

impl Calls {
    fn in_run(run: &Run) -> Self {
        let n = |of: fn(&Record) -> bool| run.calls().filter(|call| of(call)).count();
        Self {
            vcenter: n(Record::is_vcenter_call),
            supervisor: n(|call| Backend::Supervisor.receives(call)),
            cluster: n(Record::is_cluster_call),
        }
    }
}

fn evidence(outcome: &PlayedCase) -> String {
    let mut out = String::new();
    let records = &outcome.run.ledger;
    let (window, around) = window(outcome);
    let (from, to) = (window.start + 1, window.end);
    let _ = writeln!(out, "  transcript ({from} to {to} of {} records, {around}):", records.len());
    for record in &records[window] {
        let _ = writeln!(out, "    {record}");
    }
    let _ = writeln!(out, "  each Node beside its machine, at the end:");
    for line in truth(&outcome.run) {
        let _ = writeln!(out, "    {line}");
    }
    out
}

/// Returns the range of records for the transcript, and a phrase that says where it is: around the
/// moment that the verdict names, else around the first violation, else at the end.
fn window(outcome: &PlayedCase) -> (Range<usize>, String) {
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
