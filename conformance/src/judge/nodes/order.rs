//! Checks the order of a Node's addresses: the provider must show the same set of addresses always
//! in the same order.

use std::collections::BTreeMap;

use sim::world::objects::{GroupResource, Op};
use sim::world::{Event, State, Time};

use super::authors::WriteTimes;
use crate::judge::Invariant::OneOrder;
use crate::judge::Violation;
use crate::lab::Run;
use crate::lab::facts::facts;

/// Type and value of an address.
type Address = (String, String);

/// Checks the order in which initialized Nodes show their addresses.
pub(in crate::judge) struct Judge {
    found: Vec<Violation>,
    /// Times at which the provider was writing each Node, without those at which the scenario
    /// itself changed Nodes. A change of the Node at any other time does not count.
    written: WriteTimes,
    /// First order shown, by node and set of addresses.
    orders: BTreeMap<(String, Vec<Address>), Vec<Address>>,
}

impl Judge {
    /// Creates the judge at the beginning of a run.
    pub(in crate::judge) fn new(run: &Run) -> Self {
        Self { found: Vec::new(), written: WriteTimes::in_run(run), orders: BTreeMap::new() }
    }

    /// Returns all violations.
    pub(in crate::judge) fn violations(self) -> Vec<Violation> {
        self.found
    }

    /// Examines the next event of the log.
    pub(in crate::judge) fn see(&mut self, at: Time, event: &Event, before: &State) {
        let Event::Cluster(event) = event else { return };
        let is_change =
            event.key.resource == GroupResource::core("nodes") && event.op == Op::Modified;
        if !is_change || !self.written.covers(&event.key.name, at) {
            return;
        }
        let old = before.cluster.get(&event.key).map(|node| facts(node).addresses);
        let node = facts(&event.object);
        if node.uninitialized || old.as_ref() == Some(&node.addresses) {
            return;
        }
        let name = &event.key.name;
        let mut set = node.addresses.clone();
        set.sort_unstable();
        let first =
            self.orders.entry((name.clone(), set)).or_insert_with(|| node.addresses.clone());
        if *first != node.addresses {
            let text = format!(
                "node {name} shows its addresses as {:?}; it showed the same set before as {first:?}",
                node.addresses
            );
            self.found.push(Violation { invariant: OneOrder, at, text });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use sim::ledger::Record;
    use sim::world::objects::{self, Key, PatchKind};
    use sim::world::{Command, Topology};

    use super::*;
    use crate::judge::safety;
    use crate::lab::{self, Stage};
    use crate::scenario::Scenario;

    #[test]
    fn the_same_addresses_in_another_order_break_the_invariant() {
        let (first, second) = (
            json!({"type": "InternalIP", "address": "10.0.0.1"}),
            json!({"type": "ExternalIP", "address": "10.0.0.2"}),
        );
        let write = |addresses| {
            let status = json!({"status": {"addresses": addresses}});
            let patch = objects::Command::patch(Key::node("node-0001"), PatchKind::Merge, status);
            Command::Cluster(patch.on_status())
        };
        let (straight, turned) = (json!([first, second]), json!([second, first]));
        let play = |last: &serde_json::Value| {
            let topology = Topology::zones(1).machines(1);
            let at = |seconds| Duration::from_secs(seconds);
            let scenario = Scenario::new("", topology, at(180))
                .at(at(120), write(straight.clone()))
                .at(at(121), write(json!([second])))
                .at(at(122), write(last.clone()));
            let mut run = lab::run(&scenario, &Stage::default());
            let write = run.calls().find(|call| call.op == "patch nodes/status").unwrap().clone();
            let doctored = (120..=122).map(|t| Record {
                t: Time::after_start(at(t)),
                ended: None,
                ..write.clone()
            });
            run.ledger.extend(doctored.collect::<Vec<_>>());
            run.by_hand.clear();
            let found = safety(&run);
            found.iter().filter(|it| it.invariant == OneOrder).count()
        };
        assert_eq!((play(&straight), play(&turned)), (0, 1));
    }
}
