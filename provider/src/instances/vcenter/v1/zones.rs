//! Reads the zone of a machine as upstream does: a vAPI login for each path, object by object, tag by tag.
//!
//! If one path lacks a tag, the next one is tried. Unlike upstream, the nearest tag wins for both categories, and a
//! failed read ends the search: a tag from farther up in its place would be final.

use provider_vcenter::{CallError, Chain, FilterSpec, MoRef, Retry, Vcenter};

use super::{Known, Shared};
use crate::{
    instances::{Ancestors, ZoneCategories, ZoneError, path_up},
    model::{Unknown, Zone},
};

/// Reason for the lack of a zone.
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
    /// Zone and region; none when zones are off.
    pub(super) async fn zone(&self, known: &Known) -> Result<Option<Zone>, Unknown> {
        let Some(categories) = &self.policy.zones else { return Ok(None) };
        let zone = zone(&self.vcenters[known.vcenter], &known.machine, categories).await;
        Ok(Some(zone?))
    }
}

async fn zone(
    client: &Vcenter,
    machine: &MoRef,
    categories: &ZoneCategories,
) -> Result<Zone, Failure> {
    let host = reference(client, machine, "summary.runtime.host").await?;
    let host = host.ok_or(ZoneError::NoHost)?;
    // Needed when the host's path lacks a tag; until then its failure does not matter.
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

/// True if the next path may have what this one lacks.
fn is_elsewhere(err: &ZoneError) -> bool {
    matches!(err, ZoneError::Missing(_) | ZoneError::NotVisible(_))
}

/// Reads one property of the machine that is a reference.
async fn reference(
    client: &Vcenter,
    machine: &MoRef,
    path: &str,
) -> Result<Option<MoRef>, CallError> {
    let spec = FilterSpec::of_objects("VirtualMachine", &[path], vec![machine.clone()]);
    let objects = client.retrieve(&spec).await?;
    Ok(objects.first().and_then(|object| object.reference(path)))
}

/// Reads zone and region from the object and everything above it, in a separate login.
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
                return Ok(Zone { zone: zone.clone(), region: region.clone() });
            }
        }
    }
    if let Some(hidden) = path.cut {
        return Err(ZoneError::NotVisible(hidden).into());
    }
    let missing = if region.is_none() { &categories.region } else { &categories.zone };
    Err(ZoneError::Missing(missing.clone()).into())
}
