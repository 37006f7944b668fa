//! What the vCenter backend knows, under one lock: nodes, their links to machines, and the machines.
//!
//! Pure bookkeeping. No await happens here, so the lock is held briefly and never across one.

use std::collections::{BTreeMap, BTreeSet};

use provider_vcenter::MoRef;
use tokio::time::Instant;

use super::{machine::Machine, scope::Known, zone_reader::ZoneCache};
use crate::model::{MachineId, MachineReference, NodeIdentity, Unknown};

/// How long "not here" of one vCenter is believed while another one is in trouble.
const ABSENCE_HOLDS: std::time::Duration = std::time::Duration::from_secs(60);

/// Whether a machine still is where it does not count is asked again after this long, when somebody wants to know.
const OUTSIDE_PAUSE: std::time::Duration = std::time::Duration::from_secs(60);

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
}

/// A node and what is known of it.
#[derive(Debug)]
pub(super) struct Tracked {
    pub identity: NodeIdentity,
    pub link: Option<Link>,
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
    pub hidden: Option<(String, Instant)>,
    /// Why its machine does not count, and until when that is believed.
    pub outside: Option<(String, Instant)>,
    /// When absence was last proved.
    pub gone: Option<Instant>,
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

/// A vCenter's machines as one read of its inventory showed them.
#[derive(Clone, Debug)]
pub(super) struct Census {
    /// When the read began.
    pub since: Instant,
    pub machines: BTreeSet<MachineId>,
    /// Machines that do not say which one they are, as happens when their storage is lost.
    pub n_unknown: usize,
}

/// What is known of one vCenter.
#[derive(Debug, Default)]
pub(super) struct VcenterState {
    pub pending: BTreeMap<String, JoinRequest>,
    /// Machines that nodes are linked to, and to which.
    pub desired: BTreeMap<MoRef, String>,
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
}

/// Everything.
#[derive(Debug)]
pub(super) struct State {
    pub nodes: BTreeMap<String, Tracked>,
    pub vcenters: Vec<VcenterState>,
    attempts: u64,
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

impl Tracked {
    /// Why its machine does not count, as long as that is believed.
    pub(super) fn outside(&self, now: Instant) -> Option<String> {
        self.outside.as_ref().filter(|(_, until)| now < *until).map(|(why, _)| why.clone())
    }
}

impl State {
    pub(super) fn new(n_vcenters: usize) -> Self {
        let vcenters = (0..n_vcenters).map(|_| VcenterState::default()).collect();
        Self { nodes: BTreeMap::new(), vcenters, attempts: 0 }
    }

    /// The record of a node, begun anew when the node is another one than before. True if it is new.
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
        self.forget(&node.name, effects);
        self.nodes.insert(
            node.name.clone(),
            Tracked {
                identity: node.clone(),
                link: None,
                matched: false,
                attempt: None,
                failure: None,
                absent_since: None,
                absent_in: BTreeMap::new(),
                hidden: None,
                outside: None,
                gone: None,
            },
        );
        true
    }

    /// Drops a node; its machine leaves the view.
    pub(super) fn forget(&mut self, name: &str, effects: &mut Effects) {
        for vcenter in &mut self.vcenters {
            vcenter.pending.remove(name);
            vcenter.zone_wanted.remove(name);
        }
        self.unlink(name, effects);
        self.nodes.remove(name);
    }

    /// Ends a link: the reference no longer stands for the node's machine.
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
    }

    /// Begins a round of asking, unless one is under way.
    ///
    /// While one vCenter is in trouble, the others are not asked again and again for a machine that may be in it.
    pub(super) fn start_attempt(&mut self, name: &str, now: Instant, effects: &mut Effects) {
        let Some(tracked) = self.nodes.get_mut(name) else { return };
        if tracked.attempt.is_some() {
            return;
        }
        let candidates = match tracked.identity.candidates() {
            Ok(candidates) => candidates,
            Err(err) => {
                tracked.failure = Some(Unknown::NotOurs(err.to_string()));
                return;
            }
        };
        self.attempts += 1;
        let request = JoinRequest {
            attempt: self.attempts,
            name: candidates.is_empty().then(|| name.to_lowercase()),
            candidates,
            // Without a provider ID nobody has said yet that it is this machine.
            reference: tracked
                .identity
                .reference
                .clone()
                .filter(|_| tracked.identity.provider_id.is_some()),
        };
        tracked.failure = None;
        let is_fresh = |at: &Instant| now.duration_since(*at) < ABSENCE_HOLDS;
        let any_troubled = self.vcenters.iter().any(|vcenter| vcenter.troubled);
        let (known, waiting): (BTreeSet<_>, BTreeSet<_>) = (0..self.vcenters.len())
            .partition(|index| any_troubled && tracked.absent_in.get(index).is_some_and(is_fresh));
        for index in &waiting {
            self.vcenters[*index].pending.insert(name.to_owned(), request.clone());
            effects.join.insert(*index);
        }
        tracked.attempt = Some(Attempt {
            number: self.attempts,
            answers: known.into_iter().map(|index| (index, Outcome::Absent)).collect(),
            waiting,
        });
        if tracked.attempt.as_ref().is_some_and(|attempt| attempt.waiting.is_empty()) {
            self.decide(name, now, effects);
        }
    }

