//! The machines of the namespace as the backend last saw them, indexed by name and by UUID. Pure.
//!
//! Lists, reads and watch events may arrive out of order: the answer to a read may be newer than
//! the next event of the watch. Resource versions decide which is newer, if they are numbers.

pub(super) mod find;
pub(super) mod freshness;
pub(super) mod listing;
pub(super) mod read;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use self::listing::Listing;
use super::machine::{MachineName, MachineObject, UuidKey};
use crate::{
    cluster::is_earlier,
    model::NodeName,
    mutant::{Active, mutant},
};

/// Minimum time for which the view remembers a change of a machine. No proof uses evidence that is
/// older.
pub(super) const EVIDENCE_AGE: Duration = Duration::from_secs(60);

/// A machine, and the time at which the Supervisor last showed it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub machine: Arc<MachineObject>,
    /// Start of the last request, or time of the last event, that showed the machine.
    pub seen_at: Instant,
    /// True if the view learned of the machine only from a read by name or from a list as evidence,
    /// with a lower resource version than the view already had. Either an earlier list or the watch
    /// omitted the machine, or an old cache gave the answer. Another read will show which.
    pub in_doubt: bool,
}

impl Entry {
    /// True if the machine is in doubt and its last read is older than [`EVIDENCE_AGE`], so that
    /// another read must confirm it.
    pub(super) fn must_be_read(&self, now: Instant) -> bool {
        self.in_doubt && now.saturating_duration_since(self.seen_at) > EVIDENCE_AGE
    }
}

/// Machines that have appeared, or whose UID, zone, UUID or addresses have changed, so that the
/// metadata of their nodes may have changed. Machines that disappear are not included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Names of the machines.
    pub names: BTreeSet<MachineName>,
    /// UUIDs that these machines have, or had before the change.
    pub uuids: BTreeSet<UuidKey>,
}

impl Changes {
    pub(super) fn extend(&mut self, other: Self) {
        self.names.extend(other.names);
        self.uuids.extend(other.uuids);
    }

    fn note(&mut self, machine: &MachineObject) {
        self.names.insert(machine.name.clone());
        self.uuids.extend(machine.uuid_key());
    }
}

/// Machines of the namespace, by name and by UUID.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    machines: BTreeMap<MachineName, Entry>,
    /// Names of the machines with each UUID.
    by_uuid: BTreeMap<UuidKey, BTreeSet<MachineName>>,
    /// Resource version up to which the view has applied all changes.
    version: String,
    /// For each name and UUID: time at which a machine with it last appeared, disappeared or became
    /// another one.
    touched: BTreeMap<Key, Instant>,
    pub active: Active,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Name(MachineName),
    Uuid(UuidKey),
}

fn is_number(version: &str) -> bool {
    version.parse::<u64>().is_ok()
}

