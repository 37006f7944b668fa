//! State of the vCenter backend under one lock: nodes, their links to machines, and the machines.
//!
//! [`attempt`] finds the machine of a node. The state is pure bookkeeping: no code here awaits, so the lock is held
//! briefly and never across an await.

mod attempt;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use provider_vcenter::{MoRef, Retry};
use tokio::time::Instant;

use super::{machine::Machine, scope::Known, zone_reader::ZoneCache};
use crate::instances::forgotten::Forgotten;
use crate::model::{MachineId, MachineReference, NodeIdentity, Unknown};

/// Index of a vCenter in the backend's list.
pub(super) type VcenterIndex = usize;

/// The machine of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub vcenter: VcenterIndex,
    pub machine: MoRef,
    pub uuid: MachineId,
}

/// Answer of one vCenter to the lookup of a node's machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Hit(MoRef, MachineId),
    Absent,
    Ambiguous(String),
    /// The machine exists, in a datacenter that the configuration excludes.
    Outside(String),
    Failed(String),
}

/// One round of asking all vCenters for a node's machine.
#[derive(Debug)]
pub(super) struct Attempt {
    pub number: u64,
    pub waiting: BTreeSet<VcenterIndex>,
    pub answers: BTreeMap<VcenterIndex, Outcome>,
    /// Time of the first hit, while other vCenters have not answered.
    pub hit_at: Option<Instant>,
}

/// State of one node.
#[derive(Debug)]
pub(super) struct Tracked {
    pub identity: NodeIdentity,
    pub link: Option<Link>,
    /// Time at which the link was made, or found again after the view had lost the machine.
    pub linked_at: Option<Instant>,
    /// True if the node ever had a link.
    pub matched: bool,
    pub attempt: Option<Attempt>,
    /// Reason for which the last attempt found nothing; the next question takes it.
    pub failure: Option<Unknown>,
    /// Time at which all vCenters first answered, without error, that they show no such machine.
    pub absent_since: Option<Instant>,
    /// vCenters that did not show the machine, with the time of the answer.
    pub absent_in: BTreeMap<VcenterIndex, Instant>,
    /// Reason for which existence cannot be learned now, and the time until which no question tries again.
    pub hidden: Option<(Unknown, Instant)>,
    /// Reason for which the machine does not count, and the time until which that holds.
    pub outside: Option<(String, Instant)>,
    /// Time at which absence was last proved.
    pub gone: Option<Instant>,
    /// Number of times in a row that a direct read or a search found the machine although the view does not show it,
    /// and the time until which the last result holds.
    pub seen: Option<(u32, Instant)>,
    /// When polling: time of the last question about existence, until the question about the power state takes it.
    pub asked_at: Option<Instant>,
}

/// Request to one vCenter to find the machine of one node.
#[derive(Clone, Debug)]
pub(super) struct JoinRequest {
    pub attempt: u64,
    pub candidates: Vec<MachineId>,
    /// DNS name to search by, if the node has no UUID.
    pub name: Option<String>,
    /// Reference to the machine from the node, if the node was initialized.
    pub reference: Option<MachineReference>,
}

/// A failed read of machines.
#[derive(Clone, Debug)]
pub(super) struct ReadFailure {
    /// Time at which the read began, or was given up.
    pub at: Instant,
    pub why: String,
    pub retry: Retry,
}

