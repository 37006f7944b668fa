//! State of the vCenter backend under one lock: nodes, their links to machines, and the machines.
//!
//! [`attempt`] decides which machine a node is linked to. The state makes no calls and no code here
//! awaits, so the lock is held only briefly and never across an await.

mod attempt;
pub(super) mod machine;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use provider_vcenter::{MoRef, Retry};
use tokio::time::Instant;

use self::machine::Machine;
use super::{index::PerVcenter, join::scope::ResolvedDatacenters, zone_reader::ZoneCache};
use crate::instances::forgotten::Forgotten;
use crate::model::{MachineId, MachineReference, NodeIdentity, NodeName, Unknown};

pub(super) use super::index::VcenterIndex;

/// The machine that the backend has matched to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub vcenter: VcenterIndex,
    pub machine: MoRef,
    pub uuid: MachineId,
}

/// Answer of one vCenter to the lookup of a node's machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VcenterAnswer {
    /// Exactly one machine matches, with this UUID.
    Hit(MoRef, MachineId),
    /// The vCenter shows no such machine.
    Absent,
    /// Several machines match.
    Ambiguous(String),
    /// The machine exists in a datacenter that the configuration excludes.
    Outside(String),
    /// The vCenter could not answer, for this reason.
    Failed(String),
}

/// A running lookup: one round of questions to the vCenters for a node's machine.
#[derive(Debug)]
pub(super) struct Attempt {
    pub number: u64,
    /// vCenters that have not answered yet.
    pub waiting: BTreeSet<VcenterIndex>,
    pub answers: BTreeMap<VcenterIndex, VcenterAnswer>,
    /// Time of the first hit, if other vCenters had not answered then.
    pub hit_at: Option<Instant>,
}

/// State of one node.
#[derive(Debug)]
pub(super) struct TrackedNode {
    pub identity: NodeIdentity,
    pub link: Option<Link>,
    /// Time at which the link was made, or at which a lookup confirmed it after the view had lost
    /// the machine.
    pub linked_at: Option<Instant>,
    /// True if the node has had a link since its record was created.
    pub matched: bool,
    /// The running lookup, if any.
    pub attempt: Option<Attempt>,
    /// Reason why the last lookup found no machine for the node, or why a late answer ended the
    /// link. The next question about metadata that has no other answer takes the reason.
    pub failure: Option<Unknown>,
    /// Time since which no vCenter has shown a machine for the node, according to lookups and
    /// proofs; `None` after a lookup with another result, or after a proof that found the machine.
    pub absent_since: Option<Instant>,
    /// vCenters whose last answer was "absent", with the time of the answer.
    pub absent_in: BTreeMap<VcenterIndex, Instant>,
    /// Reason why neither existence nor absence can be proved now, and the time until which no
    /// question repeats the proof. If the reason is [`Unknown::Unproven`], a person's confirmation
    /// that the machine is gone ends the wait.
    pub unprovable: Option<(Unknown, Instant)>,
    /// Reason why the machine is outside the configured datacenters, and the time until which that
    /// answer holds.
    pub outside: Option<(String, Instant)>,
    /// Start of the last proof of absence; `None` once the machine is found again.
    pub absence_proved_at: Option<Instant>,
    /// Number of times in a row that a direct read or a search found the machine although the view
    /// does not show it, and the time until which the last of these results holds.
    pub found_outside_view: Option<(u32, Instant)>,
    /// In polling mode: time of the last question about existence, until the question about the
    /// power state takes it.
    pub asked_at: Option<Instant>,
}

/// Request to one vCenter to find the machine of one node.
#[derive(Clone, Debug)]
pub(super) struct JoinRequest {
    /// Number of the lookup that the answer belongs to.
    pub attempt: u64,
    /// UUIDs that the machine may have, the likelier one first.
    pub candidates: Vec<MachineId>,
    /// DNS name to search by, if the node has no UUID.
    pub name: Option<String>,
    /// Reference to the machine from the node's annotation, if the node has a provider ID.
    pub reference: Option<MachineReference>,
}

/// A failed read of machines, in polling mode.
#[derive(Clone, Debug)]
pub(super) struct ReadFailure {
    /// Time at which the read began, or at which a caller gave it up.
    pub at: Instant,
    pub why: String,
    pub retry: Retry,
}

