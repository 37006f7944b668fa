//! Judges whether evidence proves that a machine is gone. Pure: a claim and evidence in, a verdict
//! out.
//!
//! Nodes deleted because a lookup failed are the oldest class of bug reports against this provider.
//! The proof therefore first rules out every known way in which a Supervisor can report "not found"
//! for a machine that exists (`cpi-supervisor` 3.5). The guard against mass disappearance (rule 4
//! there) is in the lifecycle controller, for both backends.

use tokio::time::Instant;

use super::{
    machine::{
        MachineObject, UuidKey,
        identity::{Identity, identity, is_path_or_name},
    },
    view::{
        EVIDENCE_AGE, View,
        find::{find_strict, matches_no_machine},
        listing::Listing,
        read::{ReadByName, ReadResult},
    },
};
use crate::{
    model::{NodeIdentity, Unknown},
    mutant::{Active, mutant},
};

/// Reason for an unknown answer while no node has been matched to a machine.
pub(super) const NEVER_MATCHED: &str = "the provider has matched no node to a VirtualMachine \
                                        since its start; check the Supervisor's address, \
                                        namespace and credentials";

/// The claim that a node's machine is gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim<'a> {
    pub node: &'a NodeIdentity,
    /// Last name under which the view had the node's machine; the node's name if the view never had
    /// the machine.
    pub machine: &'a str,
    /// Earliest time at which the request for evidence may have begun, according to the caller.
    pub after: Instant,
    /// Time at which a machine with the node's name or UUID last appeared, disappeared or became
    /// another one; `None` if the view remembers no such change. Older evidence does not show that
    /// change.
    pub changed_at: Option<Instant>,
    /// True if this node has been matched to a machine.
    pub matched: bool,
    /// True if any node has been matched to a machine since the start.
    pub any_matched: bool,
    pub now: Instant,
    pub active: Active,
}

/// Verdict on a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The machine exists.
    Present,
    /// The machine is gone, according to evidence whose request began at `proved_at`.
    Gone { proved_at: Instant },
    /// The caller must make a list that begins at `after` or later.
    NeedsList { after: Instant },
    /// The caller must read the claim's machine by name, at `after` or later.
    NeedsGet { after: Instant },
    /// The evidence cannot decide.
    Unknown(Unknown),
}

impl Claim<'_> {
    /// Checks the conditions that need no evidence, and returns the identity of the node. Fails for
    /// a provider ID of another provider, for one that has a path or a name in place of the UUID,
    /// and while no node has been matched to a machine since the start.
    fn identity(&self) -> Result<Identity, Unknown> {
        let identity = identity(self.node)?;
        if let Identity::Uuid(key) = &identity
            && is_path_or_name(key, self.node)
        {
            let why = format!("the provider ID names {:?} instead of a UUID", key.as_str());
            return Err(Unknown::NotOurs(why));
        }
        if self.any_matched || mutant!(self.active, NeverMatchedSkipped) {
            return Ok(identity);
        }
        // The provider runs on a node of this cluster. If no node has a machine in this namespace,
        // the provider looks in the wrong place.
        Err(Unknown::Unavailable(NEVER_MATCHED.to_owned()))
    }

    /// Returns the earliest start of evidence that counts: not before `after`, not older than
    /// [`EVIDENCE_AGE`], and not before the last change.
    fn earliest(&self) -> Instant {
        let youngest_of_old = self.now.checked_sub(EVIDENCE_AGE).unwrap_or(self.after);
        self.after.max(youngest_of_old).max(self.changed_at.unwrap_or(self.after))
    }
}

