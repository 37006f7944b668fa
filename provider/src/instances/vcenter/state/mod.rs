//! What the vCenter backend knows, under one lock: nodes, their links to machines, and the machines.
//!
//! How a node finds its machine is in [`attempt`]. Pure bookkeeping: no await happens here, so the lock is held briefly
//! and never across one.

mod attempt;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use provider_vcenter::{MoRef, Retry};
use tokio::time::Instant;

use super::{census::Census, machine::Machine, scope::Known, zone_reader::ZoneCache};
use crate::instances::forgotten::Forgotten;
use crate::model::{MachineId, MachineReference, NodeIdentity, Unknown};

/// Index of a vCenter in the backend's list.
pub(super) type VcenterIndex = usize;

/// Which machine a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub vcenter: VcenterIndex,
    pub machine: MoRef,
    pub uuid: MachineId,
}

/// What one vCenter answered when asked for a node's machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Hit(MoRef, MachineId),
    Absent,
    Ambiguous(String),
    /// There, in a datacenter that the configuration leaves out.
    Outside(String),
    Failed(String),
}

/// One round of asking all vCenters for a node's machine.
#[derive(Debug)]
pub(super) struct Attempt {
    pub number: u64,
    pub waiting: BTreeSet<VcenterIndex>,
    pub answers: BTreeMap<VcenterIndex, Outcome>,
    /// When the first vCenter that shows its machine has answered.
    pub hit_at: Option<Instant>,
}

/// A node and what is known of it.
#[derive(Debug)]
pub(super) struct Tracked {
    pub identity: NodeIdentity,
    pub link: Option<Link>,
    /// Since when there is this link.
    pub linked_at: Option<Instant>,
    /// Whether there ever was a link.
    pub matched: bool,
    pub attempt: Option<Attempt>,
    /// Why the last attempt found nothing; taken by whoever asks next.
    pub failure: Option<Unknown>,
    /// When all vCenters first said, without error, that they show no such machine.
    pub absent_since: Option<Instant>,
    /// vCenters that did not show it, and when they said so.
    pub absent_in: BTreeMap<VcenterIndex, Instant>,
    /// Why nothing can be learned about its existence, and until when it is not asked about again.
    pub hidden: Option<(Unknown, Instant)>,
    /// Why its machine does not count, and until when that is believed.
    pub outside: Option<(String, Instant)>,
    /// When absence was last proved.
    pub gone: Option<Instant>,
    /// A direct read or a search found the machine that the view does not show: how often in a row, and until when that is
    /// believed.
    pub seen: Option<(u32, Instant)>,
}

/// What is asked of one vCenter for one node.
#[derive(Clone, Debug)]
pub(super) struct JoinRequest {
    pub attempt: u64,
    pub candidates: Vec<MachineId>,
    /// Asked by DNS name when there is no UUID.
    pub name: Option<String>,
    /// Where the node says its machine is, if it was initialized.
    pub reference: Option<MachineReference>,
}

/// A read of machines that failed.
#[derive(Clone, Debug)]
pub(super) struct ReadFailure {
    /// When it began.
    pub at: Instant,
    pub why: String,
    pub retry: Retry,
}

/// What is known of one vCenter.
#[derive(Debug, Default)]
pub(super) struct VcenterState {
    pub pending: BTreeMap<String, JoinRequest>,
    /// Machines that nodes are linked to, and to which.
    pub desired: BTreeMap<MoRef, String>,
    /// Nodes whose machine is one of those, linked to another node: they are looked for again when that link ends.
    pub awaited: BTreeMap<MoRef, BTreeSet<String>>,
    /// Machines that the view was told of.
    pub in_view: BTreeSet<MoRef>,
    /// Members that the view does not show although they are there: to be taken out before they are added again.
    pub lost: BTreeSet<MoRef>,
    pub machines: BTreeMap<MoRef, Machine>,
    /// Whether the view is current: built, delivered whole, and being waited on.
    pub fresh: bool,
    /// Whether the last call failed; others do not wait for such a vCenter.
    pub troubled: bool,
    /// Machines in the inventory at the last whole read.
    pub inventory_size: Option<usize>,
    pub census: Option<Census>,
    /// What the configured datacenters are; none before they were needed.
    pub scope: Option<Known>,
    pub zones: ZoneCache,
    pub zone_wanted: BTreeSet<String>,
    /// Where machines are polled: when the last read that showed all of them began, and when each was read.
    pub read_at: Option<Instant>,
    pub read_times: BTreeMap<MoRef, Instant>,
    /// The last read, if it failed.
    pub read_failure: Option<ReadFailure>,
    /// Nodes that wait for a read.
    pub read_wanted: BTreeSet<String>,
    /// Properties that this server does not know.
    pub refused: BTreeSet<String>,
}

