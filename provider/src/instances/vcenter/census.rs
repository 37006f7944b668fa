//! Checks whether an empty search can be believed, by one read of the whole inventory of every vCenter.
//!
//! Only for nodes without a reference. The search index loses machines whose storage is lost; the inventory still lists
//! them, without a UUID. While such a machine exists, it may be the one that was searched for.

use std::{collections::BTreeSet, time::Duration};

use provider_vcenter::{CallError, FilterSpec, Vcenter};
use tokio::time::Instant;

use super::{Shared, state::VcenterIndex};
use crate::model::{MachineId, parse_uuid, swap_byte_order};

/// Validity of a census in which some machine has no UUID.
const DOUBTFUL_FOR: Duration = Duration::from_secs(25);
/// Reason for doubt if the login sees no inventory.
pub(super) const INVISIBLE: &str = "the inventory is not visible to this login";

/// Machines of one vCenter according to one read of its inventory.
#[derive(Clone, Debug)]
pub(super) struct Census {
    /// When the read began.
    since: Instant,
    machines: BTreeSet<MachineId>,
    /// Number of machines without a UUID, as happens when their storage is lost.
    n_unknown: usize,
}

impl Census {
    /// True if the census answers a question about the time after `since`. A census that left doubt expires after
    /// [`DOUBTFUL_FOR`], because the next look needs a newer one.
    pub(super) fn serves(&self, since: Instant) -> bool {
        self.since >= since && (self.n_unknown == 0 || self.since.elapsed() < DOUBTFUL_FOR)
    }

    /// Returns why a machine that no search of this vCenter finds may still exist.
    pub(super) fn doubt(&self, uuid: MachineId, vcenter: &str) -> Option<String> {
        if self.machines.contains(&uuid) || self.machines.contains(&swap_byte_order(uuid)) {
            return Some(format!("the inventory of {vcenter} has it although no search finds it"));
        }
        if self.machines.is_empty() {
            return Some(format!("this login sees no machine at all in {vcenter}"));
        }
        (self.n_unknown > 0).then(|| {
            format!(
                "{} machines in {vcenter} cannot say which ones they are; it may be one of them",
                self.n_unknown
            )
        })
    }
}

/// Returns why a machine that no search finds may still exist; `None` if nothing suggests that.
///
/// Reuses a census that began after `since`, so that one census serves many nodes.
pub(super) async fn doubt(
    shared: &Shared,
    uuid: MachineId,
    since: Instant,
) -> Result<Option<String>, CallError> {
    for index in 0..shared.vcenters.len() {
        let client = &shared.vcenters[index].client;
        if !sees_inventory(client).await? || has_lost_all(shared, index) {
            return Ok(Some(INVISIBLE.to_owned()));
        }
        let known = shared.lock().vcenters[index].census.clone().filter(|it| it.serves(since));
        let census = match known {
            Some(census) => census,
            None => {
                let census = take(client).await?;
                shared.lock().vcenters[index].census = Some(census.clone());
                census
            }
        };
        if let Some(why) = census.doubt(uuid, client.name()) {
            return Ok(Some(why));
        }
    }
    Ok(None)
}

/// True if the login sees an inventory: its root, and something below it.
pub(super) async fn sees_inventory(client: &Vcenter) -> Result<bool, CallError> {
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
    !vcenter.desired.is_empty() && !vcenter.machines.values().any(|m| m.present)
}

/// Reads the UUIDs of all machines of a vCenter.
pub(super) async fn take(client: &Vcenter) -> Result<Census, CallError> {
    let mut census = Census { since: Instant::now(), machines: BTreeSet::new(), n_unknown: 0 };
    let mut read = client.read_inventory(&["config.uuid"], None, false).await?;
    let outcome = loop {
        match client.next_page(&mut read).await {
            Ok(Some(page)) => {
                for object in page {
                    match object.text("config.uuid").and_then(parse_uuid) {
                        Some(uuid) => {
                            census.machines.insert(uuid);
                        }
                        None => census.n_unknown += 1,
                    }
                }
            }
            Ok(None) => break Ok(()),
            Err(err) => break Err(err),
        }
    };
    client.end_inventory(read).await;
    outcome?;
    tracing::info!(
        n_machines = census.machines.len(),
        n_unknown = census.n_unknown,
        "read the UUIDs of all machines"
    );
    Ok(census)
}
