//! Answers questions from the view, or returns the request that must come first. Pure.
//!
//! | view | if the machine is in it | if the machine is not in it |
//! | --- | --- | --- |
//! | current | answered at once | a proof (existence), one read by name (metadata) |
//! | current, but a read shows a machine that a list omits | one read by name a minute, then answered | |
//! | not current | one read by name, then answered | one read by name, then a proof |
//! | poll | a list if the last one is too old, then answered | a list if the last one is too old, then as if current |
//!
//! While the backend's own list or watch fails, a question that the view cannot answer sends no
//! request. The answer is unknown then, unless the Supervisor has shown the machine within the last
//! 5 s. A polled list still answers until it is too old.

use tokio::time::Instant;

use super::{
    machine::{
        Field, MachineName, MachineObject, PowerState, UuidKey,
        addresses::{AddressPolicy, node_addresses},
        identity::{Identity, identity, provider_id},
    },
    view::{
        Entry, View,
        find::find_strict,
        freshness::{Freshness, Purpose, WINDOW},
        read::{ReadByName, ReadResult},
    },
};
use crate::{
    instances::ZoneWanted,
    model::{AddressOrder, Metadata, NodeIdentity, Unknown, ViewState, Zone},
};

/// Answer to a question, or the request that must come first.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer<T> {
    /// The answer is known.
    Found(T),
    /// The answer is unknown, and a request would not help now.
    Unknown(Unknown),
    /// The caller must ask again once the first list has arrived, or the time to wait for it has
    /// passed.
    NeedsSync,
    /// The caller must read the machine of this name, then ask again.
    NeedsGet(MachineName),
    /// The caller must make a new list, then ask again.
    NeedsList,
    /// The machine was not found. Only a proof shows whether it is gone.
    NeedsProof,
}

/// A question about a node, with the state that answers it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub view: &'a View,
    pub freshness: &'a Freshness,
    /// Time until which questions wait for the first list.
    pub sync_deadline: Instant,
    pub node: &'a NodeIdentity,
    /// Last name under which the view had the node's machine; the node's name if the view never had
    /// the machine.
    pub machine: &'a str,
    /// The last read by name for this node; `None` before the first one.
    pub read: Option<&'a ReadByName>,
    pub now: Instant,
}

/// Quality of the match between a node and a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// The machine has the UUID of the node's provider ID, or the node's name if the provider ID is
    /// missing or has no UUID.
    Strict,
    /// The machine has the node's name and another UUID, or none. As in v1 mode, the node gets the
    /// addresses and the zone of that machine. For all other purposes the machine does not count.
    ByNameOnly,
}

/// Returns the machine whose addresses and zone the node gets: the one with the node's identity,
/// else the one with the node's name; `None` if the view has neither.
fn find<'a>(
    view: &'a View,
    identity: &Identity,
    node: &NodeIdentity,
) -> Option<(&'a Entry, Match)> {
    find_strict(view, identity, node)
        .map(|entry| (entry, Match::Strict))
        .or_else(|| view.by_name(node.name.as_str()).map(|entry| (entry, Match::ByNameOnly)))
}

/// Answers whether the machine exists, or returns the request that must come first. If a current
/// view does not have the machine, the answer is `NeedsProof`.
pub(super) fn exists(asked: Question<'_>) -> Answer<()> {
    let identity = match identity(asked.node) {
        Ok(identity) => identity,
        Err(why) => return Answer::Unknown(why),
    };
    let entry = find_strict(asked.view, &identity, asked.node);
    if let Some(before) = asked.not_current(Purpose::Life, entry) {
        return before;
    }
    match entry {
        Some(_) => Answer::Found(()),
        None => Answer::NeedsProof,
    }
}

/// Answers whether the machine is off, or returns the request that must come first. In Supervisor
/// mode, neither a suspended machine nor an unreported state counts as off.
pub(super) fn shutdown(asked: Question<'_>) -> Answer<bool> {
    let identity = match identity(asked.node) {
        Ok(identity) => identity,
        Err(why) => return Answer::Unknown(why),
    };
    let entry = find_strict(asked.view, &identity, asked.node);
    if let Some(before) = asked.not_current(Purpose::Life, entry) {
        return before;
    }
    let Some(Entry { machine, .. }) = entry else { return Answer::Unknown(Unknown::NotSeen) };
    if machine.unreadable.contains(&Field::Power) {
        return Answer::Unknown(unreadable(machine, "status.powerState"));
    }
    Answer::Found(machine.power == PowerState::Off)
}

/// Answers with the metadata for the node and with the match that found its machine, or returns the
/// request that must come first.
pub(super) fn metadata(
    asked: Question<'_>,
    wanted: ZoneWanted,
    policy: AddressPolicy,
) -> Answer<(Metadata, Match)> {
    let identity = match identity(asked.node) {
        Ok(identity) => identity,
        Err(why) => return Answer::Unknown(why),
    };
    // The caller needs a zone only to initialize a node, which requires a current view.
    let purpose = match wanted {
        ZoneWanted::Yes => Purpose::Life,
        ZoneWanted::No => Purpose::Addresses,
    };
    let found = find(asked.view, &identity, asked.node);
    if let Some(before) = asked.not_current(purpose, found.map(|(entry, _)| entry)) {
        // A question about metadata needs no proof.
        return if before == Answer::NeedsProof {
            Answer::Unknown(Unknown::NotSeen)
        } else {
            before
        };
    }
    if let Some(before) = asked.may_be_predecessor(purpose, found) {
        return before;
    }
    match found {
        Some((entry, how)) => match describe(asked.node, &entry.machine, how, policy) {
            Ok(metadata) => Answer::Found((metadata, how)),
            Err(why) => Answer::Unknown(why),
        },
        None => match asked.recent_read(asked.node.name.as_str()) {
            None if asked.freshness.state(asked.now) != ViewState::Poll => {
                Answer::NeedsGet(MachineName::from(asked.node.name.as_str()))
            }
            Some(ReadResult::Failed(why)) => Answer::Unknown(why.clone()),
            _ => Answer::Unknown(Unknown::NotSeen),
        },
    }
}

