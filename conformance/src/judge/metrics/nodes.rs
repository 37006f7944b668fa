//! Checks the metrics of nodes: initializations, failed syncs, watch events, held deletions, and
//! troubles.

use std::collections::BTreeMap;
use std::time::Duration;

use sim::ledger::Record;
use sim::world::objects::Op;

use super::ScrapedReplica;
use crate::judge::nodes::authors;
use crate::lab::facts::facts;

const INITIALIZED: &str = "vsphere_nodes_initialized_total";
const FAILURES: &str = "vsphere_node_sync_failures_total";
const NEWS: &str = "vsphere_node_watch_events_total";
const HOLDS: &str = "vsphere_node_deletions_held_total";
const TROUBLED: &str = "vsphere_nodes_troubled";
/// Maximum time until a leader has checked every node once.
const ROUND: Duration = Duration::from_secs(10);
const HELD: &str = "vsphere_nodes_held";

impl ScrapedReplica<'_> {
    /// Compares the metric of initialized nodes with the uninitialized taints that this replica
    /// removed. A removal whose answer was lost may count or not. Returns the text of a violation
    /// if they differ.
    pub(super) fn initialized(&self) -> Option<String> {
        let counted = self.sum(INITIALIZED, &[]);
        let mut writes = BTreeMap::<&str, Vec<&Record>>::new();
        for call in self.calls.iter().filter(|call| authors::is_write(call)) {
            writes.entry(call.target.name.as_deref().unwrap_or_default()).or_default().push(call);
        }
        let (mut heard, mut made) = (0.0, 0.0);
        for (name, events) in self.run.nodes_by_name() {
            // `None` until the first change of a Node that existed when the world began.
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
                "{INITIALIZED} is {counted}, but the replica initialized {heard} to {made} nodes"
            )
        })
    }

    /// Checks that the metric of failed syncs is positive if the cluster refused a write of node
    /// status; otherwise returns the text of a violation. Only one controller makes these writes,
    /// and a refused one means a failed sync, which the replica must count. Exceptions are a
    /// conflict, a missing node, and answers that ask for patience (429, 503).
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
                "{FAILURES} is {counted}, but the cluster refused {n_refused} writes of node status"
            )
        })
    }

    /// Compares the metric of watch events of nodes, by kind: it must be positive exactly if a node
    /// changed that way since the first watch. Compares it only if the replica is alone and the
    /// scenario calm.
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
                said.push(format!("{NEWS} of kind {kind} is {counted}, but {happened} node changes of that kind occurred during the watch"));
            }
        }
        said
    }

    /// Checks that the metric of holds is positive if Kubernetes events report a hold, and that it
    /// is not less than the number of Nodes that are held now.
    pub(super) fn holds(&self) -> Vec<String> {
        let mut said = Vec::new();
        let is_told = |call: &&&Record| {
            call.op == "create events" && call.req.detail.contains("NodeDeletionHeld")
        };
        let told = self.calls.iter().filter(is_told).count();
        let (holds, held) = (self.sum(HOLDS, &[]), self.sum(HELD, &[]));
        if told > 0 && holds == 0.0 {
            said.push(format!("{HOLDS} is 0, but {told} events report a held deletion"));
        }
        if held > holds {
            said.push(format!("{HELD} is {held}, but {HOLDS} is only {holds}"));
        }
        said
    }

    /// Checks that a leader reports the number of nodes in trouble, even if it is zero, at the
    /// latest [`ROUND`] after its first write of node status.
    pub(super) fn troubles(&self) -> Option<String> {
        let since =
            self.calls.iter().find(|call| call.op == "patch nodes/status").map(|it| it.t)?;
        let leads = self.sum("leader_election_master_status", &[]) == 1.0;
        let is_told = self.samples.iter().any(|sample| sample.name == TROUBLED);
        let is_due = leads && self.scrape.at.since(since) >= ROUND && !self.was_suspended;
        (is_due && !is_told).then(|| format!("/metrics has no value of {TROUBLED}"))
    }
}
