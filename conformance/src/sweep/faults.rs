//! The sweep of single faults: each operation on each kind of object fails in each way, once per phase of a life.

use std::collections::BTreeSet;

use sim::Face;
use sim::faults::{Between, Rule};
use sim::ledger::Record;

use super::{Failure, RULE, Trial};
use crate::checks::fault_kinds;
use crate::lab::Run;
use crate::lives::Life;
use crate::scenario::Scenario;

/// A call that can fail: phase, front end, operation and kind of object.
pub(super) type Point = (String, Face, String, Option<String>);

/// Returns the calls of all phases, each operation and kind of object once per phase, in a fixed order.
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
            // A call that began in the phase before may still carry its name; the rule would never match such a
            // call.
            let is_within = (phase.begin..phase.end).contains(&call.t.since_start());
            let point = (phase.name.clone(), call.face?, call.op.clone(), call.target.kind.clone());
            is_within.then_some(point)
        })
        .collect()
}

/// True if a rule of the life itself refuses the call: the rule of a trial comes after it and would never fire.
fn is_refused_by_life(call: &Record) -> bool {
    let is_refused =
        call.ended.as_ref().is_some_and(|it| it.status.is_some_and(|code| code >= 400));
    is_refused && call.rules.iter().any(|rule| rule.fired)
}

/// Returns every failure to inject into a life, in a fixed order: each call of each phase, failing in each way.
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

/// Returns the life in which the first matching call of the phase fails.
pub(super) fn faulted(life: &Life, trial: &Trial) -> Scenario {
    let Failure::Call { face, operation, kind, fault, applied } = &trial.failure else {
        return life.scenario.clone();
    };
    let way = fault_kinds(*face).into_iter().find(|it| it.name == *fault);
    let actions = way.map(|way| way.actions).unwrap_or_default();
    let mut rule = within(life, trial, Rule::new(RULE, actions).on(*face).op([operation.as_str()]));
    // Calls of earlier phases match too; the first one within the window fires the rule.
    rule.when.max = Some(1);
    rule.matcher.resource.kind.clone_from(kind);
    let rule = if *applied { rule.applied() } else { rule };
    life.scenario.clone().fault(rule)
}

/// Limits the rule to the phase of this trial.
pub(super) fn within(life: &Life, trial: &Trial, mut rule: Rule) -> Rule {
    let phase = life.phases().into_iter().find(|phase| phase.name == trial.phase);
    rule.when.between = phase.map(|phase| Between(phase.begin, phase.end));
    rule
}
