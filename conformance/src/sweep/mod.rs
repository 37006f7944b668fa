//! Exhaustive single faults: every call of a run, every way it can fail, one run each.
//!
//! SQLite's "fail the n-th malloc", applied to an API. The healthy run names the calls; each is made
//! to fail in every way that its front end knows, with and without the operation carried out, and
//! each of those runs is judged by the safety and liveness invariants. No randomness.

use std::collections::BTreeSet;
use std::time::Duration;

use sim::Face;
use sim::faults::{Between, Rule};
use sim::world::{Command, Topology};

use crate::checks::fault_kinds;
use crate::judge::{Violation, liveness, safety};
use crate::lab::{Stage, run};
use crate::scenario::{Act, Scenario};

/// A call that can fail: an operation on a kind of object in a phase.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    face: Face,
    operation: String,
    kind: Option<String>,
    phase: String,
}

/// One run of the sweep.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The call.
    pub point: Point,
    /// How it fails.
    pub fault: &'static str,
    /// Whether the operation is carried out all the same.
    pub applied: bool,
}

/// What a trial showed.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The trial.
    pub trial: Trial,
    /// What was broken.
    pub violations: Vec<Violation>,
}

/// What a sweep showed.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Distinct calls of the healthy run.
    pub points: usize,
    /// Runs.
    pub runs: usize,
    /// Runs whose fault fired.
    pub fired: usize,
    /// Runs in which something was broken.
    pub findings: Vec<Finding>,
    /// Trials whose fault never fired: they show nothing.
    pub idle: Vec<Trial>,
}

impl std::fmt::Display for Trial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Point { face, operation, kind, phase } = &self.point;
        let kind = kind.as_deref().unwrap_or("-");
        let applied = if self.applied { ", applied" } else { "" };
        write!(f, "{} {operation} of {kind} in {phase}: {}{applied}", face.as_str(), self.fault)
    }
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Phases of the scenario: name, begin, end.
const PHASES: [(&str, u64, u64); 4] =
    [("join", 0, 90), ("change", 90, 150), ("shutdown", 150, 300), ("delete", 300, 460)];

/// When every fault is healed. All must be well when the provider's periods say so.
const HEALED: Duration = s(460);

/// Join, address change, shutdown and delete, one after the other.
pub fn scenario() -> Scenario {
    let machine = |n: u32| sim::world::Named::from(format!("node-{n:04}").as_str());
    let mut scenario = Scenario::new("life", Topology::zones(3).machines(3), s(0));
    for (phase, begin, _) in PHASES {
        scenario = scenario.at(s(begin), Act::Phase(phase.into()));
    }
    let addresses = vec![vec![std::net::Ipv4Addr::new(10, 6, 0, 1).into()]];
    scenario
        .at(s(95), Command::SetAddresses { machine: machine(1), addresses })
        .at(s(155), Command::PowerOff(machine(2)))
        .at(s(305), Command::DeleteMachine(machine(3)))
        .at(HEALED, Act::Heal)
        .at(HEALED, Act::Phase("healed".into()))
        .settling()
}

/// Every trial, in a fixed order.
pub fn trials(stage: &Stage) -> Vec<Trial> {
    let healthy = run(&scenario(), stage);
    let points: BTreeSet<Point> = healthy
        .calls()
        .filter(|call| call.client.client == "provider")
        .filter_map(|call| {
            let phase =
                call.phase.as_deref().filter(|it| PHASES.iter().any(|(name, ..)| name == it))?;
            Some(Point {
                face: call.face?,
                operation: call.op.clone(),
                kind: call.target.kind.clone(),
                phase: phase.to_owned(),
            })
        })
        .collect();
    let mut trials = Vec::new();
    for point in points {
        for kind in fault_kinds(point.face) {
            for applied in [false, true] {
                if applied && !kind.loses_answer {
                    continue;
                }
                trials.push(Trial { point: point.clone(), fault: kind.name, applied });
            }
        }
    }
    trials
}

/// The scenario with the one fault of a trial: the first such call of the phase fails.
pub fn faulted(trial: &Trial) -> Scenario {
    let kind = fault_kinds(trial.point.face).into_iter().find(|it| it.name == trial.fault);
    let actions = kind.map(|kind| kind.actions).unwrap_or_default();
    let (_, begin, end) =
        PHASES.into_iter().find(|(name, ..)| *name == trial.point.phase).unwrap_or(PHASES[0]);
    let mut rule =
        Rule::new("trial", actions).on(trial.point.face).op([trial.point.operation.as_str()]);
    // Calls of earlier phases match too; the first within the window fires.
    rule.when.max = Some(1);
    rule.matcher.resource.kind.clone_from(&trial.point.kind);
    rule.when.between = Some(Between(s(begin), s(end)));
    let rule = if trial.applied { rule.applied() } else { rule };
    scenario().fault(rule)
}

/// Runs these trials. `seen` hears of each.
pub fn sweep(
    stage: &Stage,
    trials: &[Trial],
    mut seen: impl FnMut(&Trial, &[Violation]),
) -> Report {
    let points: BTreeSet<&Point> = trials.iter().map(|trial| &trial.point).collect();
    let mut report = Report { points: points.len(), ..Report::default() };
    for trial in trials {
        let run = run(&faulted(trial), stage);
        report.runs += 1;
        if run.fired("trial") > 0 {
            report.fired += 1;
        } else {
            report.idle.push(trial.clone());
        }
        let mut violations = safety(&run);
        violations.extend(liveness(&run));
        seen(trial, &violations);
        if !violations.is_empty() {
            report.findings.push(Finding { trial: trial.clone(), violations });
        }
    }
    report
}

/// Every so-many-th trial, so that about `n` are left; the same ones every time.
pub fn sample(trials: &[Trial], n: usize) -> Vec<Trial> {
    let step = trials.len().div_ceil(n.max(1)).max(1);
    trials.iter().step_by(step).cloned().collect()
}
