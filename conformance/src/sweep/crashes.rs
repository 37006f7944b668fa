//! The sweep of crashes: the replica that makes a write is killed before the write is carried out, or after.
//!
//! The replica gets no answer to the write and dies a moment later, as by SIGKILL. It starts again after a second. Up
//! to the write the run equals the healthy one, call for call, so the moment of the write is known.

use std::collections::BTreeSet;
use std::time::Duration;

use sim::Class;
use sim::Face;
use sim::faults::{Action, Between, Rule};
use sim::ledger::Record;

use super::{Failure, RULE, Trial};
use crate::lab::Run;
use crate::lives::Life;
use crate::scenario::{Act, Scenario};

const MOMENT: Duration = Duration::from_millis(1);
const RESTART: Duration = Duration::from_secs(1);

/// Returns every crash in a phase: one per write of a Node, and one per operation and phase for leases and events.
pub(super) fn failures(life: &Life, healthy: &Run) -> Vec<(String, Failure)> {
    let phases = life.phases();
    let mut seen = BTreeSet::new();
    let mut failures = Vec::new();
    for call in healthy.calls().filter(|call| is_write(call)) {
        let Some(phase) = call.phase.as_deref() else { continue };
        if !phases.iter().any(|it| it.name == phase) {
            continue;
        }
        let of_node = call.op.contains("nodes");
        if !of_node && !seen.insert((phase.to_owned(), call.op.clone())) {
            continue;
        }
        let replica = call.client.client.rsplit_once('-').and_then(|(_, n)| n.parse().ok());
        for applied in [false, true] {
            let failure = Failure::Crash {
                replica: replica.unwrap_or(0),
                operation: call.op.clone(),
                object: call.target.name.clone(),
                at: call.t,
                applied,
            };
            failures.push((phase.to_owned(), failure));
        }
    }
    failures
}

fn is_write(call: &Record) -> bool {
    call.is_cluster_call()
        && call.class == Some(Class::Write)
        && call.client.client.starts_with("provider")
}

/// Returns the life in which the write gets no answer and its replica is killed.
pub(super) fn crashed(life: &Life, trial: &Trial) -> Scenario {
    let Failure::Crash { replica, operation, object, at, applied } = &trial.failure else {
        return life.scenario.clone();
    };
    let at = at.since_start();
    let mut rule = Rule::new(RULE, [Action::Blackhole]).on(Face::Cluster).op([operation.as_str()]);
    rule.when.max = Some(1);
    rule.matcher.resource.name.clone_from(object);
    rule.when.between = Some(Between(at.saturating_sub(MOMENT), at + MOMENT));
    let rule = if *applied { rule.applied() } else { rule };
    life.scenario
        .clone()
        .fault(rule)
        .at(at + MOMENT, Act::Crash(*replica))
        .at(at + RESTART, Act::Start(*replica))
}
