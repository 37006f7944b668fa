//! Checks whether an empty search can be believed, by one read of the whole inventory of every
//! vCenter (a census).
//!
//! Only nodes without a reference, or whose reference names another machine now, need a census. The
//! search index loses machines whose storage is lost, but the inventory still lists them, without a
//! UUID. While such a machine exists, it may be the one that was searched for.
//!
//! A separate task makes the reads, because a large inventory takes longer to read than one proof
//! may last. A read that ended with its proof would never be complete, and would leave its view
//! behind in vCenter.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use provider_vcenter::{CallError, Chain, FilterSpec, InventoryExtent, Vcenter, VcenterName};
use tokio::{sync::Notify, time::Instant};

use crate::{
    instances::vcenter::{Shared, index::PerVcenter, state::VcenterIndex},
    model::{MachineId, parse_uuid, swap_byte_order},
};

/// Time after its end for which a complete census, in which every machine has a UUID, is valid.
const VALID_FOR: Duration = Duration::from_secs(300);
/// Time after its end for which a census that failed, or in which some machine has no UUID, is
/// valid. It is shorter than the pause after a proof without a result (30 s), so that the next
/// proof for the same node takes a newer census.
const DOUBTFUL_FOR: Duration = Duration::from_secs(25);
/// Reason for doubt if the login sees no inventory, or none of the machines that nodes have in it.
pub(in crate::instances::vcenter) const INVISIBLE: &str =
    "the inventory is not visible to this login; let the login read it";

/// The last census of each vCenter.
pub(in crate::instances::vcenter) struct Censuses(PerVcenter<Slot>);

/// The last census of one vCenter, and the signals between its task and the proofs that wait for
/// it.
#[derive(Default)]
struct Slot {
    last: Mutex<Option<Census>>,
    wanted: Notify,
    ended: Notify,
}

/// Machines of one vCenter according to one read of its inventory.
#[derive(Clone, Debug)]
pub(in crate::instances::vcenter) struct Census {
    began: Instant,
    ended: Instant,
    machines: BTreeSet<MachineId>,
    /// Number of machines without a UUID, as happens when their storage is lost.
    n_unknown: usize,
    /// Error that ended the read before it was complete; `None` if the read was complete.
    failure: Option<String>,
}

impl Censuses {
    pub(in crate::instances::vcenter) fn new(n_vcenters: usize) -> Self {
        Self((0..n_vcenters).map(|_| Slot::default()).collect())
    }

    /// Reads the inventory of one vCenter whenever a proof waits for a census of it. Never ends.
    pub(in crate::instances::vcenter) async fn run(&self, index: VcenterIndex, client: &Vcenter) {
        let slot = &self.0[index];
        loop {
            slot.wanted.notified().await;
            let census = take_census(client).await;
            *slot.last() = Some(census);
            slot.ended.notify_waiters();
        }
    }

    /// Returns a census of one vCenter that began at `since` or later. One census serves many
    /// nodes. If no valid one exists, waits until the task of [`Self::run`] has taken one.
    ///
    /// Cancel safe: the task continues, and the next proof finds its census.
    pub(in crate::instances::vcenter) async fn after(
        &self,
        index: VcenterIndex,
        since: Instant,
    ) -> Census {
        let slot = &self.0[index];
        loop {
            let ended = slot.ended.notified();
            if let Some(census) = slot.last().as_ref().filter(|it| it.serves(since)) {
                return census.clone();
            }
            slot.wanted.notify_one();
            ended.await;
        }
    }
}

impl Slot {
    fn last(&self) -> MutexGuard<'_, Option<Census>> {
        self.last.lock().expect("nothing panics under this lock")
    }
}

impl Census {
    /// True if the census began at `since` or later and is still valid.
    fn serves(&self, since: Instant) -> bool {
        let is_certain = self.n_unknown == 0 && self.failure.is_none();
        let valid_for = if is_certain { VALID_FOR } else { DOUBTFUL_FOR };
        self.began >= since && self.ended.elapsed() < valid_for
    }

