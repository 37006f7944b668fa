//! Counts the calls of our provider by phase and operation for fleets of 10 to 5000 nodes, fits
//! them as a + b·N, and compares them with the calls of the upstream provider for the same work.
//!
//! Long polls and watches have their own counts, because their number grows with time and not with
//! work.

mod autoscaler;
pub mod calls;
mod phases;
mod print;
mod supervisor;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};
use sim::Class;
use sim::ledger::Record;

pub use autoscaler::{Fleet, ServerBudgets, measure_server};
pub use phases::Phase;
pub use print::budgets;

use crate::lab::ahead::in_order;
use crate::lab::{Mode, Run, Stage, memory, run};
use crate::scenario::{Backend, Scenario};
use provider::InstancesMode;

/// Backend and instances mode of our provider, for which calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountedMode {
    /// vCenter; the provider keeps a view through one property filter.
    Vcenter,
    /// vCenter; the provider reads the machines of its nodes periodically.
    VcenterPoll,
    /// vCenter; the provider makes the same calls as upstream.
    VcenterV1,
    /// A Supervisor, whose machines the provider watches.
    SupervisorWatch,
    /// A Supervisor, whose machines the provider lists periodically.
    SupervisorPoll,
    /// A Supervisor; the provider makes the same calls as upstream.
    SupervisorV1,
}

impl CountedMode {
    /// Every counted mode.
    pub const ALL: [Self; 6] = [
        Self::Vcenter,
        Self::VcenterPoll,
        Self::VcenterV1,
        Self::SupervisorWatch,
        Self::SupervisorPoll,
        Self::SupervisorV1,
    ];

    /// Returns the name for use in a headline.
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

    /// Returns the word for this mode in `budgets.yaml` and on the command line.
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

    /// Returns the phases whose calls are counted.
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

    /// Returns the fleet sizes, in nodes, that [`measure`] plays. For `v1` they are few and small,
    /// because its many calls take long.
    pub const fn sizes(self) -> &'static [u32] {
        match self {
            Self::Vcenter | Self::VcenterPoll => &[10, 100, 1000],
            Self::SupervisorWatch | Self::SupervisorPoll => &[10, 100, 1000, 5000],
            Self::VcenterV1 | Self::SupervisorV1 => &[10, 50],
        }
    }

    /// Returns `stage` with this backend and instances mode, and without the world's log.
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

/// Content of the committed `budgets.yaml`.
const BUDGETS: &str = include_str!("../../budgets.yaml");

/// Counts of one phase, with their bounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Name of the phase.
    pub phase: &'static str,
    /// Description of the phase, for people.
    pub what: &'static str,
    /// Number of calls to vCenter or Supervisor by fleet size, without long polls and watches.
    pub calls: BTreeMap<u32, u64>,
    /// Number of long polls and watches by fleet size.
    pub polls: BTreeMap<u32, u64>,
    /// Number of calls to vCenter or Supervisor by operation, long polls and watches included.
    pub operations: BTreeMap<String, Counts>,
    /// Number of writes to the cluster by fleet size, without leases.
    pub writes: BTreeMap<u32, u64>,
    /// Fit of `calls`.
    pub fit: Fit,
    /// Number of calls of the upstream provider, as a formula and by fleet size; without sizes if
    /// it is unknown.
    pub upstream: (&'static str, BTreeMap<u32, u64>),
    /// Maximum number of calls of our provider by fleet size, without long polls and watches.
    pub allowed: BTreeMap<u32, u64>,
    /// Maximum number of long polls and watches of our provider, for every fleet size.
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

/// A line `a + b·N` for numbers of calls, fitted by least squares; N is the fleet size in nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// Number of calls that does not depend on the fleet size.
    pub a: f64,
    /// Number of additional calls per node.
    pub b: f64,
    /// Coefficient of determination of the fit, at most 1.
    pub r2: f64,
}

/// Counts of one backend and instances mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Backend and instances mode whose calls are counted.
    pub subject: CountedMode,
    /// One row per phase.
    pub rows: Vec<Row>,
    /// Bound that the provider exceeded, by fleet size. Its run ended early, so its counts are
    /// incomplete.
    #[serde(rename = "cutShort", skip_serializing_if = "BTreeMap::is_empty")]
    pub cut_short: BTreeMap<u32, String>,
}

/// One counted mode in `budgets.yaml`: the exact numbers of calls, of long polls and watches, and
/// of writes by phase, and of calls by phase and operation, each by fleet size.
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

/// Content of `budgets.yaml`.
#[derive(Clone, Debug, Deserialize)]
struct AllBudgets {
    /// Budgets of the server for the Cluster Autoscaler.
    autoscaler: ServerBudgets,
    /// Budgets of the provider by counted mode.
    #[serde(flatten)]
    modes: BTreeMap<CountedMode, Budgets>,
}

/// Returns the committed budgets.
fn committed() -> AllBudgets {
    serde_saphyr::from_str(BUDGETS).expect("a test verifies that budgets.yaml parses")
}