/// Judges a claim by a complete list of machines. Returns `NeedsList` if `evidence` is missing or
/// too old. Returns `Unknown` if the claim has no usable identity, or if an object without a
/// readable name or without a UUID may be the machine.
pub(super) fn by_list(claim: &Claim<'_>, evidence: Option<&Listing>) -> Verdict {
    let identity = match claim.identity() {
        Ok(identity) => identity,
        Err(why) => return Verdict::Unknown(why),
    };
    let after = claim.earliest();
    let Some(listing) = evidence.filter(|listing| listing.began_at >= after) else {
        return Verdict::NeedsList { after };
    };
    let namesake = listing.by_name(claim.node.name.as_str());
    let exact = |key: &UuidKey| {
        listing.machines().any(|machine| machine.bios_uuid.as_deref() == Some(key.as_str()))
    };
    match &identity {
        Identity::Uuid(key) if mutant!(claim.active, UuidCaseMatters) && !exact(key) => {}
        Identity::Name if matches_no_machine(claim.active, claim.node) => {}
        Identity::Uuid(key) if listing.has_uuid(key) => return Verdict::Present,
        Identity::Name if namesake.is_some() => return Verdict::Present,
        _ => {}
    }
    let seen_before = listing.by_name(claim.machine);
    if let Some(machine) = [namesake, seen_before].into_iter().flatten().find(|it| lacks_uuid(it))
        && !mutant!(claim.active, EmptyUuidIsGone)
    {
        return Verdict::Unknown(lacks_uuid_reason(machine));
    }
    if listing.n_unreadable() > 0 {
        let n = listing.n_unreadable();
        let why = format!("{n} VirtualMachines of the list have no readable name or UUID");
        return Verdict::Unknown(Unknown::Incomplete(why));
    }
    Verdict::Gone { proved_at: listing.began_at }
}

/// True if the object has a UUID neither in its status nor in its `spec`, so that it may be any
/// machine.
fn lacks_uuid(machine: &MachineObject) -> bool {
    let is_wanted = machine.wanted_uuid.as_deref().is_some_and(|it| !it.trim().is_empty());
    machine.uuid_key().is_none() && !is_wanted
}

/// Returns the reason for an unknown answer because of an object without a UUID.
fn lacks_uuid_reason(machine: &MachineObject) -> Unknown {
    let why = format!("VirtualMachine {} has no BIOS UUID yet", machine.name);
    Unknown::Incomplete(why)
}

/// Judges a claim by a read of its machine by name, where lists are forbidden. A read proves less
/// than a list, so it counts only for a node that is identified by name, or that was matched to the
/// machine of that name. A read of another name proves nothing. Returns `NeedsGet` if `evidence` is
/// missing, about another name or too old.
pub(super) fn by_read(claim: &Claim<'_>, evidence: Option<&ReadByName>) -> Verdict {
    let identity = match claim.identity() {
        Ok(identity) => identity,
        Err(why) => return Verdict::Unknown(why),
    };
    let after = claim.earliest();
    let is_about_it =
        |it: &&ReadByName| it.machine.as_str() == claim.machine && it.began_at >= after;
    let Some(ReadByName { began_at, read, .. }) = evidence.filter(is_about_it) else {
        return Verdict::NeedsGet { after };
    };
    match (read, identity) {
        (ReadResult::Failed(why), _) => Verdict::Unknown(why.clone()),
        (ReadResult::NotFound, Identity::Name) => Verdict::Gone { proved_at: *began_at },
        (ReadResult::NotFound, Identity::Uuid(_)) if claim.matched => {
            Verdict::Gone { proved_at: *began_at }
        }
        (ReadResult::Seen, Identity::Name) => Verdict::Present,
        (ReadResult::NotFound | ReadResult::Seen, _) => {
            let why = "the Supervisor forbids listing VirtualMachines, and only a list would show \
                       the node's machine; allow the verb list";
            Verdict::Unknown(Unknown::Incomplete(why.to_owned()))
        }
    }
}

/// Returns the reason why a read by name contradicts or cannot confirm a proof of absence; `None`
/// if it confirms the proof. A list can omit objects although it claims to be complete, and it can
/// show an earlier state of an object. The caller has applied the read to `view`.
pub(super) fn objection(node: &NodeIdentity, reading: &ReadByName, view: &View) -> Option<Unknown> {
    match &reading.read {
        ReadResult::NotFound => None,
        ReadResult::Failed(why) => Some(why.clone()),
        ReadResult::Seen => {
            let is_its = match identity(node) {
                Ok(identity) => find_strict(view, &identity, node).is_some(),
                Err(why) => return Some(why),
            };
            match view.by_name(reading.machine.as_str()).map(|entry| &*entry.machine) {
                // Another machine has the name now.
                Some(other) if !is_its && !lacks_uuid(other) => None,
                Some(machine) if !is_its => Some(lacks_uuid_reason(machine)),
                _ => {
                    let why = "a read by name shows the node's VirtualMachine, but the list does \
                               not contain it";
                    Some(Unknown::Incomplete(why.to_owned()))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
