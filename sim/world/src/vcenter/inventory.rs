//! The inventory tree, with an index for every search of clients, so that a search does not scan
//! all objects.
//!
//! Objects change only through [`Inventory::fold`]. It also updates the lists in other objects
//! (children of a folder, machines of a host, of a pool, …), the indexes and the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::entity::{Data, Entity, HostConnection};
use super::journal::{Journal, Touch};
use super::machine::{Config, Connection, Guest, Machine, NextGuestReport, Power};
use super::refs::{Kind, MoRef};
use crate::Time;

/// A change of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// The object was created.
    Created(Box<Entity>),
    /// The object was removed.
    Removed,
    /// The object has this name now.
    Renamed(String),
    /// The object has this parent now.
    Moved(MoRef),
    /// A machine's power changed.
    Power {
        /// New power state.
        power: Power,
        /// Time of the power-on or reset; `None` if the machine is not on.
        booted: Option<Time>,
        /// New value of [`Machine::boot`](super::Machine::boot), the number of power changes.
        boot: u32,
    },
    /// A machine's connection to vCenter changed.
    Connection(Connection),
    /// A machine runs on another host or in another pool.
    Placed {
        /// New or unchanged host of the machine.
        host: MoRef,
        /// New or unchanged pool of the machine; `None` for a template.
        pool: Option<MoRef>,
    },
    /// The report of a guest changed.
    Guest(Box<Guest>),
    /// The data that a guest will report after its next boot changed.
    Plan(Box<NextGuestReport>),
    /// A machine's configuration changed.
    Config(Box<Config>),
    /// A host's connection to vCenter changed.
    HostConnection(HostConnection),
    /// A host entered or left maintenance mode.
    Maintenance(bool),
}

/// The indexes for the searches of clients, and the children of each object by name.
#[derive(Clone, Debug, Default, PartialEq)]
struct Indexes {
    bios: BTreeMap<Uuid, BTreeSet<MoRef>>,
    instance: BTreeMap<Uuid, BTreeSet<MoRef>>,
    hardware: BTreeMap<Uuid, BTreeSet<MoRef>>,
    dns: BTreeMap<String, BTreeSet<MoRef>>,
    address: BTreeMap<IpAddr, BTreeSet<MoRef>>,
    child: BTreeMap<(MoRef, String), MoRef>,
    machine_name: BTreeMap<String, BTreeSet<MoRef>>,
}

/// The objects of one vCenter.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<MoRef, Entity>", into = "BTreeMap<MoRef, Entity>")]
pub struct Inventory {
    objects: BTreeMap<MoRef, Entity>,
    indexes: Indexes,
    journal: Journal,
}

impl PartialEq for Inventory {
    fn eq(&self, other: &Self) -> bool {
        self.objects == other.objects && self.indexes == other.indexes
    }
}

impl From<Inventory> for BTreeMap<MoRef, Entity> {
    fn from(inventory: Inventory) -> Self {
        inventory.objects
    }
}

impl From<BTreeMap<MoRef, Entity>> for Inventory {
    fn from(objects: BTreeMap<MoRef, Entity>) -> Self {
        let mut inventory = Self { objects, ..Self::default() };
        let ids: Vec<MoRef> = inventory.objects.keys().copied().collect();
        for id in ids {
            inventory.index(id, true);
        }
        inventory
    }
}

impl Inventory {
    /// Returns the object with this id; `None` if the inventory does not have it.
    pub fn get(&self, id: MoRef) -> Option<&Entity> {
        self.objects.get(&id)
    }

    /// Returns the machine with this id; `None` if the object does not exist or is not a machine.
    pub fn machine(&self, id: MoRef) -> Option<&Machine> {
        self.get(id)?.machine()
    }

    /// All objects in id order.
    pub fn iter(&self) -> impl Iterator<Item = (MoRef, &Entity)> {
        self.objects.iter().map(|(id, entity)| (*id, entity))
    }

