//! The journal: which machines the groups want, and which of them are being deleted. Pure.
//!
//! The server writes each change of it before the call to vCenter that the change allows. So a
//! server that starts again knows every machine that an earlier one may have made.

mod config_map;
mod store;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{InputError, model::ProviderId};

pub use config_map::ConfigMapJournal;
pub use store::{AutoscalerJournal, JournalError, JournalStore};

/// Version of the format.
const VERSION: u32 = 1;
const LETTERS: &[u8; 32] = b"bcdfghjklmnpqrstvwxz2456789acdef";
/// Time for which a deleted machine stays in the journal. Within it the autoscaler may repeat the
/// deletion, and a clone that was running may appear.
const REMEMBERED: i64 = 3600;

/// Content of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Journal {
    version: u32,
    /// Identity of this journal, which its UUIDs and names depend on.
    id: Uuid,
    /// Server that wrote last; another value tells an older server that it has been replaced.
    owner: Uuid,
    /// Number of the next machine.
    next: u64,
    /// Instance UUID of the vCenter of the machines; `None` before the first login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) vcenter: Option<String>,
    machines: Vec<Intent>,
}

/// A machine that a group wants, or that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Intent {
    /// Name of the group.
    pub(super) group: String,
    pub(super) name: String,
    /// BIOS UUID, which makes the provider ID.
    pub(super) bios: Uuid,
    /// Instance UUID, by which the server finds the machine.
    pub(super) instance: Uuid,
    pub(super) state: IntentState,
    /// BIOS UUID and instance UUID with which the clone was requested, if vCenter chose others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) requested: Option<(Uuid, Uuid)>,
    /// Time before which the machine must not be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) held_until: Option<Timestamp>,
    /// UUIDs of the disks of the clone by key; without those that have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) disks: BTreeMap<i32, Uuid>,
    /// Managed object ID, by which the server finds a machine whose configuration vCenter cannot read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) object: Option<String>,
    /// Time at which the machine was found to be gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) gone_at: Option<Timestamp>,
    /// True if the server saw that vCenter destroyed the machine.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) destroyed: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(it: &bool) -> bool {
    !*it
}

/// State of a machine in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum IntentState {
    /// The machine is to be made.
    Wanted,
    /// The machine has been powered on.
    Made,
    /// The machine is to be destroyed.
    Deleting,
    /// The machine was destroyed, or was never made.
    Deleted,
}

impl Intent {
    pub(super) fn provider_id(&self) -> ProviderId {
        ProviderId(self.bios)
    }

    /// True if the machine counts for the wanted number of its group.
    pub(super) fn counts(&self) -> bool {
        matches!(self.state, IntentState::Wanted | IntentState::Made)
    }

    /// Returns the mark of the machine in vCenter. A copy of the machine has other UUIDs than its
    /// mark names, and so is not this machine.
    pub(super) fn mark(&self) -> String {
        let (bios, instance) = self.requested.unwrap_or((self.bios, self.instance));
        mark(&self.group, bios, instance)
    }
}

/// Returns the mark of a machine that was requested with these UUIDs.
pub(super) fn mark(group: &str, bios: Uuid, instance: Uuid) -> String {
    format!("{group}/{bios}/{instance}")
}

impl Journal {
    /// Returns an empty journal.
    pub(super) fn new(id: Uuid) -> Self {
        Self { version: VERSION, id, owner: id, next: 0, vcenter: None, machines: Vec::new() }
    }

