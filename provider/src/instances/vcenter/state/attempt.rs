//! Lookups ("attempts"): asks every vCenter for the machine of a node, and decides from the
//! answers.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::Instant;

use super::{
    Attempt, Effects, JoinRequest, Link, State, TrackedNode, VcenterAnswer, VcenterIndex,
    VcenterState,
};
use crate::model::{NodeName, Unknown};

/// Time for which the backend reuses the answer "absent" of one vCenter while the last call to some
/// vCenter failed.
const ABSENCE_HOLDS: Duration = Duration::from_secs(60);

/// Time for which the backend reuses the answer that a machine is in an excluded datacenter. A
/// question after that starts a new lookup.
const OUTSIDE_PAUSE: Duration = Duration::from_secs(60);

impl TrackedNode {
    /// Returns the time of the first hit, if other vCenters have not answered yet.
    fn hit_at(&self) -> Option<Instant> {
        self.attempt.as_ref()?.hit_at
    }
}

impl State {
    /// Starts a lookup of the node's machine, unless one is running. For a provider ID of another
    /// provider, only stores the failure.
    ///
    /// While the last call to some vCenter failed, an answer "absent" that is younger than
    /// [`ABSENCE_HOLDS`] counts again, and the lookup does not ask that vCenter. If that holds for
    /// all vCenters, the lookup ends at once.
    pub(in crate::instances::vcenter) fn start_attempt(
        &mut self,
        name: &NodeName,
        now: Instant,
        effects: &mut Effects,
    ) {
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
            name: candidates.is_empty().then(|| name.as_str().to_lowercase()),
            candidates,
            // A reference counts only with a provider ID. Without one, the node has not been
            // matched to that machine yet.
            reference: tracked
                .identity
                .reference
                .clone()
                .filter(|_| tracked.identity.provider_id.is_some()),
        };
        tracked.failure = None;
        let is_fresh = |at: &Instant| now.duration_since(*at) < ABSENCE_HOLDS;
        let any_troubled = self.vcenters.iter().any(|vcenter| vcenter.last_call_failed);
        let (known, waiting): (BTreeSet<_>, BTreeSet<_>) = self
            .vcenters
            .indexes()
            .partition(|index| any_troubled && tracked.absent_in.get(index).is_some_and(is_fresh));
        for index in &waiting {
            self.vcenters[*index].pending.insert(name.clone(), request.clone());
            effects.join.insert(*index);
        }
        tracked.attempt = Some(Attempt {
            number: self.attempts,
            answers: known.into_iter().map(|index| (index, VcenterAnswer::Absent)).collect(),
            waiting,
            hit_at: None,
        });
        if tracked.attempt.as_ref().is_some_and(|attempt| attempt.waiting.is_empty()) {
            self.decide(name, now, effects);
        }
    }

    /// Applies the answer of one vCenter to the lookup with this number. Decides the lookup if all
    /// vCenters have answered, or if one has a hit and the last call to every vCenter that has not
    /// answered failed.
    ///
    /// The answer to an earlier lookup counts only if it is a hit on a second machine with the UUID
    /// of the link. Then the link ends.
    pub(in crate::instances::vcenter) fn answer(
        &mut self,
        vcenter: VcenterIndex,
        name: &NodeName,
        number: u64,
        outcome: VcenterAnswer,
        now: Instant,
        effects: &mut Effects,
    ) {
        let Some(tracked) = self.nodes.get_mut(name) else { return };
        let Some(attempt) = tracked.attempt.as_mut().filter(|a| a.number == number) else {
            // The lookup was decided without this vCenter. If it has a second machine with the same
            // UUID, the link was wrong.
            if let (VcenterAnswer::Hit(machine, uuid), Some(link)) = (&outcome, &tracked.link)
                && (link.vcenter != vcenter || link.machine != *machine)
                && link.uuid == *uuid
            {
                let text = format!("a second machine has the UUID {uuid}");
                self.unlink(name, effects);
                if let Some(tracked) = self.nodes.get_mut(name) {
                    tracked.failure = Some(Unknown::Ambiguous(text));
                }
                effects.changed.insert(name.clone());
            }
            return;
        };
        attempt.waiting.remove(&vcenter);
        if outcome == VcenterAnswer::Absent {
            tracked.absent_in.insert(vcenter, now);
        } else {
            tracked.absent_in.remove(&vcenter);
        }
        attempt.answers.insert(vcenter, outcome);
        if attempt.waiting.is_empty() {
            self.decide(name, now, effects);
        } else if attempt.answers.values().any(|o| matches!(o, VcenterAnswer::Hit(..))) {
            attempt.hit_at.get_or_insert(now);
            let all_troubled =
                attempt.waiting.iter().all(|index| self.vcenters[*index].last_call_failed);
            if all_troubled {
                self.decide(name, now, effects);
            } else {
                effects.grace = true;
            }
        }
    }

    /// Decides every lookup whose first hit has waited for slower vCenters for at least `grace`.
    pub(in crate::instances::vcenter) fn decide_hits(
        &mut self,
        now: Instant,
        grace: Duration,
        effects: &mut Effects,
    ) {
        let is_due = |tracked: &TrackedNode| tracked.hit_at().is_some_and(|at| now >= at + grace);
        let due = self.nodes.iter().filter(|(_, tracked)| is_due(tracked));
        let due: Vec<NodeName> = due.map(|(name, _)| name.clone()).collect();
        for name in due {
            self.decide(&name, now, effects);
        }
    }

    /// Returns the time of the oldest hit that waits for slower vCenters; `None` if no hit waits.
    pub(in crate::instances::vcenter) fn oldest_hit(&self) -> Option<Instant> {
        self.nodes.values().filter_map(TrackedNode::hit_at).min()
    }

    /// Ends a lookup with the answers that have arrived: links the node to its machine, or stores
    /// the failure.
    fn decide(&mut self, name: &NodeName, now: Instant, effects: &mut Effects) {
        let Some(attempt) = self.nodes.get_mut(name).and_then(|t| t.attempt.take()) else {
            return;
        };
        let Findings { link, mut ambiguous, outside, failure } = Findings::from(attempt);
        let before = self.nodes.get(name).and_then(|t| t.link.clone());
        // The old link ends even if the new one is refused below. If two nodes are linked to each
        // other's machines, one of them must release its machine first.
        if before.is_some() && before != link && ambiguous.is_none() && link.is_some() {
            self.unlink(name, effects);
        }
        if let Some(link) = &link {
            let VcenterState { linked, awaited, .. } = &mut self.vcenters[link.vcenter];
            if let Some(owner) = linked.get(&link.machine).filter(|owner| *owner != name) {
                ambiguous = Some(format!("the node's machine already belongs to node {owner}"));
                awaited.entry(link.machine.clone()).or_default().insert(name.clone());
            }
        }
        let Some(tracked) = self.nodes.get_mut(name) else { return };
        tracked.outside = None;
        let why = match (ambiguous, link, failure, outside) {
            (None, Some(link), _, _) => return self.link(name, link, now, effects),
            (Some(text), _, _, _) => Unknown::Ambiguous(text),
            (None, None, Some(text), _) => Unknown::Unavailable(text),
            (None, None, None, Some(text)) => {
                tracked.outside = Some((text.clone(), now + OUTSIDE_PAUSE));
                Unknown::Outside(text)
            }
            (None, None, None, None) => {
                tracked.absent_since.get_or_insert(now);
                Unknown::NotSeen
            }
        };
        if why != Unknown::NotSeen {
            tracked.absent_since = None;
        }
        tracked.failure = Some(why);
        effects.changed.insert(name.clone());
    }

    /// Links a node to the machine that a lookup found, or confirms the link.
    fn link(&mut self, name: &NodeName, link: Link, now: Instant, effects: &mut Effects) {
        let Some(tracked) = self.nodes.get_mut(name) else { return };
        tracked.absent_since = None;
        tracked.absence_proved_at = None;
        tracked.unprovable = None;
        tracked.failure = None;
        tracked.matched = true;
        let vcenter = &mut self.vcenters[link.vcenter];
        vcenter.linked.insert(link.machine.clone(), name.clone());
        let is_lost = vcenter.machines.get(&link.machine).is_some_and(|m| !m.present);
        if is_lost {
            // The view lost the machine, and a lookup found it. Now the machine waits for the view
            // like one that the view has never delivered.
            vcenter.machines.remove(&link.machine);
            if vcenter.in_view.remove(&link.machine) {
                // The machine may still be a member of the view. It must be removed first, because
                // a member that is added again does not enter.
                vcenter.lost.insert(link.machine.clone());
            }
        }
        effects.view.insert(link.vcenter);
        let is_new = tracked.link.as_ref() != Some(&link);
        if is_new || is_lost {
            tracked.linked_at = Some(now);
        }
        // A confirmed link is not announced, because the reader would only ask again at once.
        if is_new {
            effects.changed.insert(name.clone());
        }
        tracked.link = Some(link);
    }
}

