//! The sweep of stale reads: the first read of a phase, or every one, gets the previous version of the world.
//!
//! A vCenter shows its inventory and tags as before their last change; an API server does so with the objects of a resource.
//! Long polls and watches report changes in order and are left alone: the sweep of single faults delays them.

use sim::faults::{Action, Rule};
use sim::ledger::Record;

use super::faults::{points, within};
use super::{Failure, RULE, Trial};
use crate::lab::Run;
use crate::lives::Life;
use crate::scenario::Scenario;

/// Returns each kind of read of a phase twice, for the first read and for all reads, in a fixed order.
pub(super) fn failures(life: &Life, healthy: &Run) -> Vec<(String, Failure)> {
    let mut failures = Vec::new();
    for (phase, face, operation, kind) in points(life, healthy, can_be_stale) {
        for first in [true, false] {
            let (operation, kind) = (operation.clone(), kind.clone());
            failures.push((phase.clone(), Failure::Stale { face, operation, kind, first }));
        }
    }
    failures
}

fn can_be_stale(call: &Record) -> bool {
    let is_session = call.target.kind.as_deref() == Some("SessionManager");
    !is_session && call.face.is_some_and(|face| sim::can_be_stale(face, &call.op))
}

/// Returns the life in which these reads are stale.
pub(super) fn outdated(life: &Life, trial: &Trial) -> Scenario {
    let Failure::Stale { face, operation, kind, first } = &trial.failure else {
        return life.scenario.clone();
    };
    let rule = Rule::new(RULE, [Action::ReadStale(1)]).on(*face).op([operation.as_str()]);
    let mut rule = within(life, trial, rule);
    rule.when.max = first.then_some(1);
    rule.matcher.resource.kind.clone_from(kind);
    life.scenario.clone().fault(rule)
}
