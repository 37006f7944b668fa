//! The sweep of crashes: kills a replica while it waits for the answer to a write, which the server
//! has carried out or not.
//!
//! A fault rule withholds the answer. The lab kills the replica a millisecond after the write and
//! starts it again a second after the write. Up to the write a trial has the same calls as the
//! healthy run, so the time of the write is known.

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

/// Time between the write and the crash.
const MOMENT: Duration = Duration::from_millis(1);
/// Time between the write and the restart of the replica.
const RESTART: Duration = Duration::from_secs(1);

/// Returns every crash with its phase: two per write of a Node, and two per phase and operation of
/// other writes to the cluster, such as those of leases and events. In one of the two crashes the
/// server carries out the write, in the other it does not.
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

/// True if a replica of the provider writes to the workload cluster.
fn is_write(call: &Record) -> bool {
    call.is_cluster_call()
        && call.class == Some(Class::Write)
        && call.client.client.starts_with("provider")
}

/// Returns the scenario of the life with the crash of this trial: the write gets no answer, and its
/// replica is killed and restarted.
pub(super) fn crashed(life: &Life, trial: &Trial) -> Scenario {
    let Failure::Crash { replica, operation, object, at, applied } = &trial.failure else {
        return life.scenario.clone();
    };
    let at = at.since_start();
    let mut rule = Rule::new(RULE, [Action::Blackhole]).on(Face::Cluster).op([operation.as_str()]);
    rule.when.max = Some(1);
    rule.matcher.resource.name.clone_from(object);
    rule.when.between = Some(Between::new(at.saturating_sub(MOMENT), at + MOMENT));
    let rule = if *applied { rule.applied() } else { rule };
    life.scenario
        .clone()
        .fault(rule)
        .at(at + MOMENT, Act::Crash(*replica))
        .at(at + RESTART, Act::Start(*replica))
}
