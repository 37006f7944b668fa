//! Reads the zone of a machine as upstream does: with one vAPI login per path, the tags of each
//! object separately, and each tag separately.
//!
//! If one path lacks a tag, the provider tries the next path. Unlike upstream, the nearest tag wins
//! for both categories, and a failed read ends the search. A tag from farther up, in place of the
//! unread one, would give the node labels that the provider never corrects.

use provider_vcenter::{CallError, Chain, FilterSpec, MoRef, Retry, Vcenter};

use super::{Location, Shared};
use crate::{
    instances::{Ancestors, ZoneCategories, ZoneError, path_up},
    model::{Unknown, Zone},
};

/// Reason why a machine has no zone: a failed call or a [`ZoneError`].
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Zone(#[from] ZoneError),
}

impl From<Failure> for Unknown {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Call(err) => Self::Unavailable(Chain(&err).to_string()),
            Failure::Zone(err) => err.into(),
        }
    }
}

impl Shared {
    /// Reads zone and region of the machine at this location; `None` if zones are off.
    pub(super) async fn zone(&self, known: &Location) -> Result<Option<Zone>, Unknown> {
        let Some(categories) = &self.policy.zones else { return Ok(None) };
        let zone = zone(&self.vcenters[known.vcenter], &known.machine, categories).await;
        Ok(Some(zone?))
    }
}

/// Returns zone and region from the first path that has both tags. Tries the paths from the host,
/// the resource pool and the machine, in this order.
async fn zone(
    client: &Vcenter,
    machine: &MoRef,
    categories: &ZoneCategories,
) -> Result<Zone, Failure> {
    let host = reference(client, machine, "summary.runtime.host").await?;
    let host = host.ok_or(ZoneError::NoHost)?;
    // The pool is needed only if the host's path lacks a tag. Otherwise a failure of this read does
    // not matter.
    let pool = reference(client, machine, "resourcePool").await;
    let spec = FilterSpec::of_objects("HostSystem", &["summary"], vec![host.clone()]);
    client.retrieve(&spec).await?;
    let mut failure = match along(client, &host, categories).await {
        Err(Failure::Zone(err)) if is_elsewhere(&err) => err,
        other => return other,
    };
    if let Some(pool) = pool? {
        match along(client, &pool, categories).await {
            Err(Failure::Zone(err)) if is_elsewhere(&err) => failure = err,
            other => return other,
        }
    }
    match along(client, machine, categories).await {
        Err(Failure::Zone(err)) if is_elsewhere(&err) => Err(failure.into()),
        other => other,
    }
}

/// True if the path lacks a tag or an object of it is not visible: then the provider tries the next
/// path.
fn is_elsewhere(err: &ZoneError) -> bool {
    matches!(err, ZoneError::Missing(_) | ZoneError::NotVisible(_))
}

/// Reads a property of the machine whose value is a reference; `None` if the machine or the
/// property is missing.
async fn reference(
    client: &Vcenter,
    machine: &MoRef,
    path: &str,
) -> Result<Option<MoRef>, CallError> {
    let spec = FilterSpec::of_objects("VirtualMachine", &[path], vec![machine.clone()]);
    let objects = client.retrieve(&spec).await?;
    Ok(objects.first().and_then(|object| object.reference(path)))
}

/// Reads zone and region from the tags of the object and its ancestors, in a separate vAPI login.
async fn along(
    client: &Vcenter,
    start: &MoRef,
    categories: &ZoneCategories,
) -> Result<Zone, Failure> {
    client.begin_tagging().await?;
    let zone = walk(client, start, categories).await;
    client.end_tagging().await;
    zone
}

/// Reads the tags object by object, upwards from `start`, until both zone and region are found.
async fn walk(
    client: &Vcenter,
    start: &MoRef,
    categories: &ZoneCategories,
) -> Result<Zone, Failure> {
    let objects = client.retrieve(&FilterSpec::ancestors(vec![start.clone()])).await?;
    let above = |object: &provider_vcenter::ObjectContent| {
        object.reference("parent").or_else(|| object.reference("parentVApp"))
    };
    let ancestors: Ancestors =
        objects.iter().map(|object| (object.object.clone(), above(object))).collect();
    let (mut zone, mut region) = (None, None);
    let path = path_up(start, &ancestors);
    for object in path.objects {
        let mut here: Vec<(String, String)> = Vec::new();
        for id in client.tags_on(&object).await? {
            let tag = match client.tag(&id).await {
                Ok(tag) => tag,
                // The tag was deleted since the list was read.
                Err(err) if err.retry() == Retry::Never => continue,
                Err(err) => return Err(err.into()),
            };
            let category = client.category(&tag.category).await?.name;
            let slot = match &category {
                it if *it == categories.zone => &mut zone,
                it if *it == categories.region => &mut region,
                _ => continue,
            };
            if let Some((_, other)) = here.iter().find(|(its, _)| *its == category) {
                let mut tags = [other.as_str(), tag.name.as_str()];
                tags.sort_unstable();
                let tags = tags.join(", ");
                return Err(ZoneError::Ambiguous { object, category, tags }.into());
            }
            slot.get_or_insert_with(|| tag.name.clone());
            here.push((category, tag.name));
            if let (Some(zone), Some(region)) = (&zone, &region) {
                return Ok(Zone { zone: zone.clone(), region: Some(region.clone()) });
            }
        }
    }
    if let Some(hidden) = path.cut {
        return Err(ZoneError::NotVisible(hidden).into());
    }
    let missing = if region.is_none() { &categories.region } else { &categories.zone };
    Err(ZoneError::Missing(missing.clone()).into())
}
