//! One complete list of the namespace, the evidence for absence.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tokio::time::Instant;

use super::machine::{Field, MachineObject, byte_orders, uuid_key};

/// Content of one consistent list.
#[derive(Clone, Debug)]
pub(super) struct Listing {
    /// Time of the request for its first page.
    pub began_at: Instant,
    /// Resource version of the collection that all its pages show.
    pub version: String,
    machines: BTreeMap<String, Arc<MachineObject>>,
    uuids: BTreeSet<String>,
    n_unreadable: usize,
}

impl Listing {
    /// Indexes the machines of a list; `n_unreadable` counts objects without a name.
    pub(super) fn new(
        began_at: Instant,
        version: String,
        machines: Vec<MachineObject>,
        n_unreadable: usize,
    ) -> Self {
        let mut uuids = BTreeSet::new();
        let mut n_unreadable = n_unreadable;
        for machine in &machines {
            let keys = [uuid_key(&machine.bios_uuid), uuid_key(&machine.wanted_uuid)];
            uuids.extend(keys.into_iter().filter(|key| !key.is_empty()));
            n_unreadable += usize::from(machine.odd.contains(&Field::Uuid));
        }
        let machines = machines.into_iter().map(|it| (it.name.clone(), Arc::new(it))).collect();
        Self { began_at, version, machines, uuids, n_unreadable }
    }

    pub(super) fn machines(&self) -> impl Iterator<Item = &Arc<MachineObject>> {
        self.machines.values()
    }

    pub(super) fn by_name(&self, name: &str) -> Option<&Arc<MachineObject>> {
        self.machines.get(name)
    }

    /// True if some machine has this UUID in either byte order, or is specified to get it.
    pub(super) fn has_uuid(&self, key: &str) -> bool {
        byte_orders(key).any(|key| self.uuids.contains(&key))
    }

    /// Number of objects without a readable identity: any of them may be the one looked for.
    pub(super) fn n_unreadable(&self) -> usize {
        self.n_unreadable
    }
}