    /// Takes one vCenter's answer.
    pub(super) fn answer(
        &mut self,
        vcenter: VcenterIndex,
        name: &str,
        number: u64,
        outcome: Outcome,
        now: Instant,
        effects: &mut Effects,
    ) {
        let Some(tracked) = self.nodes.get_mut(name) else { return };
        let Some(attempt) = tracked.attempt.as_mut().filter(|a| a.number == number) else {
            // The attempt was decided without this vCenter. A second machine is news all the same.
            if let (Outcome::Hit(machine, uuid), Some(link)) = (&outcome, &tracked.link)
                && (link.vcenter != vcenter || link.machine != *machine)
                && link.uuid == *uuid
            {
                let text = format!("a second machine has the UUID {uuid}");
                self.unlink(name, effects);
                if let Some(tracked) = self.nodes.get_mut(name) {
                    tracked.failure = Some(Unknown::Ambiguous(text));
                }
                effects.changed.insert(name.to_owned());
            }
            return;
        };
        attempt.waiting.remove(&vcenter);
        if outcome == Outcome::Absent {
            tracked.absent_in.insert(vcenter, now);
        } else {
            tracked.absent_in.remove(&vcenter);
        }
        attempt.answers.insert(vcenter, outcome);
        if attempt.waiting.is_empty() {
            self.decide(name, now, effects);
        } else if attempt.answers.values().any(|o| matches!(o, Outcome::Hit(..))) {
            let all_troubled = attempt.waiting.iter().all(|index| self.vcenters[*index].troubled);
            if all_troubled {
                self.decide(name, now, effects);
            } else {
                effects.grace = true;
            }
        }
    }

    /// Decides every attempt that has a hit and waits only for slower vCenters.
    pub(super) fn decide_hits(&mut self, now: Instant, effects: &mut Effects) {
        let ready: Vec<String> = self
            .nodes
            .iter()
            .filter(|(_, t)| {
                t.attempt
                    .as_ref()
                    .is_some_and(|a| a.answers.values().any(|o| matches!(o, Outcome::Hit(..))))
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in ready {
            self.decide(&name, now, effects);
        }
    }

    fn decide(&mut self, name: &str, now: Instant, effects: &mut Effects) {
        let Some(attempt) = self.nodes.get_mut(name).and_then(|t| t.attempt.take()) else {
            return;
        };
        effects.changed.insert(name.to_owned());
        let mut hits = Vec::new();
        let mut failure = None;
        let mut ambiguous = None;
        let mut outside = None;
        for (vcenter, outcome) in attempt.answers {
            match outcome {
                Outcome::Hit(machine, uuid) => hits.push(Link { vcenter, machine, uuid }),
                Outcome::Absent => {}
                Outcome::Ambiguous(text) => ambiguous = Some(text),
                Outcome::Outside(text) => outside = Some(text),
                Outcome::Failed(text) => failure = Some(text),
            }
        }
        if hits.len() > 1 {
            ambiguous = Some(format!("machines in {} vCenters have its UUID", hits.len()));
        }
        let link = hits.pop();
        if let Some(link) = &link
            && let Some(owner) = self.vcenters[link.vcenter].desired.get(&link.machine)
            && owner != name
        {
            ambiguous = Some(format!("its machine already belongs to node {owner}"));
        }
        let unlinked = self.nodes.get(name).and_then(|t| t.link.clone());
        if unlinked.is_some() && unlinked != link && ambiguous.is_none() && link.is_some() {
            self.unlink(name, effects);
        }
        let Some(tracked) = self.nodes.get_mut(name) else { return };
        tracked.outside = None;
        let result = match (ambiguous, link, failure, outside) {
            (Some(text), _, _, _) => Err(Unknown::Ambiguous(text)),
            (None, Some(link), _, _) => Ok(link),
            (None, None, Some(text), _) => Err(Unknown::Unavailable(text)),
            (None, None, None, Some(text)) => {
                tracked.outside = Some((text.clone(), now + OUTSIDE_PAUSE));
                Err(Unknown::Outside(text))
            }
            (None, None, None, None) => {
                tracked.absent_since.get_or_insert(now);
                Err(Unknown::NotSeen)
            }
        };
        match result {
            Ok(link) => {
                tracked.absent_since = None;
                tracked.gone = None;
                tracked.failure = None;
                tracked.matched = true;
                let vcenter = &mut self.vcenters[link.vcenter];
                vcenter.desired.insert(link.machine.clone(), name.to_owned());
                let is_lost = vcenter.machines.get(&link.machine).is_some_and(|m| !m.present);
                if is_lost && vcenter.in_view.remove(&link.machine) {
                    // Found although the view lost it. It may still be a member, and adding a member again would
                    // not make it enter.
                    vcenter.lost.insert(link.machine.clone());
                }
                effects.view.insert(link.vcenter);
                tracked.link = Some(link);
            }
            Err(why) => {
                if why != Unknown::NotSeen {
                    tracked.absent_since = None;
                }
                tracked.failure = Some(why);
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
