//! The sweep of single failures. Each trial makes one call fail, with one kind of failure: the
//! first call to a face with an operation and kind of object in a phase of a life.

use std::collections::BTreeSet;

use sim::Face;
use sim::faults::{Between, Rule};
use sim::ledger::Record;

use super::{Failure, RULE, Trial};
use crate::lab::Run;
use crate::lives::Life;
use crate::scenario::{Scenario, fault_kinds};

/// A call that can fail: phase, face, operation and kind of object.
pub(super) type Point = (String, Face, String, Option<String>);

/// Returns the calls of the healthy run that `wanted` accepts, in a fixed order. Calls with the
/// same phase, face, operation and kind of object count once. Leaves out calls on which the rule of
/// a trial could never fire.
pub(super) fn points(
    life: &Life,
    healthy: &Run,
    wanted: impl Fn(&Record) -> bool,
) -> BTreeSet<Point> {
    let phases = life.phases();
    healthy
        .calls()
        .filter(|call| wanted(call) && !is_refused_by_life(call))
        .filter_map(|call| {
            let phase = call.phase.as_deref()?;
            let phase = phases.iter().find(|it| it.name == phase)?;
            // Skips a call whose time is outside of the phase that its record names: the rule of a
            // trial would never match it.
            let is_within = (phase.begin..phase.end).contains(&call.t.since_start());
            let point = (phase.name.clone(), call.face?, call.op.clone(), call.target.kind.clone());
            is_within.then_some(point)
        })
        .collect()
}

/// True if the call got an error status and a rule of the life itself fired on it. The rule of a
/// trial comes after such a rule, so it would never fire.
fn is_refused_by_life(call: &Record) -> bool {
    let is_refused =
        call.ended.as_ref().is_some_and(|it| it.status.is_some_and(|code| code >= 400));
    is_refused && call.rules.iter().any(|rule| rule.fired)
}

/// Returns every failure of a life with its phase, in a fixed order: each call of [`points`] with
/// each kind of failure of its face. A failure that loses the answer is tested without and with the
/// operation carried out.
pub(super) fn failures(life: &Life, healthy: &Run) -> Vec<(String, Failure)> {
    let mut failures = Vec::new();
    for (phase, face, operation, kind) in points(life, healthy, |_| true) {
        for way in fault_kinds(face) {
            for applied in [false, true] {
                if applied && !way.loses_answer {
                    continue;
                }
                let (operation, kind) = (operation.clone(), kind.clone());
                let failure = Failure::Call { face, operation, kind, fault: way.name, applied };
                failures.push((phase.clone(), failure));
            }
        }
    }
    failures
}

/// Returns the scenario of the life with the failure of this trial: the first matching call of the
/// phase fails.
pub(super) fn faulted(life: &Life, trial: &Trial) -> Scenario {
    let Failure::Call { face, operation, kind, fault, applied } = &trial.failure else {
        return life.scenario.clone();
    };
    let way = fault_kinds(*face).into_iter().find(|it| it.name == *fault);
    let actions = way.map(|way| way.actions).unwrap_or_default();
    let mut rule = within(life, trial, Rule::new(RULE, actions).on(*face).op([operation.as_str()]));
    // Only the first matching call in the time of the phase fails.
    rule.when.max = Some(1);
    rule.matcher.resource.kind.clone_from(kind);
    let rule = if *applied { rule.applied() } else { rule };
    life.scenario.clone().fault(rule)
}

/// Limits a rule to the time of this trial's phase.
pub(super) fn within(life: &Life, trial: &Trial, mut rule: Rule) -> Rule {
    let phase = life.phases().into_iter().find(|phase| phase.name == trial.phase);
    rule.when.between = phase.map(|phase| Between::new(phase.begin, phase.end));
    rule
}