/// State of one vCenter.
#[derive(Debug, Default)]
pub(super) struct VcenterState {
    pub pending: BTreeMap<String, JoinRequest>,
    /// Machines that nodes are linked to, with the name of the node.
    pub desired: BTreeMap<MoRef, String>,
    /// Nodes whose machine is linked to another node, by machine. The end of that link starts a new lookup for them.
    pub awaited: BTreeMap<MoRef, BTreeSet<String>>,
    /// Machines that were given to the view; when polling, machines that were read.
    pub in_view: BTreeSet<MoRef>,
    /// Members that exist although the view does not show them; they must be removed before they are added again.
    pub lost: BTreeSet<MoRef>,
    pub machines: BTreeMap<MoRef, Machine>,
    /// True if the view is current: built, delivered whole, and being waited on. When polling: if the last read
    /// succeeded.
    pub fresh: bool,
    /// True if the last call failed; lookups do not wait for such a vCenter.
    pub troubled: bool,
    /// Number of machines in the inventory at the last whole read, or an estimate after an abandoned one.
    pub inventory_size: Option<usize>,
    /// Resolved datacenters of the configuration; `None` before they are needed.
    pub scope: Option<Known>,
    pub zones: ZoneCache,
    pub zone_wanted: BTreeSet<String>,
    /// When polling: start of the last read that covered all machines.
    pub read_at: Option<Instant>,
    /// When polling: end of the last read of each machine.
    pub read_times: BTreeMap<MoRef, Instant>,
    /// The last read, if it failed.
    pub read_failure: Option<ReadFailure>,
    /// Nodes that wait for a read.
    pub read_wanted: BTreeSet<String>,
    /// Properties that this vCenter does not know.
    pub refused: BTreeSet<String>,
}

/// State of the whole backend.
#[derive(Debug)]
pub(super) struct State {
    pub nodes: BTreeMap<String, Tracked>,
    pub vcenters: Vec<VcenterState>,
    attempts: u64,
    /// Deleted nodes by UID: a question that was running when a node was deleted must not restore its record.
    forgotten: Forgotten,
}

/// Work for other tasks after a change of state.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Effects {
    /// vCenters with new pending joins.
    pub join: BTreeSet<VcenterIndex>,
    /// vCenters whose view needs other members.
    pub view: BTreeSet<VcenterIndex>,
    /// Nodes with news.
    pub changed: BTreeSet<String>,
    /// True if a hit waits for slower vCenters.
    pub grace: bool,
}

/// Longest validity of a search or direct read that found a machine which the view does not show.
const SEEN_AT_MOST: Duration = Duration::from_secs(60);

impl Tracked {
    /// Notes that a direct read or a search found the machine. The first result is not kept, so that the next look
    /// reads again. If the server keeps contradicting itself, results hold for 10 s, then twice as long each time, up
    /// to [`SEEN_AT_MOST`].
    pub(super) fn note_seen(&mut self, now: Instant) {
        let n = self.seen.map_or(0, |(n, _)| n);
        let pause = if n == 0 { Duration::ZERO } else { Duration::from_secs(5 << n.min(6)) };
        self.seen = Some((n + 1, now + pause.min(SEEN_AT_MOST)));
    }

    /// True if the machine was found a moment ago, though the view does not show it.
    pub(super) fn was_just_seen(&self, now: Instant) -> bool {
        self.seen.is_some_and(|(_, until)| now < until)
    }

    /// Returns why the machine does not count, while that answer holds.
    pub(super) fn outside(&self, now: Instant) -> Option<String> {
        self.outside.as_ref().filter(|(_, until)| now < *until).map(|(why, _)| why.clone())
    }
}

impl State {
    pub(super) fn new(n_vcenters: usize) -> Self {
        let vcenters = (0..n_vcenters).map(|_| VcenterState::default()).collect();
        Self { nodes: BTreeMap::new(), vcenters, attempts: 0, forgotten: Forgotten::default() }
    }

    /// Tracks a node that exists now according to the cluster. See [`Self::track`].
    pub(super) fn observe(&mut self, node: &NodeIdentity, effects: &mut Effects) -> bool {
        self.forgotten.recall(&node.uid);
        self.track(node, effects)
    }

