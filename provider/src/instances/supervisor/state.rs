//! State that the tasks of the backend share: the view, the nodes, and the evidence for proofs.
//! Sends no request; [`Shared`](super::shared::Shared) locks it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tokio::time::Instant;

use super::{
    answers::Question,
    machine::{
        MachineName, UuidKey,
        identity::{Identity, identity},
    },
    proof::Claim,
    view::{
        Changes, EVIDENCE_AGE, View,
        find::find_strict,
        freshness::{Freshness, Mode, WINDOW},
        listing::Listing,
        read::{ReadByName, ReadResult},
    },
};
use crate::{
    instances::forgotten::Forgotten,
    model::{NodeIdentity, NodeName, Unknown},
    mutant::{Active, mutant},
};

/// Number of missing machines from which on an empty list makes all nodes count as missing.
const MANY: usize = 3;

/// State of one node.
#[derive(Clone, Debug)]
pub(super) struct TrackedNode {
    pub identity: NodeIdentity,
    /// True if the view has ever had the node's machine.
    pub matched: bool,
    /// Last name under which the view had the node's machine; `None` if the view never had it. It
    /// may differ from the node's name.
    pub machine: Option<MachineName>,
    /// True if the backend has already logged that the machine with the node's name has another
    /// UUID, or none.
    pub mismatch_logged: bool,
}

/// Failure of the last list, and the number of failures in a row.
#[derive(Clone, Debug)]
pub(super) struct ListFailure {
    began_at: Instant,
    ended_at: Instant,
    why: Unknown,
    n_in_a_row: u32,
}

impl ListFailure {
    /// Returns the failure if it answers the request for a list that begins at `after` or later, so
    /// that callers that waited for the failed list share its result. The failed list must have
    /// begun at `after` or later. It must have ended at most 5 s ago, or 10 s for the second
    /// failure in a row, or 20 s from the third on.
    pub(super) fn answer(&self, after: Instant, now: Instant) -> Option<&Unknown> {
        let doublings = self.n_in_a_row.saturating_sub(1).min(2);
        let hold = WINDOW * (1 << doublings);
        let counts = self.began_at >= after && now.duration_since(self.ended_at) <= hold;
        counts.then_some(&self.why)
    }
}

/// State of the whole backend.
pub(super) struct State {
    pub view: View,
    pub freshness: Freshness,
    /// Time until which questions wait for the first list.
    pub sync_deadline: Instant,
    pub nodes: BTreeMap<NodeName, TrackedNode>,
    /// Names of nodes by the UUID in their provider ID, in both byte orders.
    nodes_by_uuid: BTreeMap<UuidKey, BTreeSet<NodeName>>,
    /// True if any node was matched to a machine since the start.
    pub any_matched: bool,
    /// True if a proof was impossible while no node had been matched to a machine.
    pub was_proof_impossible: bool,
    /// The last complete list, as evidence for proofs; `None` before the first one.
    pub evidence: Option<Arc<Listing>>,
    /// The failure of the last list; `None` if the last list succeeded or none has ended.
    pub list_failure: Option<ListFailure>,
    /// Number of consecutive lists that were older than the view.
    pub n_old_lists: u32,
    /// Start of the last list, whatever its result; `None` before the first list.
    pub list_begun_at: Option<Instant>,
    /// The last read of a machine for each node.
    pub reads: BTreeMap<NodeName, ReadByName>,
    /// Nodes to announce once the first list has arrived, is known to be forbidden, or has not
    /// arrived in time.
    pub waiting: BTreeSet<NodeName>,
    /// Names of machines to read, by name of the node.
    pub wanted_reads: BTreeMap<NodeName, MachineName>,
    /// Nodes that wait for a list.
    pub wanted_lists: BTreeSet<NodeName>,
    /// Time until which the provider makes no new list, because the server has asked for a pause.
    pub quiet_until: Option<Instant>,
    forgotten: Forgotten,
    active: Active,
}

