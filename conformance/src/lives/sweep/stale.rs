//! The sweep of stale reads: the first read of a kind in a phase, or every such read, returns the
//! previous version of the data.
//!
//! For a vCenter the data are its inventory and tags before their last change; for an API server,
//! the objects of a resource. Long polls and watches are never stale, because they report changes
//! in order. The sweep of single failures delays them.

use sim::faults::{Action, Rule};
use sim::ledger::Record;

use super::faults::{points, within};
use super::{Failure, RULE, Trial};
use crate::lab::Run;
use crate::lives::Life;
use crate::scenario::Scenario;

/// Returns every failure of a life with its phase, in a fixed order: for each kind of read in each
/// phase one failure of the first read and one of all reads.
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

/// True if the call reads data that can be stale.
fn can_be_stale(call: &Record) -> bool {
    let is_session = call.target.kind.as_deref() == Some("SessionManager");
    !is_session && call.face.is_some_and(|face| sim::can_be_stale(face, &call.op))
}

/// Returns the scenario of the life with the stale reads of this trial.
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
