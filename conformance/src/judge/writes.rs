//! Writes of Nodes that change nothing.

use std::collections::BTreeMap;

use serde_json::Value;
use sim::ledger::Record;
use sim::world::Time;
use sim::world::objects::Op;

use super::Invariant::NoIdleWrite;
use super::Violation;
use super::authors;
use crate::lab::{NodeEvent, Run};

/// Writes that were carried out, and after which the Node was what it had been before.
pub(super) fn violations(run: &Run) -> Vec<Violation> {
    if run.log.base().is_none() {
        return Vec::new();
    }
    let changes: BTreeMap<&str, Vec<Time>> =
        run.nodes_by_name().iter().map(|(name, events)| (name.as_str(), changes(events))).collect();
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
        text: format!("a write changed nothing: {call} {}", call.req.detail),
    })
    .collect()
}

/// When a Node became another in what a cloud provider writes. A kubelet that reports makes none.
fn changes(events: &[NodeEvent]) -> Vec<Time> {
    let mut before = None;
    let mut changes = Vec::new();
    for (at, op, node) in events {
        let now = Some(written(node));
        if *op != Op::Modified || now != before {
            changes.push(*at);
        }
        before = now;
    }
    changes
}

/// The fields of a Node that cloud providers write.
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
