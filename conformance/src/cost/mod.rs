//! Counts calls by phase and operation for fleets of 10 to 5000 nodes, fits them as a + b·N, and compares them with
//! the calls of the upstream provider for the same work.
//!
//! Long polls are counted apart: they grow with the time that passes and not with the work that is done.

pub mod bill;
mod phases;
mod print;
mod supervisor;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sim::Class;
use sim::ledger::Record;

pub use phases::Phase;
pub use print::budgets;

use crate::backend::Backend;
use crate::lab::{Mode, Run, Stage, run};
use crate::scenario::Scenario;
use provider::InstancesMode;

/// A way of reading machines whose cost is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// With vCenter, through one property filter.
    Vcenter,
    /// With vCenter, reading the machines of nodes periodically.
    VcenterPoll,
    /// With vCenter, with the same calls as upstream.
    VcenterV1,
    /// With a Supervisor that allows to watch machines.
    SupervisorWatch,
    /// With a Supervisor that allows to list machines but not to watch them.
    SupervisorPoll,
    /// With a Supervisor, with the same calls as upstream.
    SupervisorV1,
}

impl Subject {
    /// Every subject.
    pub const ALL: [Self; 6] = [
        Self::Vcenter,
        Self::VcenterPoll,
        Self::VcenterV1,
        Self::SupervisorWatch,
        Self::SupervisorPoll,
        Self::SupervisorV1,
    ];

    /// Returns the name in a headline.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Vcenter => "vCenter mode",
            Self::VcenterPoll => "vCenter mode, polling",
            Self::VcenterV1 => "vCenter mode, v1",
            Self::SupervisorWatch => "Supervisor mode, watching",
            Self::SupervisorPoll => "Supervisor mode, polling",
            Self::SupervisorV1 => "Supervisor mode, v1",
        }
    }

    /// Returns the word of `budgets.yaml` and the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Vcenter => "vcenter",
            Self::VcenterPoll => "vcenter-poll",
            Self::VcenterV1 => "vcenter-v1",
            Self::SupervisorWatch => "supervisor-watch",
            Self::SupervisorPoll => "supervisor-poll",
            Self::SupervisorV1 => "supervisor-v1",
        }
    }

    /// Returns the value of `--instances-mode`.
    pub const fn instances(self) -> &'static str {
        match self {
            Self::Vcenter => "auto",
            Self::SupervisorWatch => "watch",
            Self::VcenterPoll | Self::SupervisorPoll => "poll",
            Self::VcenterV1 | Self::SupervisorV1 => "v1",
        }
    }

    /// Returns the backend of the provider.
    pub const fn backend(self) -> Backend {
        match self {
            Self::Vcenter | Self::VcenterPoll | Self::VcenterV1 => Backend::VCenter,
            Self::SupervisorWatch | Self::SupervisorPoll | Self::SupervisorV1 => {
                Backend::Supervisor
            }
        }
    }

    /// Returns the phases.
    pub fn phases(self) -> &'static [Phase] {
        match self {
            Self::Vcenter => &phases::WATCHING,
            Self::VcenterPoll => &phases::POLLING,
            Self::VcenterV1 => &phases::V1,
            Self::SupervisorWatch => &supervisor::WATCHING,
            Self::SupervisorPoll => &supervisor::POLLING,
            Self::SupervisorV1 => &supervisor::V1,
        }
    }

    /// Returns the fleet sizes that the main job counts; few and small ones for upstream's calls, which are slow.
    pub const fn sizes(self) -> &'static [u32] {
        match self {
            Self::Vcenter | Self::VcenterPoll => &[10, 100, 1000],
            Self::SupervisorWatch | Self::SupervisorPoll => &[10, 100, 1000, 5000],
            Self::VcenterV1 | Self::SupervisorV1 => &[10, 50],
        }
    }

    /// Returns the stage for the provider of this subject.
    pub fn stage(self, stage: &Stage) -> Stage {
        let mode = match self {
            Self::Vcenter => Mode::VCenter(InstancesMode::Auto),
            Self::VcenterPoll => Mode::VCenter(InstancesMode::Poll),
            Self::VcenterV1 => Mode::VCenter(InstancesMode::V1),
            Self::SupervisorWatch => Mode::Supervisor(InstancesMode::Watch),
            Self::SupervisorPoll => Mode::Supervisor(InstancesMode::Poll),
            Self::SupervisorV1 => Mode::Supervisor(InstancesMode::V1),
        };
        Stage { mode, light: true, ..stage.clone() }
    }
}

/// The committed budgets.
const BUDGETS: &str = include_str!("../../budgets.yaml");

/// Calls of one phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The phase.
    pub phase: &'static str,
    /// Description of what is counted.
    pub what: &'static str,
    /// Calls to vCenter or Supervisor by fleet size, without long polls and watches.
    pub calls: BTreeMap<u32, u64>,
    /// Long polls and watches by fleet size.
    pub polls: BTreeMap<u32, u64>,
    /// All calls to vCenter or Supervisor by operation.
    pub operations: BTreeMap<String, Counts>,
    /// Writes to the cluster by fleet size, without leases.
    pub writes: BTreeMap<u32, u64>,
    /// The fit of the calls.
    pub fit: Fit,
    /// Calls of the upstream provider, as a formula and by fleet size.
    pub upstream: (&'static str, BTreeMap<u32, u64>),
    /// Maximum number of calls by fleet size.
    pub allowed: BTreeMap<u32, u64>,
    /// Maximum number of long polls.
    pub allowed_polls: u64,
}

