//! Answers from the view, or what must be asked before there is one. Pure.
//!
//! | view | machine in it | machine not in it |
//! | --- | --- | --- |
//! | current | answered | a proof (existence), one read by name (metadata) |
//! | current, but shown by a read that contradicts a list | one read by name a minute, then answered | |
//! | not current | one read by name, then answered | the same, then a proof |
//! | poll | a list, when the last one is too old for the question | as if current, after it |
//!
//! While the Supervisor does not answer our own list and watch, nobody asks it anything: all is unknown.

use tokio::time::Instant;

use super::{
    addresses::{AddressPolicy, node_addresses},
    freshness::{Freshness, Purpose, ViewState, WINDOW},
    identity::{Identity, identity, provider_id},
    machine::{Field, MachineObject, PowerState},
    proof::is_disowned,
    view::{Entry, View},
};
use crate::{
    instances::ZoneWanted,
    model::{AddressOrder, Metadata, NodeIdentity, Unknown, Zone},
};

/// What there is to say, or to do before.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer<T> {
    /// This.
    Found(T),
    /// Not known, and asking would not help now.
    Unknown(Unknown),
    /// Ask again when the first list is in, or the time for it is over.
    NeedsSync,
    /// Read the machine of this name, then ask again.
    NeedsGet(String),
    /// Make a new list, then ask again.
    NeedsList,
    /// Not seen where it should be. Only a proof tells whether it is gone.
    NeedsProof,
}

/// What a read of one machine by its name came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// It is there; the view has it now.
    Seen,
    /// There is none of that name.
    NotFound,
    /// Not known.
    Failed(Unknown),
}

/// A read of one machine by its name, for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// The name that was read. It need not be the node's.
    pub machine: String,
    /// A proof is as old as the beginning of what proves it.
    pub began_at: Instant,
    /// An answer is as young as its end: a slow one is not asked for again at once.
    pub ended_at: Instant,
    pub read: Read,
}

/// A question.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub view: &'a View,
    pub freshness: &'a Freshness,
    /// The first list is waited for until then.
    pub sync_deadline: Instant,
    pub node: &'a NodeIdentity,
    /// Under which name the node's machine was last seen; the node's own, if never.
    pub machine: &'a str,
    /// The last read of a machine for this node.
    pub read: Option<&'a Reading>,
    pub now: Instant,
}

/// How a node's machine was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// It is the one.
    Strict,
    /// It has the node's name and another UUID, or none: good for addresses, as with v1, and for nothing else.
    ByNameOnly,
}

/// The machine that the node is.
pub(super) fn find_strict<'a>(
    view: &'a View,
    identity: &Identity,
    node: &NodeIdentity,
) -> Option<&'a Entry> {
    match identity {
        Identity::Uuid(key) => view.by_uuid(key, &node.name),
        Identity::Name => view.by_name(&node.name).filter(|_| !is_disowned(view.active, node)),
    }
}

/// The machine whose addresses the node gets.
fn find<'a>(
    view: &'a View,
    identity: &Identity,
    node: &NodeIdentity,
) -> Option<(&'a Entry, Match)> {
    find_strict(view, identity, node)
        .map(|entry| (entry, Match::Strict))
        .or_else(|| view.by_name(&node.name).map(|entry| (entry, Match::ByNameOnly)))
}