impl View {
    /// Replaces the machines with those of a complete list. Machines that a read has shown in a
    /// newer version stay. Returns `None` and changes nothing if the list is older than the view,
    /// which happens when an API server answers from an old cache.
    pub(super) fn replace(&mut self, listing: &Listing, now: Instant) -> Option<Changes> {
        if self.is_ahead_of(listing) {
            return None;
        }
        let mut changes = Changes::default();
        let gone: Vec<MachineName> = self
            .machines
            .iter()
            .filter(|(name, entry)| {
                // The machine may be newer than the list, if a read has shown it.
                let is_newer = is_earlier(&listing.version, &entry.machine.resource_version);
                listing.by_name(name.as_str()).is_none() && !is_newer
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            // The time of the change is that of the list, so that the same list can prove the
            // absence.
            self.remove_entry(&name, listing.began_at);
        }
        for machine in listing.machines() {
            self.put(machine, listing.began_at, &mut changes);
        }
        self.version.clone_from(&listing.version);
        self.touched.retain(|_, at| now.saturating_duration_since(*at) <= EVIDENCE_AGE);
        Some(changes)
    }

    /// True if the view has applied changes after the resource version of this list.
    pub(super) fn is_ahead_of(&self, listing: &Listing) -> bool {
        is_earlier(&listing.version, &self.version)
    }

    /// Drops the machines and the version, because the versions of the server count from an earlier
    /// number, as after a restore of its store.
    pub(super) fn start_over(&mut self) {
        let touched = std::mem::take(&mut self.touched);
        *self = Self { touched, active: self.active, ..Self::default() };
    }

    /// Applies an `ADDED` or `MODIFIED` event of the watch.
    pub(super) fn apply(&mut self, machine: MachineObject, now: Instant) -> Changes {
        let mut changes = Changes::default();
        self.advance(&machine.resource_version);
        self.put(&Arc::new(machine), now, &mut changes);
        changes
    }

    /// Applies an object from a read, or from a list as evidence, that began at `begun_at`, unless
    /// the view has a newer state or cannot tell which state is newer.
    pub(super) fn apply_read(
        &mut self,
        machine: &Arc<MachineObject>,
        begun_at: Instant,
    ) -> Changes {
        let mut changes = Changes::default();
        let known = self.machines.get(&machine.name);
        let is_news = if known.is_some() {
            is_number(&machine.resource_version)
        } else {
            // A machine that the watch has reported as deleted meanwhile must stay deleted.
            let changed_at = self.changed_at(machine.name.as_str(), machine.uuid_key().as_ref());
            changed_at.is_none_or(|changed_at| changed_at < begun_at)
        };
        if !is_news {
            return changes;
        }
        let in_doubt = match known {
            Some(entry) => entry.in_doubt,
            None => is_earlier(&machine.resource_version, &self.version),
        };
        self.put(machine, begun_at, &mut changes);
        if let Some(entry) = self.machines.get_mut(&machine.name) {
            entry.in_doubt = in_doubt;
        }
        changes
    }

    /// Applies a read that began at `begun_at`, even if it shows an older version than the view
    /// has. Exception: the view has seen its own version since `begun_at`. After a restore, the
    /// versions of the store count from an earlier number.
    pub(super) fn apply_read_after_restore(
        &mut self,
        machine: &Arc<MachineObject>,
        begun_at: Instant,
    ) -> Changes {
        let known = self.machines.get(&machine.name);
        let is_back = known.is_some_and(|entry| {
            let version = &entry.machine.resource_version;
            entry.seen_at < begun_at && is_earlier(&machine.resource_version, version)
        });
        if !is_back {
            return self.apply_read(machine, begun_at);
        }
        let mut changes = Changes::default();
        self.remove_entry(&machine.name, begun_at);
        self.put(machine, begun_at, &mut changes);
        changes
    }

    /// Removes a machine in doubt, because a read that began at `begun_at` did not find it, unless
    /// a later read has shown it.
    pub(super) fn not_found(&mut self, name: &MachineName, begun_at: Instant) {
        let known = self.machines.get(name);
        if known.is_some_and(|entry| entry.in_doubt && entry.seen_at <= begun_at) {
            self.remove_entry(name, begun_at);
        }
    }

    /// Removes a machine that the watch reports as deleted, unless the view has another machine
    /// (another UID) of that name.
    pub(super) fn remove(&mut self, machine: &MachineObject, now: Instant) {
        self.advance(&machine.resource_version);
        let known = self.machines.get(&machine.name).map(|entry| &entry.machine.uid);
        if known == Some(&machine.uid) {
            self.remove_entry(&machine.name, now);
        }
    }

    /// Stores the resource version up to which the watch has delivered, unless it is lower than the
    /// stored one.
    pub(super) fn advance(&mut self, version: &str) {
        if !version.is_empty() && !is_earlier(version, &self.version) {
            version.clone_into(&mut self.version);
        }
    }

    /// Adds or updates a machine that the Supervisor showed at `now`, unless the view has a newer
    /// version. Unreadable parts keep their earlier values. Adds the machine to `changes` if it is
    /// new, or if the metadata of its node may have changed.
    fn put(&mut self, machine: &Arc<MachineObject>, now: Instant, changes: &mut Changes) {
        let Some(known) = self.machines.get_mut(&machine.name) else {
            changes.note(machine);
            self.index(machine, now);
            let entry = Entry { machine: Arc::clone(machine), seen_at: now, in_doubt: false };
            self.machines.insert(machine.name.clone(), entry);
            return;
        };
        if is_earlier(&machine.resource_version, &known.machine.resource_version) {
            return;
        }
        known.seen_at = known.seen_at.max(now);
        known.in_doubt = false;
        if known.machine == *machine {
            return;
        }
        let before = Arc::clone(&known.machine);
        let after = if machine.unreadable.is_empty() {
            Arc::clone(machine)
        } else {
            Arc::new(MachineObject::clone(machine).with_unreadable_from(&before))
        };
        known.machine = Arc::clone(&after);
        if !before.gives_same_metadata(&after) {
            changes.note(&before);
            changes.note(&after);
        }
        if before.uuid_key() != after.uuid_key() || before.uid != after.uid {
            self.unindex(&before, now);
            self.index(&after, now);
        }
    }

    /// Removes a machine that disappeared at this time.
    fn remove_entry(&mut self, name: &MachineName, at: Instant) {
        if let Some(entry) = self.machines.remove(name) {
            self.unindex(&entry.machine, at);
        }
    }

    fn index(&mut self, machine: &MachineObject, at: Instant) {
        self.touched.insert(Key::Name(machine.name.clone()), at);
        if let Some(key) = machine.uuid_key() {
            self.touched.insert(Key::Uuid(key.clone()), at);
            self.by_uuid.entry(key).or_default().insert(machine.name.clone());
        }
    }

    fn unindex(&mut self, machine: &MachineObject, at: Instant) {
        self.touched.insert(Key::Name(machine.name.clone()), at);
        if let Some(key) = machine.uuid_key() {
            self.touched.insert(Key::Uuid(key.clone()), at);
            if let Some(names) = self.by_uuid.get_mut(&key) {
                names.remove(&machine.name);
                if names.is_empty() {
                    self.by_uuid.remove(&key);
                }
            }
        }
    }

    pub(super) fn by_name(&self, name: &str) -> Option<&Entry> {
        self.machines.get(name)
    }

    /// Returns the machine with this UUID, else the one with the UUID in the other byte order;
    /// `None` if the view has neither. Of several machines (a restored copy has the UUID of its
    /// original), returns the one with the node's name, else the oldest that is not being deleted,
    /// else the oldest.
    pub(super) fn by_uuid(&self, key: &UuidKey, node_name: &NodeName) -> Option<&Entry> {
        key.byte_orders().find_map(|key| self.by_key(&key, node_name))
    }

    fn by_key(&self, key: &UuidKey, node_name: &NodeName) -> Option<&Entry> {
        let names = self.by_uuid.get(key)?;
        let entries = names.iter().filter_map(|name| self.machines.get(name));
        let exact = mutant!(self.active, UuidCaseMatters);
        let entries = entries
            .filter(|entry| !exact || entry.machine.bios_uuid.as_deref() == Some(key.as_str()));
        entries.min_by_key(|entry| {
            let MachineObject { name, deleting, created, .. } = &*entry.machine;
            (
                name.as_str() != node_name.as_str(),
                *deleting,
                created.is_none(),
                *created,
                name.clone(),
            )
        })
    }

    /// Returns the time at which a machine of this name or UUID last appeared, disappeared or
    /// became another one; `None` if the view remembers no such change. Each list that replaces the
    /// view drops changes that are older than [`EVIDENCE_AGE`].
    pub(super) fn changed_at(&self, name: &str, uuid: Option<&UuidKey>) -> Option<Instant> {
        let name = self.touched.get(&Key::Name(MachineName::from(name)));
        let keys = uuid.into_iter().flat_map(UuidKey::byte_orders);
        let uuid = keys.filter_map(|key| self.touched.get(&Key::Uuid(key))).max();
        name.max(uuid).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.machines.len()
    }

    /// Returns the number of UUIDs that several machines have.
    pub(super) fn n_duplicates(&self) -> usize {
        self.by_uuid.values().filter(|names| names.len() > 1).count()
    }
}

#[cfg(test)]
mod tests;