/// The answers of all vCenters to one lookup, taken together.
#[derive(Default)]
struct Findings {
    /// Link to the machine that matches; to one of them if several match, `None` if none matches.
    link: Option<Link>,
    /// Reason why no single machine matches, if several do.
    ambiguous: Option<String>,
    /// Reason why the machine counts as outside the configured datacenters, if it does.
    outside: Option<String>,
    /// Reason why a vCenter could not answer, if one could not.
    failure: Option<String>,
}

impl From<Attempt> for Findings {
    fn from(attempt: Attempt) -> Self {
        let mut findings = Self::default();
        let mut hits = Vec::new();
        for (vcenter, outcome) in attempt.answers {
            match outcome {
                VcenterAnswer::Hit(machine, uuid) => hits.push(Link { vcenter, machine, uuid }),
                VcenterAnswer::Absent => {}
                VcenterAnswer::Ambiguous(text) => findings.ambiguous = Some(text),
                VcenterAnswer::Outside(text) => findings.outside = Some(text),
                VcenterAnswer::Failed(text) => findings.failure = Some(text),
            }
        }
        if hits.len() > 1 {
            let text = format!("machines in {} vCenters have the UUID of the node", hits.len());
            findings.ambiguous = Some(text);
        }
        findings.link = hits.pop();
        findings
    }
}