/// State of one vCenter.
#[derive(Debug, Default)]
pub(super) struct VcenterState {
    /// Requests that the join task has not taken yet, by name of the node.
    pub pending: BTreeMap<NodeName, JoinRequest>,
    /// Machines that nodes are linked to, with the name of the node.
    pub linked: BTreeMap<MoRef, NodeName>,
    /// Nodes whose machine is linked to another node, by machine. When that link ends, a new lookup
    /// starts for them.
    pub awaited: BTreeMap<MoRef, BTreeSet<NodeName>>,
    /// Machines that the provider has added to the view; in polling mode, machines that it has
    /// read.
    pub in_view: BTreeSet<MoRef>,
    /// Machines that a lookup found although the view had lost them. They may still be members of
    /// the view on the server, so the provider removes them before it adds them again.
    pub lost: BTreeSet<MoRef>,
    pub machines: BTreeMap<MoRef, Machine>,
    /// True if the view is current: built, completely delivered, and without a failed wait since.
    /// In polling mode, true if the last read succeeded.
    pub is_current: bool,
    /// True after a failed lookup, wait or read of machines, or a failed build of the view, until a
    /// later lookup, wait, read or keep-alive succeeds. A lookup that has a hit does not wait for
    /// such a vCenter.
    pub last_call_failed: bool,
    /// Number of machines in the last complete read of the inventory or of the configured
    /// datacenters. After an abandoned read, a guess: twice the number that it read, and at least
    /// 2000. `None` before the first read.
    pub inventory_size: Option<usize>,
    /// Resolved datacenter names of the configuration; `None` before the first read of them.
    pub scope: Option<ResolvedDatacenters>,
    pub zones: ZoneCache,
    /// Nodes that wait for the zone reader.
    pub zone_wanted: BTreeSet<NodeName>,
    /// In polling mode: start of the last successful read that covered all linked machines; `None`
    /// before the first one.
    pub read_at: Option<Instant>,
    /// In polling mode: end of the last read of each machine.
    pub read_times: BTreeMap<MoRef, Instant>,
    /// In polling mode: the last read, if it failed or a caller gave it up.
    pub read_failure: Option<ReadFailure>,
    /// In polling mode: nodes that wait for a read.
    pub read_wanted: BTreeSet<NodeName>,
    /// In polling mode: property paths that this vCenter rejects.
    pub refused: BTreeSet<String>,
}

/// State of the whole backend.
#[derive(Debug)]
pub(super) struct State {
    pub nodes: BTreeMap<NodeName, TrackedNode>,
    pub vcenters: PerVcenter<VcenterState>,
    /// Number of lookups that the backend has started for all nodes. The last lookup has this
    /// number.
    attempts: u64,
    /// UIDs of deleted nodes. A question that was running when its node was deleted must not create
    /// the node's record again.
    forgotten: Forgotten,
}

/// Work for other tasks after a change of state.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Effects {
    /// vCenters with new pending requests to find machines.
    pub join: BTreeSet<VcenterIndex>,
    /// vCenters whose view needs other members, or in which a poll is due.
    pub view: BTreeSet<VcenterIndex>,
    /// Nodes whose answers may have changed.
    pub changed: BTreeSet<NodeName>,
    /// True if a hit waits for slower vCenters.
    pub grace: bool,
}

/// Longest time for which a machine counts as existing without a new read, after a search or direct
/// read found it although the view does not show it.
const SEEN_AT_MOST: Duration = Duration::from_secs(60);

impl TrackedNode {
    /// Notes that a direct read or a search found the machine although the view does not show it.
    /// The first result is not reused, so that the next question reads again. Further results in a
    /// row hold for 10 s, then twice as long each time, up to [`SEEN_AT_MOST`].
    pub(super) fn note_seen(&mut self, now: Instant) {
        let n = self.found_outside_view.map_or(0, |(n, _)| n);
        let pause = if n == 0 { Duration::ZERO } else { Duration::from_secs(5 << n.min(6)) };
        self.found_outside_view = Some((n + 1, now + pause.min(SEEN_AT_MOST)));
    }

    /// True while the machine counts as existing because of a direct read or a search; see
    /// [`Self::note_seen`].
    pub(super) fn was_just_seen(&self, now: Instant) -> bool {
        self.found_outside_view.is_some_and(|(_, until)| now < until)
    }

