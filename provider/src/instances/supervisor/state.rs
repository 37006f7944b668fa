//! What the tasks of the backend know together: the view, the nodes, the evidence. Pure; [`Shared`](super::Shared) locks it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tokio::time::Instant;

use super::{
    answers::{Asked, Read, Reading, find_strict},
    freshness::{Freshness, Mode, WINDOW},
    identity::{Identity, identity},
    listing::Listing,
    machine::byte_orders,
    proof::Claim,
    view::{Changes, EVIDENCE_AGE, View},
};
use crate::{
    instances::forgotten::Forgotten,
    model::{NodeIdentity, Unknown},
    mutant::{Active, mutant},
};

/// So many machines do not go at once without a second look.
const MANY: usize = 3;

/// One node that is cared for.
#[derive(Clone, Debug)]
pub(super) struct Tracked {
    pub identity: NodeIdentity,
    /// Its machine was seen once.
    pub matched: bool,
    /// Under which name its machine was last seen.
    pub machine: Option<String>,
    /// That its machine has another UUID was told already.
    pub mismatch_told: bool,
}

/// A list that failed, and those before it that failed too.
#[derive(Clone, Debug)]
pub(super) struct ListFailure {
    began_at: Instant,
    ended_at: Instant,
    why: Unknown,
    n_in_a_row: u32,
}

impl ListFailure {
    /// The answer that stands in for a new list, to a question about evidence from then on: callers that waited while the list was
    /// made shares what came of it. One failure counts for five seconds, failure after failure for up to twenty.
    pub(super) fn answer(&self, after: Instant, now: Instant) -> Option<&Unknown> {
        let doublings = self.n_in_a_row.saturating_sub(1).min(2);
        let hold = WINDOW * (1 << doublings);
        let counts = self.began_at >= after && now.duration_since(self.ended_at) <= hold;
        counts.then_some(&self.why)
    }
}

/// Everything known.
pub(super) struct State {
    pub view: View,
    pub freshness: Freshness,
    pub sync_deadline: Instant,
    pub nodes: BTreeMap<String, Tracked>,
    /// Nodes by the UUID in their provider ID.
    nodes_by_uuid: BTreeMap<String, BTreeSet<String>>,
    /// Whether any node was matched since the start.
    pub any_matched: bool,
    /// Somebody asked for a proof before any node was matched.
    pub is_lost: bool,
    /// The last complete list.
    pub evidence: Option<Arc<Listing>>,
    /// The last list, if it failed.
    pub list_failure: Option<ListFailure>,
    /// Lists in a row that told of before what was known.
    pub n_old_lists: u32,
    /// When the last list was begun, whatever came of it.
    pub list_begun_at: Option<Instant>,
    /// The last read of a machine for each node.
    pub reads: BTreeMap<String, Reading>,
    /// Nodes to be announced once the first list is in.
    pub waiting: BTreeSet<String>,
    /// Machines to be read, by node.
    pub wanted_reads: BTreeMap<String, String>,
    /// Nodes that wait for a list.
    pub wanted_lists: BTreeSet<String>,
    /// Until when the server has asked for no other list.
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
            is_lost: false,
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

    /// Takes note of a node that exists now, as the cluster says.
    pub(super) fn observe(&mut self, node: &NodeIdentity) {
        self.forgotten.recall(&node.uid);
        self.track(node);
    }

    /// Takes note of a node, unless it was forgotten.
    pub(super) fn track(&mut self, node: &NodeIdentity) {
        if self.forgotten.contains(&node.uid) {
            return;
        }
        let known = self.nodes.get(&node.name);
        if known.is_some_and(|known| known.identity.is_same(node)) {
            return;
        }
        let matched = known.is_some_and(|known| known.identity.uid == node.uid && known.matched);
        let mismatch_told = known.is_some_and(|known| known.mismatch_told);
        let machine = known.filter(|_| matched).and_then(|known| known.machine.clone());
        self.forget(&node.name);
        // It may be the same node with another identity.
        self.forgotten.recall(&node.uid);
        if let Ok(Identity::Uuid(key)) = identity(node) {
            for key in byte_orders(&key) {
                self.nodes_by_uuid.entry(key).or_default().insert(node.name.clone());
            }
        }
        let tracked = Tracked { identity: node.clone(), matched, machine, mismatch_told };
        self.nodes.insert(node.name.clone(), tracked);
        self.note_match(&node.name);
    }