impl State {
    pub(super) fn new(mode: Mode, sync_deadline: Instant, active: Active) -> Self {
        let (mut view, mut freshness) = (View::default(), Freshness::new(mode));
        (view.active, freshness.active) = (active, active);
        Self {
            view,
            freshness,
            sync_deadline,
            nodes: BTreeMap::new(),
            nodes_by_uuid: BTreeMap::new(),
            any_matched: false,
            was_proof_impossible: false,
            evidence: None,
            list_failure: None,
            n_old_lists: 0,
            list_begun_at: None,
            reads: BTreeMap::new(),
            waiting: BTreeSet::new(),
            wanted_reads: BTreeMap::new(),
            wanted_lists: BTreeSet::new(),
            quiet_until: None,
            forgotten: Forgotten::default(),
            active,
        }
    }

    /// Tracks a node that the cluster shows now, even if it was deleted before.
    pub(super) fn observe(&mut self, node: &NodeIdentity) {
        self.forgotten.recall(&node.uid);
        self.track(node);
    }

    /// Creates or updates the record of a node, unless the node was deleted.
    pub(super) fn track(&mut self, node: &NodeIdentity) {
        if self.forgotten.contains(&node.uid) {
            return;
        }
        let known = self.nodes.get(&node.name);
        if known.is_some_and(|known| known.identity.is_same(node)) {
            return;
        }
        let matched = known.is_some_and(|known| known.identity.uid == node.uid && known.matched);
        let mismatch_logged = known.is_some_and(|known| known.mismatch_logged);
        let machine = known.filter(|_| matched).and_then(|known| known.machine.clone());
        self.forget(&node.name);
        // `forget` has just noted the UID as deleted. The node may be the same one with another
        // provider ID.
        self.forgotten.recall(&node.uid);
        if let Ok(Identity::Uuid(key)) = identity(node) {
            for key in key.byte_orders() {
                self.nodes_by_uuid.entry(key).or_default().insert(node.name.clone());
            }
        }
        let tracked = TrackedNode { identity: node.clone(), matched, machine, mismatch_logged };
        self.nodes.insert(node.name.clone(), tracked);
        self.note_match(&node.name);
    }

    /// Stores the failure of a list.
    pub(super) fn note_list_failure(&mut self, began_at: Instant, now: Instant, why: Unknown) {
        let n_before = self.list_failure.as_ref().map_or(0, |failure| failure.n_in_a_row);
        let n_in_a_row = n_before.saturating_add(1);
        self.list_failure = Some(ListFailure { began_at, ended_at: now, why, n_in_a_row });
    }

    /// Drops a deleted node.
    pub(super) fn forget(&mut self, name: &NodeName) {
        let Some(known) = self.nodes.remove(name) else { return };
        self.forgotten.note(known.identity.uid.clone(), Instant::now());
        if let Ok(Identity::Uuid(key)) = identity(&known.identity) {
            for key in key.byte_orders() {
                let Some(names) = self.nodes_by_uuid.get_mut(&key) else { continue };
                names.remove(name);
                if names.is_empty() {
                    self.nodes_by_uuid.remove(&key);
                }
            }
        }
        self.reads.remove(name);
        self.waiting.remove(name);
        self.wanted_reads.remove(name);
        self.wanted_lists.remove(name);
    }

    /// Returns the names of the nodes that changes of machines concern. Also updates which of these
    /// nodes are matched to a machine.
    pub(super) fn concerned(&mut self, changes: &Changes) -> BTreeSet<NodeName> {
        let by_uuid = changes.uuids.iter().filter_map(|key| self.nodes_by_uuid.get(key)).flatten();
        let by_name = changes.names.iter().map(MachineName::as_str);
        let by_name = by_name.filter_map(|name| self.nodes.get_key_value(name));
        let names: BTreeSet<NodeName> =
            by_uuid.chain(by_name.map(|(name, _)| name)).cloned().collect();
        for name in &names {
            self.note_match(name);
        }
        names
    }