    /// Returns why the machine is outside the configured datacenters; `None` if it is not, or if
    /// that answer no longer holds.
    pub(super) fn outside(&self, now: Instant) -> Option<String> {
        self.outside.as_ref().filter(|(_, until)| now < *until).map(|(why, _)| why.clone())
    }
}

impl State {
    pub(super) fn new(n_vcenters: usize) -> Self {
        let vcenters = (0..n_vcenters).map(|_| VcenterState::default()).collect();
        Self { nodes: BTreeMap::new(), vcenters, attempts: 0, forgotten: Forgotten::default() }
    }

    /// Tracks a node that the cluster shows now, even if it was deleted before. See
    /// [`Self::track`].
    pub(super) fn observe(&mut self, node: &NodeIdentity, effects: &mut Effects) -> bool {
        self.forgotten.recall(&node.uid);
        self.track(node, effects)
    }

    /// Creates the record of a node, unless the node has one. If the identity of the node has
    /// changed, drops the old record with its link and creates a new one. Keeps record and link,
    /// and only stores the new identity, if the UID is the same and the UUIDs of the node still
    /// permit the link. Creates no record of a deleted node. Returns true if the record is new.
    pub(super) fn track(&mut self, node: &NodeIdentity, effects: &mut Effects) -> bool {
        let known = self.nodes.get_mut(&node.name);
        if let Some(tracked) = known
            && tracked.identity.uid == node.uid
        {
            // A change confirms the link if the UUIDs that the machine may have still include that
            // of the link, or if none are left. Any other change leads to a new record.
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
        // `forget` has just noted the UID as deleted. The node may be the same one with another
        // provider ID.
        self.forgotten.recall(&node.uid);
        self.nodes.insert(
            node.name.clone(),
            TrackedNode {
                identity: node.clone(),
                link: None,
                linked_at: None,
                matched: false,
                attempt: None,
                failure: None,
                absent_since: None,
                absent_in: BTreeMap::new(),
                unprovable: None,
                outside: None,
                absence_proved_at: None,
                found_outside_view: None,
                asked_at: None,
            },
        );
        true
    }

    /// Drops a deleted node and its link, so that the linked machine leaves the view. Questions
    /// that still run do not create the record again.
    pub(super) fn forget(&mut self, name: &NodeName, effects: &mut Effects) {
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

    /// Ends the link of a node. Starts a new lookup for each node that was refused this machine
    /// because of the link.
    pub(super) fn unlink(&mut self, name: &NodeName, effects: &mut Effects) {
        let Some(link) = self.nodes.get_mut(name).and_then(|t| t.link.take()) else { return };
        let vcenter = &mut self.vcenters[link.vcenter];
        vcenter.linked.remove(&link.machine);
        // A machine that the view does not show needs no call to be removed. Others are kept while
        // the view shows them, because a node may be linked to them again before the view is
        // changed.
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

    /// Applies a change that a delivery or a read shows of a linked machine or a member of the
    /// view. `change` gets the earlier properties, and returns `None` to change nothing.
    ///
    /// Announces the linked node, if any, unless the machine has left the view. If the machine has
    /// another UUID than the link, ends the link and starts a new lookup instead.
    pub(super) fn machine_changed(
        &mut self,
        vcenter: VcenterIndex,
        machine: &MoRef,
        change: impl FnOnce(Option<&Machine>) -> Option<Machine>,
        effects: &mut Effects,
    ) {
        let state = &mut self.vcenters[vcenter];
        let name = state.linked.get(machine).cloned();
        if name.is_none() && !state.in_view.contains(machine) {
            return;
        }
        let before = state.machines.get(machine);
        let Some(after) = change(before) else { return };
        if before == Some(&after) {
            return;
        }
        // The departure of a machine is not announced. The provider can publish nothing from such a
        // machine, and a controller asks about existence only for a node that is not ready.
        let is_news = after.present;
        let uuid = after.uuid;
        state.machines.insert(machine.clone(), after);
        let Some(name) = name else { return };
        let linked = self.nodes.get(&name).and_then(|t| t.link.as_ref());
        let is_other = linked.is_some_and(|link| uuid.is_some_and(|uuid| uuid != link.uuid));
        if is_news && is_other {
            tracing::warn!(node = %name, machine = %machine, "the recorded reference now belongs to another machine; searching for the machine of the node again");
            self.unlink(&name, effects);
            self.start_attempt(&name, Instant::now(), effects);
        } else if is_news {
            effects.changed.insert(name);
        }
    }
}
