//! Sweeps: many runs of each life, each with one failure that the sweep adds.
//!
//! The model is SQLite's "fail the n-th malloc", applied to an API. The calls come from a run of
//! each [life](crate::lives) without failures, the healthy run. The sweep [`SweepKind::Faults`]
//! makes calls fail in every way that [`fault_kinds`](crate::scenario::fault_kinds) has for their
//! face, once per face, operation, kind of object and phase. If a failure loses the answer, the
//! sweep tries it without and with the operation carried out. The sweep [`SweepKind::Crashes`]
//! kills a replica that waits for the answer to a write to the workload cluster, once if the server
//! has carried out the write and once if it has not. The sweep [`SweepKind::Stale`] answers reads
//! with the previous version of the data. All safety and liveness invariants judge every run, apart
//! from the exemptions of the lives. Sweeps use no randomness of their own, so the same build and
//! seed have the same trials.

mod crashes;
mod faults;
mod journal;
mod stale;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::mpsc;

use sim::Face;
use sim::world::Time;

use crate::judge::Violation;
use crate::lab::{Mode, Run, Stage, run};
use crate::lives::{self, Life};
use crate::scenario::Scenario;
pub use journal::Journal;

/// A kind of sweep, by the failures that it injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SweepKind {
    /// In each trial one call fails in one way.
    Faults,
    /// In each trial one replica is killed while it waits for the answer to a write to the workload
    /// cluster, which the server has carried out or not.
    Crashes,
    /// In each trial the first read of one kind, or every such read, returns the previous version
    /// of the data.
    Stale,
}

impl SweepKind {
    /// Every kind, in the order in which the sweeps run.
    pub const ALL: [Self; 3] = [Self::Faults, Self::Crashes, Self::Stale];

    /// Returns the name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Faults => "faults",
            Self::Crashes => "crashes",
            Self::Stale => "stale",
        }
    }
}

/// One run of a sweep: a life with one failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Mode of the provider: backend and instances mode.
    pub mode: Mode,
    /// Name of the life.
    pub life: &'static str,
    /// Phase of the life in which the failure happens.
    pub phase: String,
    /// Failure that is injected.
    pub failure: Failure,
}

/// The failure of a trial.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The first matching call in the phase fails.
    Call {
        /// Face that receives the call.
        face: Face,
        /// Operation of the call.
        operation: String,
        /// Kind of object that the call is about, if any.
        kind: Option<String>,
        /// Name of the kind of failure.
        fault: &'static str,
        /// True if the server carries out the operation nevertheless.
        applied: bool,
    },
    /// The replica that makes a write is killed while it waits for the answer.
    Crash {
        /// Index of the replica.
        replica: usize,
        /// Operation of the write.
        operation: String,
        /// Name of the object that the replica writes; `None` if the call names none.
        object: Option<String>,
        /// Time at which the write arrives.
        at: Time,
        /// True if the server carries out the write.
        applied: bool,
    },
    /// Reads with one operation return the previous version of the data.
    Stale {
        /// Face that receives the reads.
        face: Face,
        /// Operation of the reads.
        operation: String,
        /// Kind of object that the reads are about, if any.
        kind: Option<String>,
        /// True if only the first read in the phase is stale; else all are.
        first: bool,
    },
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, life, phase, failure } = self;
        let mode = mode_name(*mode);
        match failure {
            Failure::Call { face, operation, kind, fault, applied } => {
                let kind = kind.as_deref().unwrap_or("-");
                let applied = if *applied { ", applied" } else { "" };
                let face = face.as_str();
                write!(f, "{mode}/{life}/{phase}: {face} {operation} of {kind}: {fault}{applied}")
            }
            Failure::Stale { face, operation, kind, first } => {
                let kind = kind.as_deref().unwrap_or("-");
                let reads = if *first { "the first is stale" } else { "each is stale" };
                write!(f, "{mode}/{life}/{phase}: {} {operation} of {kind}: {reads}", face.as_str())
            }
            Failure::Crash { replica, operation, object, at, applied } => {
                let object = object.as_deref().unwrap_or("-");
                let when = if *applied { "after" } else { "before" };
                write!(
                    f,
                    "{mode}/{life}/{phase}: replica {replica} killed {when} {operation} of {object} at {at}"
                )
            }
        }
    }
}

/// Returns the name of a mode in reports: `vcenter-auto`, `supervisor-poll`.
pub fn mode_name(mode: Mode) -> String {
    let instances = match mode {
        Mode::VCenter(instances) | Mode::Supervisor(instances) => instances,
    };
    format!("{}-{}", mode.backend(), instances.as_str())
}

/// A trial that broke an invariant.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Trial whose run broke invariants.
    pub trial: Trial,
    /// Violations in the run, without those that an exemption of the life permits.
    pub violations: Vec<Violation>,
}

