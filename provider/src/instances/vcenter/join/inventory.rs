//! Finds the machines of many nodes in one paged read of the whole inventory, or of the configured
//! datacenters.

use std::collections::{BTreeMap, BTreeSet};

use provider_vcenter::{CallError, InventoryExtent, MoRef, ObjectContent};

use super::{
    Batch, answer,
    scope::{self, DatacenterFilter},
};
use crate::{
    instances::{
        datacenters::Tree,
        vcenter::{
            Shared,
            state::{JoinRequest, VcenterAnswer, VcenterIndex},
        },
    },
    model::{MachineId, NodeName, parse_uuid},
};

/// Number of calls of a paged read besides its pages: one creates the view, one destroys it.
const OVERHEAD: usize = 2;
/// Objects per page. Only the estimate uses this number; the real page size is a setting of the
/// client.
const PAGE: usize = 1000;

/// Progress of one inventory read: the wanted UUIDs, and the objects of the pages so far.
struct Scan {
    /// UUIDs that the nodes of the batch may have.
    wanted: BTreeSet<MachineId>,
    /// Machines that have a UUID from `wanted`, by UUID.
    found: BTreeMap<MachineId, Vec<MoRef>>,
    /// Folders and datacenters among the returned objects.
    folders: Vec<ObjectContent>,
    n_machines: usize,
    n_pages: usize,
    /// Number of pages after which the read gives up, because one search per node would have cost
    /// less.
    max_pages: usize,
}

/// Returns the estimated number of calls of an inventory read; `None` if the size of the inventory
/// is not known yet.
pub(super) fn estimate(shared: &Shared, index: VcenterIndex) -> Option<usize> {
    let size = shared.lock().vcenters[index].inventory_size?;
    Some(size.div_ceil(PAGE) + OVERHEAD)
}

/// Answers every node of the batch that has a UUID and is still in `left`, with its machine or with
/// the reason why none counts, and removes the node from `left`. Gives up without an answer if the
/// read turns out to cost more than one search per node.
///
/// # Errors
///
/// If a call fails. No node is answered then.
pub(super) async fn search(
    shared: &Shared,
    index: VcenterIndex,
    batch: &Batch,
    left: &mut BTreeSet<&NodeName>,
) -> Result<(), CallError> {
    let by_uuid = |name: &&NodeName| left.contains(name) && batch[*name].name.is_none();
    let names: Vec<&NodeName> = batch.keys().filter(by_uuid).collect();
    let mut scan = Scan {
        wanted: names.iter().flat_map(|name| &batch[*name].candidates).copied().collect(),
        found: BTreeMap::new(),
        folders: Vec::new(),
        n_machines: 0,
        n_pages: 0,
        max_pages: names.len() + OVERHEAD,
    };
    let with_tree = scope::wants_tree(shared, index);
    let extent =
        if with_tree { InventoryExtent::DatacentersAndMachines } else { InventoryExtent::Machines };
    let limited_to = scope::containers(shared, index);
    let containers = match &limited_to {
        Some(datacenters) => datacenters.iter().map(Some).collect(),
        None => vec![None],
    };
    for container in containers {
        if !scan.read(shared, index, container, extent).await? {
            // The inventory is too large for so few nodes. This guess of its size suffices for the
            // next decision.
            let at_least = scan.n_machines.max(PAGE) * 2;
            shared.lock().vcenters[index].inventory_size = Some(at_least);
            return Ok(());
        }
    }
    shared.lock().vcenters[index].inventory_size = Some(scan.n_machines);
    if with_tree {
        scope::learn(shared, index, &Tree::of(&scan.folders));
    }
    let sieve = if limited_to.is_some() {
        scope::blind_sieve(shared, index)
    } else {
        let all: Vec<MoRef> = scan.found.values().flatten().cloned().collect();
        scope::sieve(shared, index, &all).await?
    };
    for name in names {
        left.remove(name);
        let outcome = scan.outcome(shared, &sieve, &batch[name]);
        answer(shared, index, name, &batch[name], outcome);
    }
    Ok(())
}

impl Scan {
    /// Reads the inventory, or the part in `container`, page by page. Returns false if it gave up
    /// before the last page.
    async fn read(
        &mut self,
        shared: &Shared,
        index: VcenterIndex,
        container: Option<&MoRef>,
        extent: InventoryExtent,
    ) -> Result<bool, CallError> {
        let client = &shared.vcenters[index].client;
        let mut read = client.read_inventory(&["config.uuid"], container, extent).await?;
        let outcome = loop {
            match client.next_page(&mut read).await {
                Ok(Some(page)) => {
                    self.take(page);
                    if !read.is_complete() && self.n_pages >= self.max_pages {
                        break Ok(());
                    }
                }
                Ok(None) => break Ok(()),
                Err(err) => break Err(err),
            }
        };
        let is_complete = read.is_complete();
        client.end_inventory(read).await;
        outcome.map(|()| is_complete)
    }

    /// Adds the objects of one page.
    fn take(&mut self, page: Vec<ObjectContent>) {
        self.n_pages += 1;
        for object in page {
            if object.object.kind() != "VirtualMachine" {
                self.folders.push(object);
                continue;
            }
            self.n_machines += 1;
            let uuid = object.text("config.uuid").and_then(parse_uuid);
            if let Some(uuid) = uuid.filter(|uuid| self.wanted.contains(uuid)) {
                self.found.entry(uuid).or_default().push(object.object);
            }
        }
    }

    /// Returns the outcome for one node: that of the first candidate UUID that a machine inside the
    /// configured datacenters has. Otherwise the outcome says why no machine counts.
    fn outcome(
        &self,
        shared: &Shared,
        sieve: &DatacenterFilter,
        request: &JoinRequest,
    ) -> VcenterAnswer {
        let mut outcome = sieve.absent();
        for uuid in &request.candidates {
            let Some(machines) = self.found.get(uuid) else { continue };
            outcome = sieve.choose(shared, *uuid, machines);
            if machines.iter().any(|machine| sieve.passes(machine)) {
                break;
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, id: &str) -> ObjectContent {
        ObjectContent {
            object: MoRef::new(kind, id),
            properties: BTreeMap::new(),
            missing: Vec::new(),
        }
    }

    #[test]
    fn a_scan_counts_pages_and_machines_and_keeps_folders() {
        let mut scan = Scan {
            wanted: BTreeSet::new(),
            found: BTreeMap::new(),
            folders: Vec::new(),
            n_machines: 0,
            n_pages: 0,
            max_pages: 1,
        };
        scan.take(vec![object("VirtualMachine", "vm-1"), object("Folder", "group-v3")]);
        scan.take(vec![object("VirtualMachine", "vm-2")]);
        assert_eq!((scan.n_pages, scan.n_machines, scan.folders.len()), (2, 2, 1));
    }
}