/// Counts the calls of our provider in every phase, for all counted modes of these backends and
/// their fleet sizes, on up to `threads` threads.
pub fn measure(stage: &Stage, backends: &[Backend], threads: NonZeroUsize) -> Vec<Table> {
    let subjects: Vec<CountedMode> =
        CountedMode::ALL.into_iter().filter(|it| backends.contains(&it.backend())).collect();
    let has_large_fleet = |it: &CountedMode| it.sizes().iter().any(|n| *n > 1000);
    let measure = |subject: &CountedMode| measure_sizes(stage, *subject, subject.sizes());
    in_order(threads, &subjects, has_large_fleet, measure, |tables| tables.collect())
}

/// Counts the calls of one mode in every phase, for these fleet sizes.
pub fn measure_sizes(stage: &Stage, subject: CountedMode, sizes: &[u32]) -> Table {
    let phases = subject.phases();
    let stage = subject.stage(stage);
    let mut rows: Vec<Row> = phases.iter().map(Phase::empty_row).collect();
    let mut cut_short = BTreeMap::new();
    // Begins with the largest fleet, for which others wait.
    for n in sizes.iter().rev().copied() {
        let mut last: Option<(Scenario, Run, memory::Reservation)> = None;
        for (phase, row) in phases.iter().zip(&mut rows) {
            let scenario = (phase.scenario)(n);
            // Gives the memory back before it takes that of the next run, so that others get a turn.
            let kept = last.take().filter(|(of, ..)| *of == scenario);
            let (_, played, memory) = kept.unwrap_or_else(|| {
                let memory = memory::reserve(memory::estimate_without_log(n));
                (scenario.clone(), run(&scenario, &stage), memory)
            });
            row.count(phase, n, &played);
            if let Some(bound) = played.exceeded_bound {
                cut_short.insert(n, bound.to_string());
            }
            last = Some((scenario, played, memory));
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
    Table { subject, rows, cut_short }
}

impl Row {
    /// Counts the calls of this phase in a run with a fleet of `n` nodes.
    fn count(&mut self, phase: &Phase, n: u32, run: &Run) {
        let calls: Vec<_> = run.calls_in(phase.name).collect();
        let about = calls.iter().filter(|call| run.backend().receives(call));
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

/// Compares measured counts with committed ones, for the sizes that were measured, and adds a line
/// to `found` for each difference.
fn compare(
    found: &mut Vec<String>,
    what: &str,
    seen: &BTreeMap<u32, u64>,
    wanted: Option<&BTreeMap<u32, u64>>,
) {
    for (n, seen) in seen {
        let wanted = wanted.and_then(|wanted| wanted.get(n));
        if wanted != Some(seen) {
            let wanted = wanted.map_or("missing".to_owned(), u64::to_string);
            found.push(format!("budgets.yaml: {what}.{n} is {wanted}, measured {seen}"));
        }
    }
}

impl Table {
    /// Returns a text for each run that ended early, for each difference from the committed budgets,
    /// and for each count that exceeds its maximum.
    pub fn deviations(&self) -> Vec<String> {
        let title = self.subject.word();
        let Some(budgets) = committed().modes.remove(&self.subject) else {
            return vec![format!("budgets.yaml: {title} is missing")];
        };
        let ended = |(n, bound): (&u32, &String)| {
            format!(
                "{title}: the run with {n} nodes ended early, so its counts are incomplete: the provider used {bound}"
            )
        };
        let mut found: Vec<String> = self.cut_short.iter().map(ended).collect();
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
                let is_due = row.calls.keys().any(|n| count_at(wanted, *n) > 0);
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
fn count_at(counts: &BTreeMap<u32, u64>, n: u32) -> u64 {
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
    use crate::lab::ExceededBound;

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
                "budgets.yaml: calls.1000 is missing, measured 4"
            ]
        );
    }

    #[test]
    fn a_run_that_ended_early_is_a_deviation_that_names_the_bound() {
        let bound = ExceededBound::Processor(std::time::Duration::from_secs(300));
        let cut_short = [(5000, bound.to_string())].into();
        let table = Table { subject: CountedMode::SupervisorPoll, rows: Vec::new(), cut_short };
        assert_eq!(
            table.deviations(),
            [
                "supervisor-poll: the run with 5000 nodes ended early, so its counts are incomplete: \
                 the provider used more than 300 s of processor time"
            ]
        );
    }

    #[test]
    fn the_committed_budgets_parse_and_cover_every_phase() {
        let all = serde_saphyr::from_str::<AllBudgets>(BUDGETS).unwrap().modes;
        assert_eq!(all.keys().copied().collect::<Vec<_>>(), CountedMode::ALL);
        for (subject, budgets) in all {
            let n = subject.phases().len();
            let Budgets { calls, long_polls, cluster_writes, operations } = budgets;
            let rows = [calls.len(), long_polls.len(), cluster_writes.len(), operations.len()];
            assert_eq!(rows, [n; 4], "{}", subject.title());
        }
    }
}
