//! One complete list of the machines in the namespace: the evidence that a machine is gone.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tokio::time::Instant;

use crate::instances::supervisor::machine::{Field, MachineName, MachineObject, UuidKey};

/// Machines of one complete list, indexed by name and UUID.
#[derive(Clone, Debug)]
pub(in crate::instances::supervisor) struct Listing {
    /// Time of the request for the first page.
    pub began_at: Instant,
    /// Resource version of the collection, the same on all pages of the list.
    pub version: String,
    machines: BTreeMap<MachineName, Arc<MachineObject>>,
    /// UUIDs that the machines have or are specified to get.
    uuids: BTreeSet<UuidKey>,
    n_unreadable: usize,
}

impl Listing {
    /// Indexes the machines of a list. `n_unreadable` is the number of objects without a name.
    pub(in crate::instances::supervisor) fn new(
        began_at: Instant,
        version: String,
        machines: Vec<MachineObject>,
        n_unreadable: usize,
    ) -> Self {
        let mut uuids = BTreeSet::new();
        let mut n_unreadable = n_unreadable;
        for machine in &machines {
            let known = [&machine.bios_uuid, &machine.wanted_uuid].into_iter().flatten();
            uuids.extend(known.filter_map(|uuid| UuidKey::of(uuid)));
            n_unreadable += usize::from(machine.unreadable.contains(&Field::Uuid));
        }
        let machines = machines.into_iter().map(|it| (it.name.clone(), Arc::new(it))).collect();
        Self { began_at, version, machines, uuids, n_unreadable }
    }

    pub(in crate::instances::supervisor) fn machines(
        &self,
    ) -> impl Iterator<Item = &Arc<MachineObject>> {
        self.machines.values()
    }

    pub(in crate::instances::supervisor) fn by_name(
        &self,
        name: &str,
    ) -> Option<&Arc<MachineObject>> {
        self.machines.get(name)
    }

    /// True if a machine has this UUID in either byte order, or if the `spec` of a machine demands
    /// it.
    pub(in crate::instances::supervisor) fn has_uuid(&self, key: &UuidKey) -> bool {
        key.byte_orders().any(|key| self.uuids.contains(&key))
    }

    /// Returns the number of objects without a readable name or with an unreadable UUID. Each of
    /// them may be the machine that a proof is about. An object that has no UUID at all does not
    /// count.
    pub(in crate::instances::supervisor) fn n_unreadable(&self) -> usize {
        self.n_unreadable
    }
}
