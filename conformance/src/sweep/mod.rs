//! Exhaustive single failures: each call of each life fails in each possible way, one run per failure.
//!
//! The model is SQLite's "fail the n-th malloc", applied to an API. The healthy run of each [life](crate::lives) lists its calls.
//! The first sweep ([`Kind::Faults`]) lets each call fail in every way that its front end knows, with and without the operation
//! carried out, once per operation, kind of object and phase. The second ([`Kind::Crashes`]) kills the provider before and after
//! each of its writes. The third ([`Kind::Stale`]) answers reads with the previous version of the world. All safety and liveness
//! invariants judge every run. The sweep uses no randomness: the same build has the same trials.

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
pub use journal::{Journal, JournalError};

/// A kind of sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One call fails in one way.
    Faults,
    /// The provider is killed before or after one write.
    Crashes,
    /// Reads are answered with the previous version of the world.
    Stale,
}

impl Kind {
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

/// One run of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Mode of the provider: backend and way of looking for machines.
    pub mode: Mode,
    /// Name of the life.
    pub life: &'static str,
    /// Phase of the life in which the failure happens.
    pub phase: String,
    /// The failure.
    pub failure: Failure,
}

/// The failure of a trial.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The first matching call in the phase fails.
    Call {
        /// Front end.
        face: Face,
        /// Operation.
        operation: String,
        /// Kind of object, if the call is about one.
        kind: Option<String>,
        /// Name of the fault kind.
        fault: &'static str,
        /// True if the operation is carried out all the same.
        applied: bool,
    },
    /// The replica that makes a write is killed while it waits for the answer.
    Crash {
        /// Index of the replica.
        replica: usize,
        /// Operation.
        operation: String,
        /// Name of the object that the replica writes.
        object: Option<String>,
        /// Time at which the write arrives.
        at: Time,
        /// True if the write is carried out.
        applied: bool,
    },
    /// Reads of one operation show the previous version of the world.
    Stale {
        /// Front end.
        face: Face,
        /// Operation.
        operation: String,
        /// Kind of object, if the call is about one.
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
    /// The trial.
    pub trial: Trial,
    /// The broken invariants.
    pub violations: Vec<Violation>,
}

/// Result of one trial.
#[derive(Clone, Debug)]
pub struct Ended {
    /// True if the failure happened; a trial without it shows nothing.
    pub fired: bool,
    /// The broken invariants.
    pub violations: Vec<Violation>,
}

impl Ended {
    /// Judges the run of a trial.
    pub(crate) fn of(run: &Run) -> Self {
        Self { fired: run.fired(RULE) > 0, violations: Life::broken(run) }
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
    /// Trials whose failure never happened; they show nothing.
    pub idle: Vec<Trial>,
}

/// Name of the fault rule of a trial.
const RULE: &str = "trial";

/// Returns every trial of one kind in one mode, in a fixed order, for the lives whose names `wanted` accepts.
pub fn trials(kind: Kind, stage: &Stage, wanted: impl Fn(&str) -> bool) -> Vec<Trial> {
    let lives = lives::all(stage.mode.backend());
    let of_life = |life: &Life| of_healthy(kind, life, &run(&life.scenario, stage));
    lives.iter().filter(|life| wanted(life.name)).flat_map(of_life).collect()
}

/// Returns every trial of one kind in a life, in a fixed order. `healthy` is a run of the life without failures.
pub(crate) fn of_healthy(kind: Kind, life: &Life, healthy: &Run) -> Vec<Trial> {
    let failures = match kind {
        Kind::Faults => faults::failures(life, healthy),
        Kind::Crashes => crashes::failures(life, healthy),
        Kind::Stale => stale::failures(life, healthy),
    };
    let (mode, life) = (healthy.stage.mode, life.name);
    let trial = |(phase, failure)| Trial { mode, life, phase, failure };
    failures.into_iter().map(trial).collect()
}

impl Trial {
    /// Returns the life with the failure added.
    ///
    /// # Panics
    ///
    /// When the trial names no life of its mode. [`trials`] makes only valid ones.
    pub fn scenario(&self) -> Scenario {
        let lives = lives::all(self.mode.backend());
        let life = lives.into_iter().find(|life| life.name == self.life);
        let life = life.expect("a trial is of a life of its mode");
        match &self.failure {
            Failure::Call { .. } => faults::faulted(&life, self),
            Failure::Crash { .. } => crashes::crashed(&life, self),
            Failure::Stale { .. } => stale::outdated(&life, self),
        }
    }

    /// Plays the trial.
    pub fn run(&self, stage: &Stage) -> Run {
        run(&self.scenario(), &Stage { mode: self.mode, ..stage.clone() })
    }

    /// Plays the trial and judges the run.
    pub fn play(&self, stage: &Stage) -> Ended {
        Ended::of(&self.run(stage))
    }
}

/// Plays these trials, `jobs` at a time. Calls `ended` for each one, in the order in which they end.
pub fn sweep(
    stage: &Stage,
    trials: &[Trial],
    jobs: NonZeroUsize,
    mut ended: impl FnMut(&Trial, &Ended),
) -> Report {
    let next = Mutex::new(0..trials.len());
    let (sender, receiver) = mpsc::channel::<(usize, Ended)>();
    let mut results = BTreeMap::new();
    std::thread::scope(|scope| {
        for _ in 0..jobs.get().min(trials.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let taken = next.lock().expect("no trial panics under this lock").next();
                    let Some(index) = taken else { return };
                    // The receiver is gone when the sweep was given up.
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
    for (index, Ended { fired, violations }) in results {
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

/// Returns every k-th trial, so that at most `n` are left; always the same ones.
pub fn sample(trials: &[Trial], n: usize) -> Vec<Trial> {
    let step = trials.len().div_ceil(n.max(1)).max(1);
    trials.iter().step_by(step).cloned().collect()
}