    /// All objects of one kind in id order.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (MoRef, &Entity)> {
        self.objects
            .range(MoRef::new(kind, 0)..=MoRef::new(kind, u32::MAX))
            .map(|(id, entity)| (*id, entity))
    }

    /// All machines in id order.
    pub fn machines(&self) -> impl Iterator<Item = (MoRef, &Entity, &Machine)> {
        self.of_kind(Kind::Machine)
            .filter_map(|(id, entity)| entity.machine().map(|machine| (id, entity, machine)))
    }

    /// Number of objects in the inventory, without tasks.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// True if the inventory has no object.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The log of property changes.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Machines with this BIOS UUID whose configuration is readable, lowest number first.
    pub fn by_bios_uuid(&self, uuid: Uuid) -> impl Iterator<Item = MoRef> + '_ {
        self.indexes.bios.get(&uuid).into_iter().flatten().copied()
    }

    /// Machines with this instance UUID whose configuration is readable.
    pub fn by_instance_uuid(&self, uuid: Uuid) -> impl Iterator<Item = MoRef> + '_ {
        self.indexes.instance.get(&uuid).into_iter().flatten().copied()
    }

    /// Hosts with this hardware UUID.
    pub fn by_hardware_uuid(&self, uuid: Uuid) -> impl Iterator<Item = MoRef> + '_ {
        self.indexes.hardware.get(&uuid).into_iter().flatten().copied()
    }

    /// Machines whose guest reports this host name, and hosts of this name, regardless of case.
    pub fn by_dns_name(&self, name: &str) -> impl Iterator<Item = MoRef> + '_ {
        self.indexes.dns.get(&name.to_lowercase()).into_iter().flatten().copied()
    }

    /// Machines whose guest reports this address.
    pub fn by_address(&self, address: IpAddr) -> impl Iterator<Item = MoRef> + '_ {
        self.indexes.address.get(&address).into_iter().flatten().copied()
    }

    /// Ids of the machines with this inventory name, lowest number first.
    pub fn by_machine_name(&self, name: &str) -> impl Iterator<Item = MoRef> + '_ {
        self.indexes.machine_name.get(name).into_iter().flatten().copied()
    }

    /// Id of the child of `parent` with this name; `None` if `parent` has no such child. The vApps
    /// that a folder shows count as its children.
    pub fn child(&self, parent: MoRef, name: &str) -> Option<MoRef> {
        self.indexes.child.get(&(parent, name.to_owned())).copied()
    }

    /// The object's ancestors: its parent first, the root folder last.
    pub fn ancestors(&self, id: MoRef) -> impl Iterator<Item = MoRef> + '_ {
        std::iter::successors(self.get(id).and_then(|it| it.parent), |up| {
            self.get(*up).and_then(|it| it.parent)
        })
    }

    /// Id of the datacenter that contains the object, or of the object itself if it is a
    /// datacenter; `None` above the datacenters.
    pub fn datacenter_of(&self, id: MoRef) -> Option<MoRef> {
        std::iter::once(id).chain(self.ancestors(id)).find(|up| up.kind == Kind::Datacenter)
    }

    /// Adds a change of a task to the journal. A task is not an inventory object, but clients can
    /// watch it.
    pub(super) fn note(&mut self, id: MoRef, touch: Touch) {
        self.journal.push(id, touch);
    }

    /// True if `id` is `top`, or if `top` contains the object `id` through folders, a host, a pool
    /// or a vApp.
    pub fn is_below(&self, id: MoRef, top: MoRef) -> bool {
        let is_above = |it: MoRef| it == top || self.ancestors(it).any(|up| up == top);
        if is_above(id) {
            return true;
        }
        let machine = self.machine(id);
        let pool = machine.map_or(Some(id), |machine| machine.pool);
        let folder = pool.and_then(|pool| match self.get(pool)?.data {
            Data::Pool { folder, .. } => folder,
            _ => None,
        });
        machine.is_some_and(|machine| is_above(machine.host))
            || pool.is_some_and(is_above)
            || folder.is_some_and(is_above)
    }

    /// Applies a change without checks, because callers have made them.
    pub(super) fn fold(&mut self, id: MoRef, change: &Change) {
        match change {
            Change::Created(entity) => {
                self.objects.insert(id, (**entity).clone());
                self.index(id, true);
                self.relink(id, &BTreeSet::new());
                self.journal.push(id, Touch::Created);
            }
            Change::Removed => {
                let holders = self.holders(id);
                self.index(id, false);
                self.objects.remove(&id);
                self.relink(id, &holders);
                self.journal.push(id, Touch::Removed);
            }
            _ => {
                let holders = self.holders(id);
                let paths = self.edit(id, change);
                self.relink(id, &holders);
                let moved = matches!(change, Change::Placed { .. } | Change::Moved(_));
                if !paths.is_empty() {
                    let touch = if moved { Touch::Moved(paths) } else { Touch::Changed(paths) };
                    self.journal.push(id, touch);
                }
            }
        }
    }

    /// Changes the object and its index entries; returns the paths of the properties that may have
    /// changed.
    fn edit(&mut self, id: MoRef, change: &Change) -> Vec<&'static str> {
        self.index(id, false);
        let mut paths = Vec::new();
        if let Some(entity) = self.objects.get_mut(&id) {
            paths = super::edit::apply(entity, change);
        }
        self.index(id, true);
        paths
    }

    /// Adds the object to every index if `present` is true; otherwise removes it from every index.
    fn index(&mut self, id: MoRef, present: bool) {
        let Some(entity) = self.objects.get(&id) else { return };
        let indexes = &mut self.indexes;
        let folder = match &entity.data {
            Data::Pool { folder, .. } => *folder,
            _ => None,
        };
        for parent in entity.parent.into_iter().chain(folder) {
            let key = (parent, entity.name.clone());
            if present {
                indexes.child.insert(key, id);
            } else {
                indexes.child.remove(&key);
            }
        }
        match &entity.data {
            Data::Machine(machine) => {
                put(&mut indexes.machine_name, entity.name.clone(), id, present);
                if let Some(uuid) = machine.searchable_uuid() {
                    put(&mut indexes.bios, uuid, id, present);
                }
                if machine.connection.has_config() {
                    put(&mut indexes.instance, machine.config.instance_uuid, id, present);
                }
                if let Some(name) = &machine.guest.host_name {
                    put(&mut indexes.dns, name.to_lowercase(), id, present);
                }
                for address in machine.guest.addresses().collect::<BTreeSet<_>>() {
                    put(&mut indexes.address, address, id, present);
                }
            }
            Data::Host { uuid, .. } => {
                put(&mut indexes.hardware, *uuid, id, present);
                put(&mut indexes.dns, entity.name.to_lowercase(), id, present);
            }
            _ => {}
        }
    }

    /// The objects that list this object: its parent, the folder of a vApp, and the host, pool,
    /// datastore and networks of a machine.
    fn holders(&self, id: MoRef) -> BTreeSet<MoRef> {
        let Some(entity) = self.objects.get(&id) else { return BTreeSet::new() };
        let mut holders: BTreeSet<MoRef> = entity.parent.into_iter().collect();
        if let Data::Machine(machine) = &entity.data {
            holders.extend([machine.host, machine.datastore]);
            holders.extend(machine.pool);
            holders.extend(machine.config.cards.iter().map(|card| card.network));
        }
        if let Data::Pool { folder: Some(folder), .. } = &entity.data {
            holders.insert(*folder);
        }
        holders
    }

    /// Updates the lists of the objects that hold this object: removes it from the holders in
    /// `before` that no longer hold it, and adds it to the new holders.
    fn relink(&mut self, id: MoRef, before: &BTreeSet<MoRef>) {
        let after = self.holders(id);
        for holder in before.symmetric_difference(&after) {
            let Some(entity) = self.objects.get_mut(holder) else { continue };
            if let Some((members, path)) = members(&mut entity.data, id.kind) {
                if after.contains(holder) {
                    members.insert(id);
                } else {
                    members.remove(&id);
                }
                self.journal.push(*holder, Touch::Changed(vec![path]));
            }
        }
    }
}

/// The list in which an object with this data keeps objects of `kind`, and the property that shows
/// the list; `None` if it keeps no list of this kind.
fn members(data: &mut Data, kind: Kind) -> Option<(&mut BTreeSet<MoRef>, &'static str)> {
    match (data, kind) {
        (Data::Folder { children }, _) => Some((children, "childEntity")),
        (Data::Compute { hosts, .. }, Kind::Host) => Some((hosts, "host")),
        (Data::Pool { pools, .. }, Kind::Pool | Kind::VirtualApp) => Some((pools, "resourcePool")),
        (
            Data::Pool { machines, .. }
            | Data::Host { machines, .. }
            | Data::Datastore { machines, .. }
            | Data::Network { machines, .. },
            Kind::Machine,
        ) => Some((machines, "vm")),
        _ => None,
    }
}

fn put<K: Ord>(index: &mut BTreeMap<K, BTreeSet<MoRef>>, key: K, id: MoRef, present: bool) {
    if present {
        index.entry(key).or_default().insert(id);
    } else if let Some(ids) = index.get_mut(&key) {
        ids.remove(&id);
        if ids.is_empty() {
            index.remove(&key);
        }
    }
}