    /// Finds or creates the record of a node; a changed node gets a new one, unless the change confirms its link.
    /// Returns true if the record is new. A forgotten node gets none.
    pub(super) fn track(&mut self, node: &NodeIdentity, effects: &mut Effects) -> bool {
        let known = self.nodes.get_mut(&node.name);
        if let Some(tracked) = known
            && tracked.identity.uid == node.uid
        {
            // A provider ID that names the linked machine confirms the link; any other change starts a new lookup.
            let confirms = tracked.link.as_ref().is_none_or(|link| {
                node.candidates().is_ok_and(|c| c.is_empty() || c.contains(&link.uuid))
            });
            if tracked.identity.is_same(node) || (confirms && tracked.link.is_some()) {
                tracked.identity = node.clone();
                return false;
            }
        }
        if self.forgotten.contains(&node.uid) {
            return false;
        }
        self.forget(&node.name, effects);
        // The same node may have another identity, and `forget` has just noted its UID.
        self.forgotten.recall(&node.uid);
        self.nodes.insert(
            node.name.clone(),
            Tracked {
                identity: node.clone(),
                link: None,
                linked_at: None,
                matched: false,
                attempt: None,
                failure: None,
                absent_since: None,
                absent_in: BTreeMap::new(),
                hidden: None,
                outside: None,
                gone: None,
                seen: None,
                asked_at: None,
            },
        );
        true
    }

    /// Drops a node; its machine leaves the view.
    pub(super) fn forget(&mut self, name: &str, effects: &mut Effects) {
        for vcenter in &mut self.vcenters {
            vcenter.pending.remove(name);
            vcenter.zone_wanted.remove(name);
            vcenter.read_wanted.remove(name);
            vcenter.awaited.values_mut().for_each(|nodes| _ = nodes.remove(name));
        }
        self.unlink(name, effects);
        let Some(gone) = self.nodes.remove(name) else { return };
        self.forgotten.note(gone.identity.uid, Instant::now());
    }

    /// Ends a link: the reference no longer stands for the node's machine. Starts a new lookup for nodes that were
    /// refused because of this link.
    pub(super) fn unlink(&mut self, name: &str, effects: &mut Effects) {
        let Some(link) = self.nodes.get_mut(name).and_then(|t| t.link.take()) else { return };
        let vcenter = &mut self.vcenters[link.vcenter];
        vcenter.desired.remove(&link.machine);
        // A machine that has left needs no call to leave the view. Others stay known while the view shows them: a node
        // may be linked to them again before the view is changed.
        if !vcenter.machines.get(&link.machine).is_some_and(|m| m.present) {
            vcenter.in_view.remove(&link.machine);
            vcenter.machines.remove(&link.machine);
        }
        effects.view.insert(link.vcenter);
        for other in vcenter.awaited.remove(&link.machine).unwrap_or_default() {
            if self.nodes.get(&other).is_some_and(|it| it.link.is_none()) {
                self.start_attempt(&other, Instant::now(), effects);
            }
        }
    }

    /// Applies a change of a machine from the collector, and announces news of its node, if any.
    pub(super) fn machine_changed(
        &mut self,
        vcenter: VcenterIndex,
        machine: &MoRef,
        change: impl FnOnce(Option<&Machine>) -> Option<Machine>,
        effects: &mut Effects,
    ) {
        let state = &mut self.vcenters[vcenter];
        let name = state.desired.get(machine).cloned();
        if name.is_none() && !state.in_view.contains(machine) {
            return;
        }
        let before = state.machines.get(machine);
        let Some(after) = change(before) else { return };
        if before == Some(&after) {
            return;
        }
        // The departure of a machine is not announced: nothing can be published from it, and a controller asks about
        // existence only for a node that is not ready.
        let is_news = after.present;
        let uuid = after.uuid;
        state.machines.insert(machine.clone(), after);
        let Some(name) = name else { return };
        let linked = self.nodes.get(&name).and_then(|t| t.link.as_ref());
        let is_other = linked.is_some_and(|link| uuid.is_some_and(|uuid| uuid != link.uuid));
        if is_news && is_other {
            tracing::warn!(node = %name, machine = %machine, "the recorded reference names another machine now; ignoring it");
            self.unlink(&name, effects);
            self.start_attempt(&name, Instant::now(), effects);
        } else if is_news {
            effects.changed.insert(name);
        }
    }
}