/// Whether the machine exists. Never says that it does not.
pub(super) fn exists(asked: Asked<'_>) -> Answer<()> {
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

/// Whether the machine is off. Suspended is not off in this mode, and neither is a state that is not said.
pub(super) fn shutdown(asked: Asked<'_>) -> Answer<bool> {
    let identity = match identity(asked.node) {
        Ok(identity) => identity,
        Err(why) => return Answer::Unknown(why),
    };
    let entry = find_strict(asked.view, &identity, asked.node);
    if let Some(before) = asked.not_current(Purpose::Life, entry) {
        return before;
    }
    let Some(Entry { machine, .. }) = entry else { return Answer::Unknown(Unknown::NotSeen) };
    if machine.odd.contains(&Field::Power) {
        return Answer::Unknown(unreadable(machine, "status.powerState"));
    }
    Answer::Found(machine.power == PowerState::Off)
}

/// What the node is to be told, and how its machine was found.
pub(super) fn metadata(
    asked: Asked<'_>,
    wanted: ZoneWanted,
    policy: AddressPolicy,
) -> Answer<(Metadata, Match)> {
    let identity = match identity(asked.node) {
        Ok(identity) => identity,
        Err(why) => return Answer::Unknown(why),
    };
    // Zones are wanted when a node begins.
    let purpose = match wanted {
        ZoneWanted::Yes => Purpose::Life,
        ZoneWanted::No => Purpose::Addresses,
    };
    let found = find(asked.view, &identity, asked.node);
    if let Some(before) = asked.not_current(purpose, found.map(|(entry, _)| entry)) {
        // With a proof nobody could do anything here.
        return if before == Answer::NeedsProof {
            Answer::Unknown(Unknown::NotSeen)
        } else {
            before
        };
    }
    match found {
        Some((entry, how)) => match describe(asked.node, &entry.machine, how, policy) {
            Ok(metadata) => Answer::Found((metadata, how)),
            Err(why) => Answer::Unknown(why),
        },
        None => match asked.recent_read(&asked.node.name) {
            None if asked.freshness.state(asked.now) != ViewState::Poll => {
                Answer::NeedsGet(asked.node.name.clone())
            }
            Some(Read::Failed(why)) => Answer::Unknown(why.clone()),
            _ => Answer::Unknown(Unknown::NotSeen),
        },
    }
}

impl Asked<'_> {
    /// What comes before an answer, when neither the view nor the entry is young enough to be believed.
    fn not_current<T>(&self, purpose: Purpose, entry: Option<&Entry>) -> Option<Answer<T>> {
        let Self { freshness, now, .. } = *self;
        if freshness.is_current(purpose, now) {
            let doubted = entry.filter(|entry| entry.must_be_read(now))?;
            return match self.recent_read(&doubted.machine.name) {
                None => Some(Answer::NeedsGet(doubted.machine.name.clone())),
                Some(Read::Failed(why)) => Some(Answer::Unknown(why.clone())),
                Some(Read::Seen | Read::NotFound) => None,
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
        let machine = entry.map_or(self.machine, |entry| &entry.machine.name);
        match self.recent_read(machine) {
            // Under the node's name there is another machine, or none. Whether this one is elsewhere, a list tells.
            Some(Read::Seen | Read::NotFound) => Some(Answer::NeedsProof),
            Some(Read::Failed(why)) => Some(Answer::Unknown(why.clone())),
            None => Some(Answer::NeedsGet(machine.to_owned())),
        }
    }

    /// The result of a read of this machine that ended a short while ago.
    fn recent_read(&self, machine: &str) -> Option<&Read> {
        let reading = self.read.filter(|it| it.machine == machine)?;
        let age = self.now.saturating_duration_since(reading.ended_at);
        (age <= WINDOW).then_some(&reading.read)
    }

    /// True if the entry is what a read showed whose answer is young, however long it was on its way.
    fn was_just_read(&self, entry: &Entry) -> bool {
        self.recent_read(&entry.machine.name) == Some(&Read::Seen)
            && self.read.is_some_and(|reading| entry.seen_at >= reading.began_at)
    }
}

fn unreadable(machine: &MachineObject, what: &str) -> Unknown {
    Unknown::Incomplete(format!("{what} of VirtualMachine {} cannot be read", machine.name))
}

/// What a node with this machine is told, the texts as v1 has them.
pub(super) fn describe(
    node: &NodeIdentity,
    machine: &MachineObject,
    how: Match,
    policy: AddressPolicy,
) -> Result<Metadata, Unknown> {
    let id = match (&node.provider_id, how) {
        // It has an identity, and this is not it: it keeps its own.
        (Some(own), Match::ByNameOnly) => own.clone(),
        _ if machine.bios_uuid.is_empty() => {
            let what = format!("VirtualMachine {} has no BIOS UUID yet", machine.name);
            return Err(Unknown::Incomplete(what));
        }
        _ => provider_id(&machine.bios_uuid),
    };
    let is_odd = |field| machine.odd.contains(&field);
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
            Ok(zone.map(|zone| Zone { zone, region: String::new() }))
        },
    })
}

#[cfg(test)]
mod tests;