    /// Parses a journal.
    ///
    /// # Errors
    ///
    /// If the text is no journal of this version, or contradicts itself.
    pub(super) fn parse(text: &str) -> Result<Self, InputError> {
        let refuse = |problem: String| {
            InputError::new(problem).remedy(
                "restore the journal from a backup; to begin with an empty one, remove it and set \
                 adopt: true for the groups whose machines exist",
            )
        };
        let journal: Self = serde_json::from_str(text)
            .map_err(|err| refuse(format!("is not a valid journal: {err}")))?;
        if journal.version != VERSION {
            let version = journal.version;
            return Err(refuse(format!(
                "has the version {version}, and this server reads {VERSION}"
            )));
        }
        let mut seen = BTreeSet::new();
        let mut names = BTreeSet::new();
        for it in &journal.machines {
            let is_new = seen.insert(it.bios) & seen.insert(it.instance);
            let is_named = it.state == IntentState::Deleted || names.insert(&it.name);
            if !is_new || !is_named {
                return Err(refuse(format!("has two machines like {}", it.name)));
            }
        }
        Ok(journal)
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).expect("a journal has only texts and numbers")
    }

    /// Returns the identity of the journal, which outlives its servers.
    pub(super) fn id(&self) -> Uuid {
        self.id
    }

    /// Makes this server the owner.
    pub(super) fn take(&mut self, owner: Uuid) {
        self.owner = owner;
    }

    /// True if no group has ever wanted a machine.
    pub(super) fn is_fresh(&self) -> bool {
        self.next == 0
    }

    /// The machines, oldest first.
    pub(super) fn machines(&self) -> &[Intent] {
        &self.machines
    }

    /// The machine with this instance UUID.
    pub(super) fn find(&self, instance: Uuid) -> Option<&Intent> {
        self.machines.iter().find(|it| it.instance == instance)
    }

    pub(super) fn find_mut(&mut self, instance: Uuid) -> Option<&mut Intent> {
        self.machines.iter_mut().find(|it| it.instance == instance)
    }

    /// Adds a machine to a group, and returns its instance UUID. `is_taken` says whether vCenter has
    /// a machine with a name.
    pub(super) fn want(
        &mut self,
        group: &str,
        held_until: Option<Timestamp>,
        is_taken: impl Fn(&str) -> bool,
    ) -> Uuid {
        loop {
            let number = self.next;
            self.next += 1;
            let uuid = |kind: &str| {
                Uuid::new_v5(&self.id, format!("{kind}/vcenter/{group}/{number}").as_bytes())
            };
            let (bios, instance) = (uuid("bios"), uuid("instance"));
            let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
            let suffix: String = bios.as_bytes()[..5].iter().map(letter).collect();
            let name = format!("{group}-{suffix}");
            if is_taken(&name) || self.machines.iter().any(|it| it.name == name) {
                continue;
            }
            self.machines.push(Intent {
                group: group.to_owned(),
                name,
                bios,
                instance,
                state: IntentState::Wanted,
                requested: None,
                held_until,
                disks: BTreeMap::new(),
                object: None,
                gone_at: None,
                destroyed: false,
            });
            return instance;
        }
    }

    /// Adds a machine that exists in vCenter.
    pub(super) fn adopt(&mut self, group: &str, name: &str, bios: Uuid, instance: Uuid) {
        let is_known = |it: &Intent| {
            let has_name = it.name == name && it.state != IntentState::Deleted;
            it.instance == instance || it.bios == bios || has_name
        };
        if self.machines.iter().any(is_known) {
            return;
        }
        self.machines.push(Intent {
            group: group.to_owned(),
            name: name.to_owned(),
            bios,
            instance,
            state: IntentState::Made,
            requested: None,
            held_until: None,
            disks: BTreeMap::new(),
            object: None,
            gone_at: None,
            destroyed: false,
        });
    }

    /// Marks a machine as deleted. `destroyed` says whether vCenter reported its destruction.
    pub(super) fn bury(&mut self, instance: Uuid, destroyed: bool, now: Timestamp) {
        if let Some(intent) = self.find_mut(instance) {
            intent.state = IntentState::Deleted;
            intent.gone_at = Some(now);
            intent.destroyed = destroyed;
            intent.held_until = None;
        }
    }

    /// Removes a machine that counts, and that vanished without a deletion.
    pub(super) fn remove(&mut self, instance: Uuid) {
        self.machines.retain(|it| it.instance != instance || !it.counts());
    }

    /// Forgets machines that were deleted long ago.
    pub(super) fn forget(&mut self, now: Timestamp) {
        let is_old = |it: &Intent| {
            // Also a time in the future, as after a step of the clock.
            let age = |at: Timestamp| (now.as_second() - at.as_second()).abs();
            it.state == IntentState::Deleted && it.gone_at.is_none_or(|at| age(at) > REMEMBERED)
        };
        self.machines.retain(|it| !is_old(it));
    }
}
