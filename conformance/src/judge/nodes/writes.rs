//! Finds writes of Nodes that change nothing.

use std::collections::BTreeMap;

use serde_json::Value;
use sim::faults::Action;
use sim::ledger::Record;
use sim::world::objects::Op;
use sim::world::{Event, Time};

use super::authors;
use crate::judge::Invariant::NoIdleWrite;
use crate::judge::Violation;
use crate::lab::{NodeEvent, Run};
use crate::scenario::Act;

/// Returns the provider's writes of Nodes that succeeded without a change of the Node. Returns none
/// if the world kept no log, or if the provider may have read old versions of Nodes.
pub(in crate::judge) fn violations(run: &Run) -> Vec<Violation> {
    // A provider that has read an old version of a Node may repeat a write.
    if run.log.base().is_none() || was_shown_old_nodes(run) {
        return Vec::new();
    }
    let restored: Vec<Time> = run
        .log
        .entries()
        .filter(|(_, event)| matches!(event, Event::ClusterRestored))
        .map(|(at, _)| *at)
        .collect();
    let nodes = run.nodes_by_name().iter();
    let changes: BTreeMap<&str, Vec<Time>> =
        nodes.map(|(name, events)| (name.as_str(), changes(events, &restored))).collect();
    let lag = authors::lag(run);
    let is_idle = |call: &&Record| {
        let Some(ended) = &call.ended else { return false };
        let Some(name) = call.target.name.as_deref() else { return false };
        let until = ended.at + lag;
        let of_node = changes.get(name).map_or(&[][..], Vec::as_slice);
        !of_node.iter().any(|at| (call.t..=until).contains(at))
    };
    let carried_out = |call: &&Record| call.succeeded() && !call.was_faulted();
    let idle = authors::writes(run).filter(carried_out).filter(is_idle);
    idle.map(|call| Violation {
        invariant: NoIdleWrite,
        at: call.t,
        text: format!("a write of a Node changed nothing: {call} {}", call.req.detail),
    })
    .collect()
}

/// True if the provider may have read old versions of Nodes: the scenario has a rule that serves
/// old versions, and some rule fired on a call to the cluster.
fn was_shown_old_nodes(run: &Run) -> bool {
    run.scenario.timeline.iter().any(|step| match &step.act {
        Act::Fault(rule) => {
            let is_stale = rule.actions.iter().any(|it| matches!(it, Action::ReadStale(_)));
            is_stale && run.calls().any(|call| call.is_cluster_call() && call.was_faulted())
        }
        _ => false,
    })
}

/// Returns the times at which a Node was created or deleted, or a field changed that cloud
/// providers write. A kubelet's report changes none of these fields. The log lacks the state right
/// after the restore of a backup, so the first change after a restore always counts.
fn changes(events: &[NodeEvent], restored: &[Time]) -> Vec<Time> {
    let mut before: Option<(Time, [&Value; 5])> = None;
    let mut changes = Vec::new();
    for (at, op, node) in events {
        let now = written(node);
        let is_known =
            |since: &Time| !restored.iter().any(|restored| (*since..=*at).contains(restored));
        let is_same =
            before.as_ref().is_some_and(|(since, before)| is_known(since) && *before == now);
        if *op != Op::Modified || !is_same {
            changes.push(*at);
        }
        before = Some((*at, now));
    }
    changes
}

/// Returns the fields of a Node that cloud providers write.
fn written(node: &Value) -> [&Value; 5] {
    let meta = &node["metadata"];
    let addresses = &node["status"]["addresses"];
    [&meta["labels"], &meta["annotations"], &meta["finalizers"], &node["spec"], addresses]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::lab::{self, Stage};
    use crate::scenario::Scenario;

    #[test]
    fn a_provider_that_writes_the_same_addresses_again_is_found() {
        let topology = sim::world::Topology::zones(1).machines(2);
        let scenario = Scenario::new("", topology, Duration::from_secs(700));
        let broken =
            |mutant| violations(&lab::run(&scenario, &Stage { mutant, ..Stage::default() }));
        assert_eq!(broken(None), []);
        assert!(!broken(Some(::provider::Mutant::AlwaysWriteAddresses)).is_empty());
    }
}
