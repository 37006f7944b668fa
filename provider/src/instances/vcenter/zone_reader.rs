//! Reads ancestors and tags for the nodes that need a zone: for all of them together, and at
//! limited intervals.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use provider_vcenter::{
    CallError, CategoryId, Chain, FilterSpec, MoRef, Retry, Tag, TagId, Vcenter,
};
use tokio::time::Instant;

use super::{Shared, Tuning, state::VcenterIndex};
use crate::{
    instances::{Ancestors, Placement, TagNames, ZoneCategories, zones},
    model::{NodeName, Unknown, Zone},
};

/// Minimum time from the end of a read that yields no zone until a question starts the next one.
/// Also the age from which on a read replaces all cached tags.
const MISSING_RETRY: Duration = Duration::from_secs(5);
/// Time after a failed read in which questions get its error instead of a new read.
const FAILURE_PAUSE: Duration = Duration::from_secs(2);

/// Ancestors and tags of one vCenter, with the times of the read.
#[derive(Debug, Default)]
pub(super) struct ZoneCache {
    ancestors: Ancestors,
    /// Requested ancestors that vCenter did not return, because the login may not see them.
    hidden: BTreeSet<MoRef>,
    /// Attached tags by object; an empty list for an object that was read and has none.
    tags: BTreeMap<MoRef, Vec<TagId>>,
    names: BTreeMap<TagId, Tag>,
    categories: BTreeMap<CategoryId, String>,
    /// Start and end of the last read that replaced all tags; `None` before the first one.
    read_at: Option<(Instant, Instant)>,
    /// Error of the last read, if it failed, and the time of the failure.
    failure: Option<(String, Instant)>,
}

impl ZoneCache {
    /// Returns the zone of a placement or the reason why it is unknown; `None` if a read is needed
    /// first.
    pub(super) fn answer(
        &self,
        placement: &Placement,
        categories: &ZoneCategories,
        now: Instant,
        tuning: &Tuning,
    ) -> Option<Result<Zone, Unknown>> {
        if let Some((text, since)) = &self.failure
            && now.duration_since(*since) < FAILURE_PAUSE
        {
            return Some(Err(Unknown::Unavailable(text.clone())));
        }
        let (began_at, ended_at) = self.read_at?;
        let age = now.duration_since(began_at);
        if age >= tuning.zone_ttl || !self.covers(placement) {
            return None;
        }
        match zones::resolve(placement, &self.ancestors, &self.tag_names(placement), categories) {
            Ok(zone) => Some(Ok(zone)),
            // Measured from the end of the read. Measured from its start, a read that takes longer
            // than this pause would be repeated at once.
            Err(_) if now.duration_since(ended_at) >= MISSING_RETRY => None,
            Err(err) => Some(Err(err.into())),
        }
    }

    /// True if the cache has the tags of the machine and of all its ancestors that the login sees.
    fn covers(&self, placement: &Placement) -> bool {
        let paths_known = placement.starts().all(|start| {
            let path = zones::path_up(start, &self.ancestors);
            path.objects.iter().all(|object| self.tags.contains_key(object))
                && path.cut.is_none_or(|object| self.hidden.contains(&object))
        });
        paths_known && self.tags.contains_key(&placement.machine)
    }

    /// Returns the names of the tags of the machine and of its ancestors.
    fn tag_names(&self, placement: &Placement) -> TagNames {
        let mut objects = BTreeSet::from([placement.machine.clone()]);
        for start in placement.starts() {
            objects.extend(zones::path_up(start, &self.ancestors).objects);
        }
        let mut result = TagNames::new();
        for object in objects {
            for tag in self.tags.get(&object).into_iter().flatten() {
                let Some(tag) = self.names.get(tag) else { continue };
                let Some(category) = self.categories.get(&tag.category) else { continue };
                let by_category = result.entry(object.clone()).or_default();
                by_category.entry(category.clone()).or_default().push(tag.name.clone());
            }
        }
        result
    }
}

/// Reads ancestors and tags in one vCenter whenever nodes need a zone. Never ends.
pub(super) async fn run(shared: &Shared, index: VcenterIndex) {
    loop {
        shared.vcenters[index].zones.notified().await;
        tokio::time::sleep(shared.tuning.join_window).await;
        let (wanted, placements) = take_wanted(shared, index);
        if wanted.is_empty() {
            continue;
        }
        let result = read(shared, index, &placements).await;
        {
            let cache = &mut shared.lock().vcenters[index].zones;
            cache.failure = match &result {
                Ok(()) => None,
                Err(err) => Some((Chain(err).to_string(), Instant::now())),
            };
        }
        shared.announce(wanted);
        if let Err(err) = result {
            tracing::warn!(error = %Chain(&err), "reading zone tags failed; the next lookup of a zone retries");
            if let Retry::After(wait) | Retry::AtLeast(wait) = err.retry() {
                tokio::time::sleep(wait.min(Duration::from_secs(60))).await;
            }
        }
    }
}

/// Takes the nodes that need a zone, and returns them with the placements of their machines.
fn take_wanted(shared: &Shared, index: VcenterIndex) -> (BTreeSet<NodeName>, Vec<Placement>) {
    let mut state = shared.lock();
    let wanted = std::mem::take(&mut state.vcenters[index].zone_wanted);
    let placements = wanted
        .iter()
        .filter_map(|name| {
            let (link, machine) = Shared::link_and_machine(&state, name)?;
            Some(machine.placement(&link.machine))
        })
        .collect();
    (wanted, placements)
}