/// Calls of one operation in one phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Counts {
    /// Number of calls by fleet size.
    pub calls: BTreeMap<u32, u64>,
    /// Fit of the calls.
    pub fit: Fit,
}

/// `a + b·N` by least squares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// Constant part.
    pub a: f64,
    /// Increase per node.
    pub b: f64,
    /// Coefficient of determination, at most 1.
    pub r2: f64,
}

/// The table of one subject.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Subject of the table.
    pub subject: Subject,
    /// One row per phase.
    pub rows: Vec<Row>,
}

/// `budgets.yaml`: exact calls per phase, operation and fleet size.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Budgets {
    calls: BTreeMap<String, BTreeMap<u32, u64>>,
    #[serde(rename = "longPolls")]
    long_polls: BTreeMap<String, BTreeMap<u32, u64>>,
    #[serde(rename = "clusterWrites")]
    cluster_writes: BTreeMap<String, BTreeMap<u32, u64>>,
    operations: BTreeMap<String, BTreeMap<String, BTreeMap<u32, u64>>>,
}

/// Measures every phase of these backends, for every fleet size.
pub fn measure(stage: &Stage, backends: &[Backend]) -> Vec<Table> {
    let subjects = || Subject::ALL.into_iter().filter(|it| backends.contains(&it.backend()));
    // Worlds are independent of each other, so every subject runs on a thread of its own.
    std::thread::scope(|scope| {
        let measure =
            |subject: Subject| scope.spawn(move || measure_sizes(stage, subject, subject.sizes()));
        let running: Vec<_> = subjects().map(measure).collect();
        let measured = running.into_iter().map(|it| it.join());
        measured.map(|it| it.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Fleets above this size are played one at a time in this process: two at once take twice the memory.
const LARGE: u32 = 1000;
static LARGE_TURN: Mutex<()> = Mutex::new(());

/// Measures every phase for these fleet sizes.
pub fn measure_sizes(stage: &Stage, subject: Subject, sizes: &[u32]) -> Table {
    let phases = subject.phases();
    let stage = subject.stage(stage);
    let mut rows: Vec<Row> = phases.iter().map(Phase::empty_row).collect();
    for n in sizes.iter().copied() {
        let _turn = (n > LARGE).then(|| LARGE_TURN.lock().unwrap_or_else(PoisonError::into_inner));
        let mut last: Option<(Scenario, Run)> = None;
        for (phase, row) in phases.iter().zip(&mut rows) {
            let scenario = (phase.scenario)(n);
            let played = last.take().filter(|(of, _)| *of == scenario).map(|(_, run)| run);
            let played = played.unwrap_or_else(|| run(&scenario, &stage));
            row.count(phase, n, &played);
            last = Some((scenario, played));
        }
    }
    for row in &mut rows {
        row.fit = fit(&row.calls);
        for counts in row.operations.values_mut() {
            for n in sizes {
                counts.calls.entry(*n).or_default();
            }
            counts.fit = fit(&counts.calls);
        }
    }
    Table { subject, rows }
}

impl Row {
    /// Counts the calls of this phase in a run with a fleet of `n` nodes.
    fn count(&mut self, phase: &Phase, n: u32, run: &Run) {
        let calls: Vec<_> = run.calls_in(phase.name).collect();
        let about = calls.iter().filter(|call| run.backend().takes(call));
        let (polls, others): (Vec<&Record>, Vec<&Record>) =
            about.copied().partition(|call| call.class == Some(Class::Longpoll));
        self.calls.insert(n, others.len() as u64);
        self.polls.insert(n, polls.len() as u64);
        for call in others.into_iter().chain(polls) {
            let counts = self.operations.entry(call.op.clone()).or_insert_with(Counts::none);
            *counts.calls.entry(n).or_default() += 1;
        }
        let writes = calls.iter().filter(|call| {
            call.is_cluster_call()
                && call.class == Some(Class::Write)
                && !call.op.contains("leases")
        });
        self.writes.insert(n, writes.count() as u64);
        if let Some(upstream) = phase.upstream {
            self.upstream.1.insert(n, upstream(n));
        }
        self.allowed.insert(n, (phase.allowed)(n));
    }
}

impl Counts {
    fn none() -> Self {
        Self { calls: BTreeMap::new(), fit: Fit { a: 0.0, b: 0.0, r2: 0.0 } }
    }
}

/// Compares measured counts with committed ones, for the sizes that were measured.
fn compare(
    found: &mut Vec<String>,
    what: &str,
    seen: &BTreeMap<u32, u64>,
    wanted: Option<&BTreeMap<u32, u64>>,
) {
    for (n, seen) in seen {
        let wanted = wanted.and_then(|wanted| wanted.get(n));
        if wanted != Some(seen) {
            let wanted = wanted.map_or("not there".to_owned(), u64::to_string);
            found.push(format!("budgets.yaml: {what}.{n} is {wanted}, measured {seen}"));
        }
    }
}

impl Table {
    /// Returns the differences from the committed budgets and the counts that exceed a maximum.
    pub fn deviations(&self) -> Vec<String> {
        let title = serde_json::to_value(self.subject).expect("a subject is a word");
        let title = title.as_str().unwrap_or_default();
        let all: BTreeMap<String, Budgets> =
            serde_saphyr::from_str(BUDGETS).expect("a test reads the committed budgets");
        let Some(budgets) = all.get(title) else {
            return vec![format!("budgets.yaml: {title} is not there")];
        };
        let mut found = Vec::new();
        for row in &self.rows {
            let phase = row.phase;
            for (what, seen, wanted) in [
                ("calls", &row.calls, &budgets.calls),
                ("longPolls", &row.polls, &budgets.long_polls),
                ("clusterWrites", &row.writes, &budgets.cluster_writes),
            ] {
                compare(&mut found, &format!("{title}.{what}.{phase}"), seen, wanted.get(phase));
            }
            let committed = budgets.operations.get(phase);
            for (op, counts) in &row.operations {
                let wanted = committed.and_then(|of| of.get(op));
                compare(
                    &mut found,
                    &format!("{title}.operations.{phase}.{op}"),
                    &counts.calls,
                    wanted,
                );
            }
            for (op, wanted) in committed.into_iter().flatten() {
                let is_due = row.calls.keys().any(|n| at(wanted, *n) > 0);
                if is_due && !row.operations.contains_key(op) {
                    found.push(format!(
                        "budgets.yaml: {title}.operations.{phase}.{op} was never called"
                    ));
                }
            }
            for (n, calls) in &row.calls {
                let allowed = row.allowed.get(n).copied().unwrap_or(0);
                if *calls > allowed {
                    found.push(format!(
                        "{title}: {phase} with {n} nodes: {calls} calls, {allowed} allowed"
                    ));
                }
            }
            for (n, polls) in &row.polls {
                let allowed = row.allowed_polls;
                if *polls > allowed {
                    found.push(format!(
                        "{title}: {phase} with {n} nodes: {polls} long polls, {allowed} allowed"
                    ));
                }
            }
        }
        found
    }
}

/// Returns the count for a fleet size, or 0 if it was not measured.
fn at(counts: &BTreeMap<u32, u64>, n: u32) -> u64 {
    counts.get(&n).copied().unwrap_or(0)
}

#[expect(clippy::cast_precision_loss, reason = "counts of calls are far below 2^53")]
pub(crate) fn fit(calls: &BTreeMap<u32, u64>) -> Fit {
    let n = calls.len() as f64;
    let points: Vec<(f64, f64)> = calls.iter().map(|(x, y)| (f64::from(*x), *y as f64)).collect();
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / n;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / n;
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let b = if variance == 0.0 { 0.0 } else { covariance / variance };
    let a = mean_y - b * mean_x;
    let total: f64 = points.iter().map(|(_, y)| (y - mean_y).powi(2)).sum();
    let rest: f64 = points.iter().map(|(x, y)| (y - a - b * x).powi(2)).sum();
    let r2 = if total == 0.0 { 1.0 } else { 1.0 - rest / total };
    Fit { a, b, r2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_fitted_exactly() {
        let line = fit(&[(10, 25), (100, 205), (1000, 2005)].into());
        assert!((line.a - 5.0).abs() < 1e-9 && (line.b - 2.0).abs() < 1e-9 && line.r2 > 0.999_999);
        let flat = fit(&[(10, 6), (100, 6), (1000, 6)].into());
        assert_eq!(flat.to_string(), "6.0 + 0.000·N");
    }

    #[test]
    fn a_count_that_differs_from_its_budget_or_has_none_is_a_deviation() {
        let mut found = Vec::new();
        let budget = BTreeMap::from([(10, 4), (100, 4)]);
        compare(&mut found, "calls", &[(10, 4)].into(), Some(&budget));
        assert_eq!(found, Vec::<String>::new());
        compare(&mut found, "calls", &[(10, 5), (1000, 4)].into(), Some(&budget));
        assert_eq!(
            found,
            [
                "budgets.yaml: calls.10 is 4, measured 5",
                "budgets.yaml: calls.1000 is not there, measured 4"
            ]
        );
    }

    #[test]
    fn the_committed_budgets_parse_and_cover_every_phase() {
        let all: BTreeMap<Subject, Budgets> = serde_saphyr::from_str(BUDGETS).unwrap();
        assert_eq!(all.keys().copied().collect::<Vec<_>>(), Subject::ALL);
        for (subject, budgets) in all {
            let n = subject.phases().len();
            let Budgets { calls, long_polls, cluster_writes, operations } = budgets;
            let rows = [calls.len(), long_polls.len(), cluster_writes.len(), operations.len()];
            assert_eq!(rows, [n; 4], "{}", subject.title());
        }
    }
}
