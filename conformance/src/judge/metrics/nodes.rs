//! Metrics of nodes: initializations, watch events, deletions held back, and troubles.

use std::collections::BTreeMap;
use std::time::Duration;

use sim::ledger::Record;
use sim::world::objects::Op;

use super::Life;
use crate::judge::authors;
use crate::judge::facts::facts;

const INITIALIZED: &str = "vsphere_nodes_initialized_total";
const FAILURES: &str = "vsphere_node_sync_failures_total";
const NEWS: &str = "vsphere_node_watch_events_total";
const HOLDS: &str = "vsphere_node_deletions_held_total";
const TROUBLED: &str = "vsphere_nodes_troubled";
/// Time within which a leader has looked at its nodes.
const ROUND: Duration = Duration::from_secs(10);
const HELD: &str = "vsphere_nodes_held";

impl Life<'_> {
    /// Compares the count of nodes whose taint this replica removed. A removal whose answer was lost may count or not.
    pub(super) fn initialized(&self) -> Option<String> {
        let counted = self.sum(INITIALIZED, &[]);
        let mut writes = BTreeMap::<&str, Vec<&Record>>::new();
        for call in self.calls.iter().filter(|call| authors::is_write(call)) {
            writes.entry(call.target.name.as_deref().unwrap_or_default()).or_default().push(call);
        }
        let (mut heard, mut made) = (0.0, 0.0);
        for (name, events) in self.run.nodes_by_name() {
            // Unknown before the first change of a Node that the world began with.
            let mut was_waiting = None;
            for (at, op, object) in events {
                let is_waiting = *op != Op::Deleted && facts(object).uninitialized;
                let was = was_waiting.replace(is_waiting);
                let may_be_opened = was != Some(false) && !is_waiting && *op == Op::Modified;
                if !may_be_opened || *at > self.scrape.at {
                    continue;
                }
                // In virtual time several writes of a node may have the same time.
                let of_node = writes.get(name.as_str()).map_or(&[][..], Vec::as_slice);
                let is_author = |call: &&&Record| authors::is_author(self.run, call, name, *at);
                let mut authors = of_node.iter().filter(is_author).peekable();
                if authors.peek().is_none() {
                    continue;
                }
                made += 1.0;
                if was.is_some() && authors.all(|call| self.is_heard(call)) {
                    heard += 1.0;
                }
            }
        }
        (counted < heard || counted > made).then(|| {
            format!(
                "{INITIALIZED} is {counted}; {heard} of {made} nodes were initialized for certain"
            )
        })
    }

    /// Only one controller writes the status of a node. A refused write means a failed sync, which the replica must count, except
    /// for a conflict, a missing node, and answers that ask for patience (429, 503).
    pub(super) fn sync_failures(&self) -> Option<String> {
        const NOT_COUNTED: [u16; 4] = [404, 409, 429, 503];
        let is_refused = |call: &&&Record| {
            let ended = call.ended.as_ref().filter(|it| it.at < self.scrape.at);
            let status = ended.and_then(|it| it.status).unwrap_or_default();
            call.is_cluster_call()
                && call.op == "patch nodes/status"
                && status >= 400
                && !NOT_COUNTED.contains(&status)
        };
        let n_refused = self.calls.iter().filter(is_refused).count();
        let counted = self.sum(FAILURES, &[]);
        let is_missing = n_refused > 0 && counted == 0.0 && !self.was_suspended;
        is_missing.then(|| {
            format!(
                "{FAILURES} is {counted}; {n_refused} writes of the status of a node were refused"
            )
        })
    }

    /// The watch events of nodes are counted by kind: the count is positive exactly if a node changed that way during the watch.
    pub(super) fn node_news(&self) -> Vec<String> {
        let mut said = Vec::new();
        let is_told = |call: &&&Record| call.op == "watch nodes" && call.succeeded();
        let watched = self.calls.iter().filter(is_told).map(|call| call.t).min();
        let Some(watched) = watched.filter(|_| self.is_alone && self.is_calm) else { return said };
        for (kind, deleted) in [("applied", false), ("deleted", true)] {
            let counted = self.sum(NEWS, &[("kind", kind)]);
            let all = self.run.nodes_by_name().values().flatten();
            let is_it = |at: sim::world::Time, op: Op| {
                at > watched && at < self.scrape.at && (op == Op::Deleted) == deleted
            };
            let happened = all.filter(|(at, op, _)| is_it(*at, *op)).count();
            if (counted == 0.0) != (happened == 0) {
                said.push(format!("{NEWS} of kind {kind} is {counted}; {happened} changes of nodes of that kind were made while they were watched"));
            }
        }
        said
    }

    /// An event reports each deletion that is held back, so the metric must count it.
    pub(super) fn holds(&self) -> Vec<String> {
        let mut said = Vec::new();
        let is_told = |call: &&&Record| {
            call.op == "create events" && call.req.detail.contains("NodeDeletionHeld")
        };
        let told = self.calls.iter().filter(is_told).count();
        let (holds, held) = (self.sum(HOLDS, &[]), self.sum(HELD, &[]));
        if told > 0 && holds == 0.0 {
            said.push(format!("{HOLDS} is 0; {told} events say that a deletion is held back"));
        }
        if held > holds {
            said.push(format!("{HELD} is {held}, and {HOLDS} is {holds}"));
        }
        said
    }

    /// A leader that judges nodes reports the number of nodes in each kind of trouble, even if it is zero.
    pub(super) fn troubles(&self) -> Option<String> {
        let since =
            self.calls.iter().find(|call| call.op == "patch nodes/status").map(|it| it.t)?;
        let leads = self.sum("leader_election_master_status", &[]) == 1.0;
        let is_told = self.samples.iter().any(|sample| sample.name == TROUBLED);
        let is_due = leads && self.scrape.at.since(since) >= ROUND && !self.was_suspended;
        (is_due && !is_told).then(|| format!("/metrics has no value of {TROUBLED}"))
    }
}