    /// Notes that a list failed.
    pub(super) fn note_list_failure(&mut self, began_at: Instant, now: Instant, why: Unknown) {
        let n_before = self.list_failure.as_ref().map_or(0, |failure| failure.n_in_a_row);
        let n_in_a_row = n_before.saturating_add(1);
        self.list_failure = Some(ListFailure { began_at, ended_at: now, why, n_in_a_row });
    }

    /// Drops a node.
    pub(super) fn forget(&mut self, name: &str) {
        let Some(known) = self.nodes.remove(name) else { return };
        self.forgotten.note(known.identity.uid.clone(), Instant::now());
        if let Ok(Identity::Uuid(key)) = identity(&known.identity) {
            for key in byte_orders(&key) {
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

    /// Nodes that changes of machines concern. Also notes which of them have their machines now.
    pub(super) fn concerned(&mut self, changes: &Changes) -> BTreeSet<String> {
        let by_uuid = changes.uuids.iter().filter_map(|key| self.nodes_by_uuid.get(key)).flatten();
        let by_name = changes.names.iter().filter(|name| self.nodes.contains_key(*name));
        let names: BTreeSet<String> = by_uuid.chain(by_name).cloned().collect();
        for name in &names {
            self.note_match(name);
        }
        names
    }

    fn note_match(&mut self, name: &str) {
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

    /// Under which name a node's machine was last seen; its own, if never.
    pub(super) fn machine_of<'a>(&'a self, node: &'a NodeIdentity) -> &'a str {
        let it = identity(node).ok();
        if let Some(entry) = it.and_then(|it| find_strict(&self.view, &it, node)) {
            return &entry.machine.name;
        }
        let tracked = self.nodes.get(&node.name).filter(|it| it.identity.uid == node.uid);
        tracked.and_then(|it| it.machine.as_deref()).unwrap_or(&node.name)
    }

    /// A question about a node.
    pub(super) fn asked<'a>(&'a self, node: &'a NodeIdentity, now: Instant) -> Asked<'a> {
        Asked {
            view: &self.view,
            freshness: &self.freshness,
            sync_deadline: self.sync_deadline,
            node,
            machine: self.machine_of(node),
            read: self.reads.get(&node.name),
            now,
        }
    }

    /// The claim that a node's machine is gone.
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
            changed_at: self.view.changed_at(&node.name, uuid.as_deref()),
            matched: tracked.is_some_and(|tracked| tracked.matched),
            any_matched: self.any_matched,
            now,
            active: self.active,
        }
    }

    /// Nodes that had their machines and do not have them at present, as far as is known. A list without any machine counts
    /// for all nodes, however few of them had theirs.
    pub(super) fn n_missing(&self, now: Instant) -> usize {
        let is_young = |at: Instant| now.saturating_duration_since(at) <= EVIDENCE_AGE;
        let evidence = self.evidence.as_deref().filter(|it| is_young(it.began_at));
        let is_empty = evidence.is_some_and(|listing| listing.machines().next().is_none());
        if is_empty && mutant!(self.active, EmptyListBelieved) {
            return 0;
        }
        let is_missing = |tracked: &&Tracked| {
            let node = &tracked.identity;
            let Ok(it) = identity(node) else { return false };
            if !tracked.matched {
                return false;
            }
            if self.freshness.mode() == Mode::Get {
                let reading = self.reads.get(&node.name).filter(|it| is_young(it.began_at));
                let machine = self.machine_of(node);
                return reading
                    .is_some_and(|it| it.machine == machine && it.read == Read::NotFound);
            }
            let Some(entry) = find_strict(&self.view, &it, node) else { return true };
            // A list that came after what the view knows of it, and does not have it.
            evidence.is_some_and(|listing| {
                entry.seen_at < listing.began_at && listing.by_name(&entry.machine.name).is_none()
            })
        };
        let n_missing = self.nodes.values().filter(is_missing).count();
        if is_empty && n_missing >= MANY { self.nodes.len() } else { n_missing }
    }
}
