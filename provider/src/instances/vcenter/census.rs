//! Whether an empty search can be believed: one read of the whole inventory in every vCenter.
//!
//! Only for nodes that carry no reference. The search index forgets machines whose storage is lost; the inventory
//! still lists them, without a UUID. As long as there is one, it may be the machine that is looked for.

use std::{collections::BTreeSet, time::Duration};

use provider_vcenter::{CallError, FilterSpec};
use tokio::time::Instant;

use super::{
    Shared,
    state::{Census, VcenterIndex},
};
use crate::model::{MachineId, parse_uuid, swap_byte_order};

/// A census in which some machine has no UUID is not taken again within this time.
const DOUBTFUL_FOR: Duration = Duration::from_secs(25);

/// Why a machine that no search finds may be there all the same; `None` when nothing speaks for it.
///
/// A census that began after `since` serves; so many nodes that are asked about together cost one.
pub(super) async fn doubt(
    shared: &Shared,
    uuid: MachineId,
    since: Instant,
) -> Result<Option<String>, CallError> {
    for index in 0..shared.vcenters.len() {
        if !sees_machines(shared, index).await? {
            return Ok(Some("the inventory is not visible to this login".to_owned()));
        }
        // One that left doubt is outdated sooner: it is what the next look wants to know.
        let serves =
            |c: &Census| c.since >= since && (c.n_unknown == 0 || c.since.elapsed() < DOUBTFUL_FOR);
        let known = shared.lock().vcenters[index].census.clone().filter(serves);
        let census = match known {
            Some(census) => census,
            None => take(shared, index).await?,
        };
        let name = shared.vcenters[index].client.name();
        if census.machines.contains(&uuid) || census.machines.contains(&swap_byte_order(uuid)) {
            return Ok(Some(format!("the inventory of {name} has it although no search finds it")));
        }
        if census.machines.is_empty() {
            return Ok(Some(format!("this login sees no machine at all in {name}")));
        }
        if census.n_unknown > 0 {
            return Ok(Some(format!(
                "{} machines in {name} cannot say which ones they are; it may be one of them",
                census.n_unknown
            )));
        }
    }
    Ok(None)
}

/// Whether the login sees an inventory at all: its root, something below it, and the machines it saw before.
async fn sees_machines(shared: &Shared, index: VcenterIndex) -> Result<bool, CallError> {
    let client = &shared.vcenters[index].client;
    let session = client.session().await?;
    let root = session.content.root_folder.clone();
    let spec = FilterSpec::of_objects("Folder", &["childEntity"], vec![root]);
    let objects = client.retrieve(&spec).await?;
    let has_children = objects
        .first()
        .and_then(|o| o.properties.get("childEntity"))
        .is_some_and(|children| !children.children.is_empty());
    let state = shared.lock();
    let vcenter = &state.vcenters[index];
    let has_lost_all = !vcenter.desired.is_empty() && !vcenter.machines.values().any(|m| m.present);
    Ok(has_children && !has_lost_all)
}

async fn take(shared: &Shared, index: VcenterIndex) -> Result<Census, CallError> {
    let client = &shared.vcenters[index].client;
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
        "census taken"
    );
    shared.lock().vcenters[index].census = Some(census.clone());
    Ok(census)
}