impl Question<'_> {
    /// Returns the request or failure that comes before an answer, if neither the view nor the
    /// entry is recent enough, or if the view is current but the entry is in doubt. `None` if the
    /// view can answer, with or without an entry.
    fn not_current<T>(&self, purpose: Purpose, entry: Option<&Entry>) -> Option<Answer<T>> {
        let Self { freshness, now, .. } = *self;
        if freshness.is_current(purpose, now) {
            let doubted = entry.filter(|entry| entry.must_be_read(now))?;
            return match self.recent_read(doubted.machine.name.as_str()) {
                None => Some(Answer::NeedsGet(doubted.machine.name.clone())),
                Some(ReadResult::Failed(why)) => Some(Answer::Unknown(why.clone())),
                Some(ReadResult::Seen | ReadResult::NotFound) => None,
            };
        }
        let is_young = |at: Instant| now.saturating_duration_since(at) <= WINDOW;
        if entry.is_some_and(|entry| is_young(entry.seen_at) || self.was_just_read(entry)) {
            return None;
        }
        let state = freshness.state(now);
        if state == ViewState::Syncing && now < self.sync_deadline {
            return Some(Answer::NeedsSync);
        }
        if let Some(why) = freshness.trouble() {
            return Some(Answer::Unknown(Unknown::Unavailable(why.to_owned())));
        }
        if state == ViewState::Poll {
            return Some(Answer::NeedsList);
        }
        let machine = entry.map_or(self.machine, |entry| entry.machine.name.as_str());
        match self.recent_read(machine) {
            // The read found another machine of that name, or none. Only a list shows whether the
            // node's machine exists under another name.
            Some(ReadResult::Seen | ReadResult::NotFound) => Some(Answer::NeedsProof),
            Some(ReadResult::Failed(why)) => Some(Answer::Unknown(why.clone())),
            None => Some(Answer::NeedsGet(MachineName::from(machine))),
        }
    }

    /// Returns the request or failure that comes before the initialization of a node whose kubelet
    /// reports another UUID than the machine in the view has; `None` for all other questions. The
    /// view may still have an earlier machine of that name, and a provider ID is never changed.
    /// After a read, the machine with the node's name counts, as it does upstream.
    fn may_be_predecessor<T>(
        &self,
        purpose: Purpose,
        found: Option<(&Entry, Match)>,
    ) -> Option<Answer<T>> {
        if purpose != Purpose::Life || self.node.provider_id.is_some() {
            return None;
        }
        let (entry, _) = found?;
        let reported = UuidKey::of(self.node.system_uuid.as_deref()?)?;
        let has = entry.machine.uuid_key()?;
        if has.byte_orders().any(|key| key == reported) {
            return None;
        }
        match self.recent_read(entry.machine.name.as_str()) {
            None => Some(Answer::NeedsGet(entry.machine.name.clone())),
            Some(ReadResult::Failed(why)) => Some(Answer::Unknown(why.clone())),
            Some(ReadResult::Seen | ReadResult::NotFound) => None,
        }
    }

    /// Returns the result of the last read, if it was of this machine and ended within the last
    /// [`WINDOW`].
    fn recent_read(&self, machine: &str) -> Option<&ReadResult> {
        let reading = self.read.filter(|it| it.machine.as_str() == machine)?;
        let age = self.now.saturating_duration_since(reading.ended_at);
        (age <= WINDOW).then_some(&reading.read)
    }

    /// True if a read that ended within the last [`WINDOW`] shows the entry, however long the read
    /// took.
    fn was_just_read(&self, entry: &Entry) -> bool {
        self.recent_read(entry.machine.name.as_str()) == Some(&ReadResult::Seen)
            && self.read.is_some_and(|reading| entry.seen_at >= reading.began_at)
    }
}

fn unreadable(machine: &MachineObject, what: &str) -> Unknown {
    Unknown::Incomplete(format!(
        "the provider cannot read {what} of VirtualMachine {}",
        machine.name
    ))
}

/// Builds the metadata of a node from this machine, with the values that the instances mode `v1`
/// gives. Returns an error if the provider ID must come from the machine, and the machine has no
/// BIOS UUID yet.
pub(super) fn describe(
    node: &NodeIdentity,
    machine: &MachineObject,
    how: Match,
    policy: AddressPolicy,
) -> Result<Metadata, Unknown> {
    let id = match (&node.provider_id, how, &machine.bios_uuid) {
        // The node has another identity than this machine, and keeps its provider ID.
        (Some(own), Match::ByNameOnly, _) => own.clone(),
        (_, _, Some(uuid)) => provider_id(uuid),
        (_, _, None) => {
            let what = format!("VirtualMachine {} has no BIOS UUID yet", machine.name);
            return Err(Unknown::Incomplete(what));
        }
    };
    let is_odd = |field| machine.unreadable.contains(&field);
    Ok(Metadata {
        provider_id: id,
        reference: None,
        instance_type: None,
        order: AddressOrder::Kept,
        addresses: if is_odd(Field::Network) {
            Err(unreadable(machine, "status.network"))
        } else {
            Ok(node_addresses(machine, policy))
        },
        zone: if is_odd(Field::Labels) {
            Err(unreadable(machine, "metadata.labels"))
        } else {
            let zone = machine.zone.clone();
            Ok(zone.map(|zone| Zone { zone, region: None }))
        },
    })
}

#[cfg(test)]
mod tests;