/// The part of the cache that a read builds on, as it was when the read began.
struct Snapshot {
    /// Objects whose ancestors must be read.
    starts: BTreeSet<MoRef>,
    /// Known tags; none if the last read that replaced all tags began [`Tuning::zone_ttl`] ago or
    /// earlier.
    names: BTreeMap<TagId, Tag>,
    /// Known categories; none in the same case.
    categories: BTreeMap<CategoryId, String>,
    /// True if the read replaces all cached tags.
    is_stale: bool,
}

impl ZoneCache {
    fn snapshot(&self, placements: &[Placement], now: Instant, ttl: Duration) -> Snapshot {
        let age = self.read_at.map(|(began_at, _)| now.duration_since(began_at));
        let is_stale = age.is_none_or(|age| age >= MISSING_RETRY);
        let too_old = age.is_none_or(|age| age >= ttl);
        let unknown =
            |start: &&MoRef| too_old || zones::path_up(start, &self.ancestors).cut.is_some();
        let starts: BTreeSet<MoRef> =
            placements.iter().flat_map(Placement::starts).filter(unknown).cloned().collect();
        let names = if too_old { BTreeMap::new() } else { self.names.clone() };
        let categories = if too_old { BTreeMap::new() } else { self.categories.clone() };
        Snapshot { starts, names, categories, is_stale }
    }

    /// Returns the objects whose tags must be read, and the ancestors that the login does not see.
    /// `ancestors` are those that were just read. If `is_stale` is true, the tags of all objects
    /// must be read, else only those that the cache lacks.
    fn objects_to_read(
        &self,
        placements: &[Placement],
        ancestors: &Ancestors,
        is_stale: bool,
    ) -> (Vec<MoRef>, BTreeSet<MoRef>) {
        let mut merged = self.ancestors.clone();
        merged.extend(ancestors.clone());
        let mut hidden = BTreeSet::new();
        let mut objects: BTreeSet<MoRef> = placements.iter().map(|p| p.machine.clone()).collect();
        for start in placements.iter().flat_map(Placement::starts) {
            let path = zones::path_up(start, &merged);
            objects.extend(path.objects);
            hidden.extend(path.cut);
        }
        let objects =
            objects.into_iter().filter(|o| is_stale || !self.tags.contains_key(o)).collect();
        (objects, hidden)
    }
}

/// Reads the ancestors and tags that the cache lacks for these placements, and stores them. Once
/// the cached tags are [`MISSING_RETRY`] old, replaces all of them; once they are
/// [`Tuning::zone_ttl`] old, also reads the ancestors and the names of tags anew.
async fn read(
    shared: &Shared,
    index: VcenterIndex,
    placements: &[Placement],
) -> Result<(), CallError> {
    let client = &shared.vcenters[index].client;
    let now = Instant::now();
    let snapshot =
        shared.lock().vcenters[index].zones.snapshot(placements, now, shared.tuning.zone_ttl);
    let Snapshot { starts, mut names, mut categories, is_stale } = snapshot;
    let ancestors = read_ancestors(client, starts).await?;
    // One call reads the tags of all objects concerned. Once the cached tags are older than
    // [`MISSING_RETRY`], the call also reads the known tags of these objects again, so that the
    // answer is from one moment.
    let (objects, hidden) = {
        let cache = &shared.lock().vcenters[index].zones;
        cache.objects_to_read(placements, &ancestors, is_stale)
    };
    let mut tags = client.tags_on_objects(&objects).await?;
    for object in objects {
        tags.entry(object).or_default();
    }
    let ids: BTreeSet<TagId> = tags.values().flatten().cloned().collect();
    read_names(client, ids, &mut names, &mut categories).await?;
    let cache = &mut shared.lock().vcenters[index].zones;
    if is_stale {
        cache.tags.clear();
        cache.hidden.clear();
        cache.read_at = Some((now, Instant::now()));
    }
    cache.hidden.extend(hidden);
    cache.ancestors.extend(ancestors);
    cache.tags.extend(tags);
    cache.names = names;
    cache.categories = categories;
    Ok(())
}

/// Reads the parents of these objects and of all their ancestors.
async fn read_ancestors(client: &Vcenter, starts: BTreeSet<MoRef>) -> Result<Ancestors, CallError> {
    let mut ancestors = Ancestors::new();
    if !starts.is_empty() {
        let spec = FilterSpec::ancestors(starts.into_iter().collect());
        for object in client.retrieve(&spec).await? {
            let parent = object.reference("parent").or_else(|| object.reference("parentVApp"));
            ancestors.insert(object.object, parent);
        }
    }
    Ok(ancestors)
}

/// Adds the tags with these ids to `names`, and their categories to `categories`. Reads only those
/// that the maps lack. Leaves out tags that no longer exist.
async fn read_names(
    client: &Vcenter,
    ids: BTreeSet<TagId>,
    names: &mut BTreeMap<TagId, Tag>,
    categories: &mut BTreeMap<CategoryId, String>,
) -> Result<(), CallError> {
    for id in ids {
        let tag = match names.get(&id) {
            Some(tag) => tag.clone(),
            None => match client.tag(&id).await {
                Ok(tag) => tag,
                // The tag was deleted since the list was read.
                Err(err) if err.retry() == Retry::Never => continue,
                Err(err) => return Err(err),
            },
        };
        if !categories.contains_key(&tag.category) {
            let name = client.category(&tag.category).await?.name;
            categories.insert(tag.category.clone(), name);
        }
        names.insert(id, tag);
    }
    Ok(())
}