/// Result of one trial.
#[derive(Clone, Debug)]
pub struct TrialResult {
    /// True if the failure happened. A trial without its failure proves nothing.
    pub fired: bool,
    /// Violations of invariants in the run, without those that an exemption of the life permits.
    pub violations: Vec<Violation>,
}

impl TrialResult {
    /// Judges the run of a trial.
    pub(crate) fn from_run(run: &Run) -> Self {
        Self { fired: run.fired(&RULE.into()) > 0, violations: Life::broken(run) }
    }
}

/// Result of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Number of runs.
    pub runs: usize,
    /// Number of runs in which the failure happened.
    pub fired: usize,
    /// Trials that broke an invariant.
    pub findings: Vec<Finding>,
    /// Trials whose failure never happened, so that they prove nothing.
    pub idle: Vec<Trial>,
}

/// Name of the fault rule of a trial.
const RULE: &str = "trial";

/// Returns every trial of these kinds in the mode of `stage`, one list per kind, each in a fixed order,
/// for the lives whose names `wanted` accepts. Plays each of these lives once without failures.
pub fn trials(
    kinds: &[SweepKind],
    stage: &Stage,
    wanted: impl Fn(&str) -> bool,
) -> Vec<Vec<Trial>> {
    let mut all = vec![Vec::new(); kinds.len()];
    for life in lives::all(stage.mode.backend()).iter().filter(|life| wanted(life.name)) {
        let healthy = run(&life.scenario, stage);
        for (trials, kind) in all.iter_mut().zip(kinds) {
            trials.extend(trials_of(*kind, life, &healthy));
        }
    }
    all
}

/// Returns every trial of one kind in a life, in a fixed order. `healthy` is a run of the life
/// without failures.
pub fn trials_of(kind: SweepKind, life: &Life, healthy: &Run) -> Vec<Trial> {
    let failures = match kind {
        SweepKind::Faults => faults::failures(life, healthy),
        SweepKind::Crashes => crashes::failures(life, healthy),
        SweepKind::Stale => stale::failures(life, healthy),
    };
    let (mode, life) = (healthy.stage.mode, life.name);
    let trial = |(phase, failure)| Trial { mode, life, phase, failure };
    failures.into_iter().map(trial).collect()
}

impl Trial {
    /// Returns the scenario of the trial: its life with its failure.
    ///
    /// # Panics
    ///
    /// If the mode has no life with this name. [`trials`] returns only trials of existing lives.
    pub fn scenario(&self) -> Scenario {
        let lives = lives::all(self.mode.backend());
        let life = lives.into_iter().find(|life| life.name == self.life);
        let life = life.expect("the mode of a trial has the life of the trial");
        match &self.failure {
            Failure::Call { .. } => faults::faulted(&life, self),
            Failure::Crash { .. } => crashes::crashed(&life, self),
            Failure::Stale { .. } => stale::outdated(&life, self),
        }
    }

    /// Plays the trial and returns its run.
    pub fn run(&self, stage: &Stage) -> Run {
        run(&self.scenario(), &Stage { mode: self.mode, ..stage.clone() })
    }

    /// Plays the trial and judges the run.
    pub fn play(&self, stage: &Stage) -> TrialResult {
        TrialResult::from_run(&self.run(stage))
    }
}

/// Plays trials, up to `jobs` at a time, and returns the report. Calls `ended` after each trial, in
/// the order in which the trials end.
pub fn sweep(
    stage: &Stage,
    trials: &[Trial],
    jobs: NonZeroUsize,
    mut ended: impl FnMut(&Trial, &TrialResult),
) -> Report {
    let next = Mutex::new(0..trials.len());
    let (sender, receiver) = mpsc::channel::<(usize, TrialResult)>();
    let mut results = BTreeMap::new();
    std::thread::scope(|scope| {
        for _ in 0..jobs.get().min(trials.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let taken =
                        next.lock().expect("no thread panics while it holds this lock").next();
                    let Some(index) = taken else { return };
                    // The receiver is dropped if `ended` panicked.
                    if sender.send((index, trials[index].play(stage))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (index, outcome) in receiver {
            ended(&trials[index], &outcome);
            results.insert(index, outcome);
        }
    });
    let mut report = Report::default();
    for (index, TrialResult { fired, violations }) in results {
        let trial = trials[index].clone();
        report.runs += 1;
        report.fired += usize::from(fired);
        if !fired {
            report.idle.push(trial.clone());
        }
        if !violations.is_empty() {
            report.findings.push(Finding { trial, violations });
        }
    }
    report
}

/// Returns every k-th trial, with the smallest k for which at most `n` are left; for `n` = 0, the
/// first trial. Equal arguments give equal trials.
pub fn sample(trials: &[Trial], n: usize) -> Vec<Trial> {
    let step = trials.len().div_ceil(n.max(1)).max(1);
    trials.iter().step_by(step).cloned().collect()
}
