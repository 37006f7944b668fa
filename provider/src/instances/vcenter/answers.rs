//! Answers the controllers' questions from the state: the implementation of [`Instances`].

use std::collections::BTreeSet;

use futures::future::BoxFuture;
use tokio::time::Instant;

use super::{
    Shared, VcenterInstances, poll, proof,
    state::{Effects, Link, State, machine::Power},
    troubles,
};
use crate::{
    instances::{Instances, Trouble, ZoneWanted},
    model::{Lookup, Metadata, NodeIdentity, NodeName, Unknown},
    mutant::mutant,
};

impl Shared {
    /// In polling mode, returns why the last read of a node's machine cannot answer a question
    /// about metadata, and wakes the polling task through `effects`. A question with a zone needs a
    /// read of at most [`poll::WINDOW`] ago, any other question one of at most twice
    /// [`poll::IDLE`]. Returns `None` if the read is recent enough, if the node has no link, and
    /// always in watching mode.
    fn unread(
        &self,
        state: &mut State,
        name: &NodeName,
        wanted: ZoneWanted,
        effects: &mut Effects,
    ) -> Option<Unknown> {
        let link = state.nodes.get(name)?.link.clone().filter(|_| self.polls())?;
        let limit = match wanted {
            ZoneWanted::Yes => poll::WINDOW,
            ZoneWanted::No => poll::IDLE * 2,
        };
        let why = poll::why_not_current(&mut state.vcenters[link.vcenter], &link, name, limit)?;
        effects.view.insert(link.vcenter);
        Some(why)
    }
}

impl Instances for VcenterInstances {
    fn observe(&self, node: &NodeIdentity) {
        self.shared.with(|state, effects| {
            if state.observe(node, effects) {
                state.start_attempt(&node.name, Instant::now(), effects);
            }
        });
    }

    fn forget(&self, name: &NodeName) {
        self.shared.with(|state, effects| state.forget(name, effects));
    }

    fn metadata(&self, node: &NodeIdentity, zone: ZoneWanted) -> Lookup<Metadata> {
        let shared = &self.shared;
        let mut wake_zones = None;
        let result = shared.with(|state, effects| {
            state.track(node, effects);
            if let Some(why) = shared.unread(state, &node.name, zone, effects) {
                return Lookup::Unknown(why);
            }
            if let Some(metadata) = shared.describe(state, &node.name, zone, &mut wake_zones) {
                return Lookup::Found(metadata);
            }
            let nameless = Shared::lacks_uuid(state, &node.name);
            let Some(tracked) = state.nodes.get_mut(&node.name) else {
                return Lookup::Unknown(Unknown::Pending);
            };
            if tracked.attempt.is_some() {
                return Lookup::Unknown(Unknown::Pending);
            }
            if let Some(failure) = tracked.failure.take() {
                return Lookup::Unknown(failure);
            }
            if let Some(why) = tracked.outside(Instant::now()) {
                return Lookup::Unknown(Unknown::Outside(why));
            }
            if nameless {
                let why = "the vCenter currently reports no UUID of the node's machine";
                return Lookup::Unknown(Unknown::Incomplete(why.to_owned()));
            }
            let awaits_view = tracked.link.as_ref().is_some_and(|link| {
                !state.vcenters[link.vcenter].machines.contains_key(&link.machine)
            });
            if !awaits_view {
                state.start_attempt(&node.name, Instant::now(), effects);
                let failure = state.nodes.get_mut(&node.name).and_then(|t| t.failure.take());
                if let Some(failure) = failure {
                    // The lookup is decided at once: by answers of earlier lookups, or by the
                    // provider ID. The caller gets the result here; an announcement would only make
                    // it ask again at once.
                    effects.changed.remove(&node.name);
                    return Lookup::Unknown(failure);
                }
            }
            Lookup::Unknown(Unknown::Pending)
        });
        if let Some(index) = wake_zones {
            shared.vcenters[index].zones.notify_one();
        }
        result
    }

    fn exists<'a>(
        &'a self,
        node: &'a NodeIdentity,
        proof_after: Instant,
    ) -> BoxFuture<'a, Lookup<()>> {
        Box::pin(proof::exists(&self.shared, node, proof_after))
    }

    fn shutdown(&self, node: &NodeIdentity) -> Lookup<bool> {
        self.shared.with(|state, effects| {
            state.track(node, effects);
            let active = self.shared.policy.active;
            // The controller asks this right after the question about existence. A read that was
            // recent enough for that question may be older than the limit by now, because the
            // controller waited for other machines, so its age counts from that question.
            let asked_at = state.nodes.get_mut(&node.name).and_then(|it| it.asked_at.take());
            let Some((link, machine)) = Shared::link_and_machine(state, &node.name) else {
                if mutant!(active, ShutdownOnUnknown) {
                    return Lookup::Found(true);
                }
                return Lookup::Unknown(Unknown::NotSeen);
            };
            if let Some(why) = machine.unread.get("runtime.powerState")
                && !mutant!(active, ShutdownOnUnknown)
            {
                return Lookup::Unknown(Unknown::Incomplete(format!(
                    "the vCenter did not return the power state of the node's machine: {why}"
                )));
            }
            let vcenter = &state.vcenters[link.vcenter];
            let is_current = if self.shared.polls() {
                let asked_at = asked_at.unwrap_or_else(Instant::now);
                vcenter.is_current(&link.machine, asked_at, poll::WINDOW)
            } else {
                vcenter.is_current
            };
            match machine.power {
                Some(power) if is_current => Lookup::Found(power != Power::On),
                _ if mutant!(active, ShutdownOnUnknown) => Lookup::Found(true),
                Some(_) => Lookup::Unknown(Unknown::Unavailable(
                    "the provider has no current state of the vCenter's machines".to_owned(),
                )),
                None => Lookup::Unknown(Unknown::Incomplete(
                    "the vCenter reports no power state of the node's machine".to_owned(),
                )),
            }
        })
    }

    fn n_missing(&self) -> usize {
        let state = self.shared.lock();
        let is_missing = |link: &Link| {
            let machine = state.vcenters[link.vcenter].machines.get(&link.machine);
            machine.is_some_and(|m| !m.present)
        };
        state.nodes.values().filter(|t| t.link.as_ref().is_some_and(is_missing)).count()
    }

    fn troubles(&self) -> Vec<Trouble> {
        troubles::troubles(&self.shared)
    }

    fn changed(&self) -> BoxFuture<'_, BTreeSet<NodeName>> {
        Box::pin(self.shared.news())
    }
}