/// Everything.
#[derive(Debug)]
pub(super) struct State {
    pub nodes: BTreeMap<String, Tracked>,
    pub vcenters: Vec<VcenterState>,
    attempts: u64,
    /// Nodes that are gone, by UID: a question that was under way when a node went must not bring it back.
    forgotten: Forgotten,
}

/// What a change of state asks others to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Effects {
    /// vCenters with new pending joins.
    pub join: BTreeSet<VcenterIndex>,
    /// vCenters whose view should hold other machines.
    pub view: BTreeSet<VcenterIndex>,
    /// Nodes about which there is news.
    pub changed: BTreeSet<String>,
    /// A hit waits for slower vCenters.
    pub grace: bool,
}

/// The longest time for which a machine is believed to exist that only a search or a direct read shows.
const SEEN_AT_MOST: Duration = Duration::from_secs(60);

impl Tracked {
    /// Notes that a direct read or a search found the machine. The first time it is asked about again at the next look; a
    /// server that goes on to contradict itself is asked ever more seldom.
    pub(super) fn note_seen(&mut self, now: Instant) {
        let n = self.seen.map_or(0, |(n, _)| n);
        let pause = if n == 0 { Duration::ZERO } else { Duration::from_secs(5 << n.min(6)) };
        self.seen = Some((n + 1, now + pause.min(SEEN_AT_MOST)));
    }

    /// True if the machine was found a moment ago, though the view does not show it.
    pub(super) fn was_just_seen(&self, now: Instant) -> bool {
        self.seen.is_some_and(|(_, until)| now < until)
    }

    /// Why its machine does not count, as long as that is believed.
    pub(super) fn outside(&self, now: Instant) -> Option<String> {
        self.outside.as_ref().filter(|(_, until)| now < *until).map(|(why, _)| why.clone())
    }
}

impl State {
    pub(super) fn new(n_vcenters: usize) -> Self {
        let vcenters = (0..n_vcenters).map(|_| VcenterState::default()).collect();
        Self { nodes: BTreeMap::new(), vcenters, attempts: 0, forgotten: Forgotten::default() }
    }

    /// The record of a node that exists now, as the cluster says. See [`Self::track`].
    pub(super) fn observe(&mut self, node: &NodeIdentity, effects: &mut Effects) -> bool {
        self.forgotten.recall(&node.uid);
        self.track(node, effects)
    }

    /// The record of a node, begun anew when the node is another one than before. True if it is new. A node that was forgotten
    /// gets none.
    pub(super) fn track(&mut self, node: &NodeIdentity, effects: &mut Effects) -> bool {
        let known = self.nodes.get_mut(&node.name);
        if let Some(tracked) = known
            && tracked.identity.uid == node.uid
        {
            // A provider ID that names the linked machine confirms the link; anything else asks again.
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
        // It may be the same node with another identity.
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

    /// Ends a link: the reference no longer stands for the node's machine. A node that was refused because of this link is looked for
    /// again.
    pub(super) fn unlink(&mut self, name: &str, effects: &mut Effects) {
        let Some(link) = self.nodes.get_mut(name).and_then(|t| t.link.take()) else { return };
        let vcenter = &mut self.vcenters[link.vcenter];
        vcenter.desired.remove(&link.machine);
        // A machine that has left needs no call to be taken out of the view. Others stay known as long as the view
        // shows them: a node may be linked to them again before it was told.
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

    /// Takes over what the collector says of a machine; its node, if any, has news.
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
        // A machine that left is not announced: nothing can be published from it, and only a node that is not
        // ready makes anyone ask whether it still exists.
        let is_news = after.present;
        let uuid = after.uuid;
        state.machines.insert(machine.clone(), after);
        let Some(name) = name else { return };
        let linked = self.nodes.get(&name).and_then(|t| t.link.as_ref());
        let is_other = linked.is_some_and(|link| uuid.is_some_and(|uuid| uuid != link.uuid));
        if is_news && is_other {
            tracing::warn!(node = %name, machine = %machine, "the reference stands for another machine now");
            self.unlink(&name, effects);
            self.start_attempt(&name, Instant::now(), effects);
        } else if is_news {
            effects.changed.insert(name);
        }
    }
}