    /// Marks the node as matched if the view has its machine.
    fn note_match(&mut self, name: &NodeName) {
        let Some(tracked) = self.nodes.get_mut(name) else { return };
        let found = identity(&tracked.identity)
            .ok()
            .and_then(|it| find_strict(&self.view, &it, &tracked.identity));
        if let Some(entry) = found {
            tracked.matched = true;
            tracked.machine = Some(entry.machine.name.clone());
            self.any_matched = true;
        }
    }

    /// Returns the last name under which the view had a node's machine; the name of the node if the
    /// view never had the machine.
    pub(super) fn machine_of<'a>(&'a self, node: &'a NodeIdentity) -> &'a str {
        let it = identity(node).ok();
        if let Some(entry) = it.and_then(|it| find_strict(&self.view, &it, node)) {
            return entry.machine.name.as_str();
        }
        let tracked = self.nodes.get(&node.name).filter(|it| it.identity.uid == node.uid);
        tracked.and_then(|it| it.machine.as_ref()).map_or(node.name.as_str(), MachineName::as_str)
    }

    /// Builds a question about a node, with the state that answers it.
    pub(super) fn question<'a>(&'a self, node: &'a NodeIdentity, now: Instant) -> Question<'a> {
        Question {
            view: &self.view,
            freshness: &self.freshness,
            sync_deadline: self.sync_deadline,
            node,
            machine: self.machine_of(node),
            read: self.reads.get(&node.name),
            now,
        }
    }

    /// Builds the claim that a node's machine is gone.
    pub(super) fn claim<'a>(
        &'a self,
        node: &'a NodeIdentity,
        after: Instant,
        now: Instant,
    ) -> Claim<'a> {
        let uuid = match identity(node) {
            Ok(Identity::Uuid(key)) => Some(key),
            _ => None,
        };
        let tracked = self.nodes.get(&node.name).filter(|it| it.identity.uid == node.uid);
        Claim {
            node,
            machine: self.machine_of(node),
            after,
            changed_at: self.view.changed_at(node.name.as_str(), uuid.as_ref()),
            matched: tracked.is_some_and(|tracked| tracked.matched),
            any_matched: self.any_matched,
            now,
            active: self.active,
        }
    }

    /// Returns the number of nodes that were matched to a machine that seems to be missing now. If
    /// the last list began at most [`EVIDENCE_AGE`] ago and is empty, and at least [`MANY`]
    /// machines are missing, returns the number of all nodes, however few of them were matched.
    pub(super) fn n_missing(&self, now: Instant) -> usize {
        let is_young = |at: Instant| now.saturating_duration_since(at) <= EVIDENCE_AGE;
        let evidence = self.evidence.as_deref().filter(|it| is_young(it.began_at));
        let is_empty = evidence.is_some_and(|listing| listing.machines().next().is_none());
        if is_empty && mutant!(self.active, EmptyListBelieved) {
            return 0;
        }
        let is_missing = |tracked: &&TrackedNode| {
            let node = &tracked.identity;
            let Ok(it) = identity(node) else { return false };
            if !tracked.matched {
                return false;
            }
            if self.freshness.mode() == Mode::Get {
                let reading = self.reads.get(&node.name).filter(|it| is_young(it.began_at));
                let machine = self.machine_of(node);
                return reading.is_some_and(|it| {
                    it.machine.as_str() == machine && it.read == ReadResult::NotFound
                });
            }
            let Some(entry) = find_strict(&self.view, &it, node) else { return true };
            // True if the list began after the view last saw the machine, and does not have it.
            evidence.is_some_and(|listing| {
                entry.seen_at < listing.began_at
                    && listing.by_name(entry.machine.name.as_str()).is_none()
            })
        };
        let n_missing = self.nodes.values().filter(is_missing).count();
        if is_empty && n_missing >= MANY { self.nodes.len() } else { n_missing }
    }
}