    /// Returns why this machine may still exist in `vcenter` although no search finds it; `None` if
    /// the census rules that out.
    pub(in crate::instances::vcenter) fn reason_to_doubt(
        &self,
        uuid: MachineId,
        vcenter: &VcenterName,
    ) -> Option<String> {
        if let Some(failure) = &self.failure {
            return Some(format!("reading the inventory of {vcenter} failed: {failure}"));
        }
        if self.machines.contains(&uuid) || self.machines.contains(&swap_byte_order(uuid)) {
            return Some(format!(
                "the inventory of {vcenter} lists the node's machine although no search finds it"
            ));
        }
        if self.machines.is_empty() {
            return Some(format!(
                "this login sees no machine at all in {vcenter}; let the login read the inventory"
            ));
        }
        (self.n_unknown > 0).then(|| {
            format!(
                "{} machines in {vcenter} have no UUID at present; the node's machine may be one of them",
                self.n_unknown
            )
        })
    }
}

/// Returns why a machine that no search finds may still exist in some vCenter; `None` if the
/// censuses rule that out. Each census begins at `since` or later.
pub(in crate::instances::vcenter) async fn reason_to_doubt(
    shared: &Shared,
    uuid: MachineId,
    since: Instant,
) -> Result<Option<String>, CallError> {
    for index in shared.vcenters.indexes() {
        let client = &shared.vcenters[index].client;
        if !sees_inventory(client).await? || has_lost_all(shared, index) {
            return Ok(Some(INVISIBLE.to_owned()));
        }
        if let Some(why) =
            shared.censuses.after(index, since).await.reason_to_doubt(uuid, client.name())
        {
            return Ok(Some(why));
        }
    }
    Ok(None)
}

/// True if the login sees the root folder of the inventory and at least one object in it.
pub(in crate::instances::vcenter) async fn sees_inventory(
    client: &Vcenter,
) -> Result<bool, CallError> {
    let session = client.session().await?;
    let root = session.content.root_folder.clone();
    let spec = FilterSpec::of_objects("Folder", &["childEntity"], vec![root]);
    let objects = client.retrieve(&spec).await?;
    let children = objects.first().and_then(|o| o.properties.get("childEntity"));
    Ok(children.is_some_and(|children| !children.children.is_empty()))
}

/// True if nodes have machines in this vCenter and none of them is visible now.
fn has_lost_all(shared: &Shared, index: VcenterIndex) -> bool {
    let vcenter = &shared.lock().vcenters[index];
    !vcenter.linked.is_empty() && !vcenter.machines.values().any(|m| m.present)
}

/// Reads the UUIDs of all machines of a vCenter.
async fn take_census(client: &Vcenter) -> Census {
    let began = Instant::now();
    let mut census =
        Census { began, ended: began, machines: BTreeSet::new(), n_unknown: 0, failure: None };
    let read = read_all(client, &mut census).await;
    census.ended = Instant::now();
    match read {
        Ok(()) => tracing::info!(
            n_machines = census.machines.len(),
            n_unknown = census.n_unknown,
            "read the UUIDs of all machines, to prove that machines are gone"
        ),
        Err(err) => {
            tracing::warn!(error = %Chain(&err), "reading the UUIDs of all machines failed; a later lookup retries");
            census.failure = Some(Chain(&err).to_string());
        }
    }
    census
}

/// Reads the inventory page by page, and adds its machines to the census.
async fn read_all(client: &Vcenter, census: &mut Census) -> Result<(), CallError> {
    let mut read = client.read_inventory(&["config.uuid"], None, InventoryExtent::Machines).await?;
    let outcome = loop {
        match client.next_page(&mut read).await {
            Ok(Some(page)) => {
                for object in page {
                    match object.text("config.uuid").and_then(parse_uuid) {
                        Some(uuid) => drop(census.machines.insert(uuid)),
                        None => census.n_unknown += 1,
                    }
                }
            }
            Ok(None) => break Ok(()),
            Err(err) => break Err(err),
        }
    };
    client.end_inventory(read).await;
    outcome
}
