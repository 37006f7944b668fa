//! Resolves the zone and region of a machine from the tags of the machine and of the inventory
//! objects above it. Pure: ancestors and tags in, a zone out.
//!
//! [`resolve`] tries three paths upwards, in the order of
//! `cloud-provider-vsphere: pkg/common/connectionmanager/zones.go`, `LookupZoneByMoref`: from the
//! host, from the resource pool, and from the machine through its folder or vApp. Zone and region
//! must be on the same path. Unlike upstream, the nearest tag wins for both categories. Several
//! tags of one category on the nearest object that has any are an error, where upstream takes the
//! last one that it read.

use std::collections::BTreeMap;

use provider_vcenter::MoRef;

use crate::model::{Unknown, Zone};

/// Names of the two tag categories whose tags are zones and regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneCategories {
    /// Category whose tags are names of zones.
    pub zone: String,
    /// Category whose tags are names of regions.
    pub region: String,
}

/// Location of a machine in the inventory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placement {
    /// The machine itself.
    pub machine: MoRef,
    /// Its host; `None` if vCenter reports none.
    pub host: Option<MoRef>,
    /// Its resource pool; `None` for templates.
    pub pool: Option<MoRef>,
    /// Its folder, or its vApp if vCenter reports no folder.
    pub parent: Option<MoRef>,
}

impl Placement {
    /// Returns the objects next above the machine on the three paths: host, resource pool, and
    /// folder or vApp, as far as they are set.
    pub fn starts(&self) -> impl Iterator<Item = &MoRef> {
        [self.host.as_ref(), self.pool.as_ref(), self.parent.as_ref()].into_iter().flatten()
    }
}

/// Parent of each inventory object that the provider has read; `None` for an object that reports
/// none, as the root folder does.
pub type Ancestors = BTreeMap<MoRef, Option<MoRef>>;

/// Names of the attached tags, by object and category name. The maps are sorted, so that no result
/// depends on the order in which vCenter lists objects and categories.
pub type TagNames = BTreeMap<MoRef, BTreeMap<String, Vec<String>>>;

/// Reason why a machine has no zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// The machine has no host yet.
    #[error("vCenter reports no host for the machine, so the zone is not known yet")]
    NoHost,
    /// The login cannot see this object above the machine, or the provider has not read it.
    #[error(
        "{0} is not visible to the login and may carry a zone or region tag; let the login read it"
    )]
    NotVisible(MoRef),
    /// The nearest object that carries tags of a category carries several of them, so a choice
    /// would be a guess.
    #[error("{object} carries several tags of category {category}: {tags}; detach all but one")]
    Ambiguous {
        /// The object with the tags.
        object: MoRef,
        /// Name of the category.
        category: String,
        /// Names of the tags.
        tags: String,
    },
    /// No path has both a zone tag and a region tag. The field is a category of which one of the
    /// paths has no tag.
    #[error(
        "no path up from host, resource pool or machine has both a zone tag and a region tag; attach \
         the missing tag of category {0} to the machine or to an object above it"
    )]
    Missing(String),
}

impl From<ZoneError> for Unknown {
    fn from(err: ZoneError) -> Self {
        match err {
            ZoneError::NoHost | ZoneError::NotVisible(_) | ZoneError::Missing(_) => {
                Self::Incomplete(err.to_string())
            }
            ZoneError::Ambiguous { .. } => Self::Ambiguous(err.to_string()),
        }
    }
}

/// An object and its ancestors, as far as the provider has read them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathUp {
    /// The object and its ancestors before `cut`, the nearest first.
    pub objects: Vec<MoRef>,
    /// First object of the path that the provider has not read, because the login cannot see it or
    /// no read has requested it yet. `None` if the path reaches the root or runs in a cycle.
    pub cut: Option<MoRef>,
}

/// Returns the path from an object up to the root folder. An object that the provider has not read
/// ends the path, and so does a cycle among the parents.
pub fn path_up(start: &MoRef, ancestors: &Ancestors) -> PathUp {
    let mut path = PathUp::default();
    let mut current = Some(start);
    while let Some(object) = current {
        if path.objects.contains(object) {
            break;
        }
        let Some(parent) = ancestors.get(object) else {
            path.cut = Some(object.clone());
            break;
        };
        path.objects.push(object.clone());
        current = parent.as_ref();
    }
    path
}

/// Returns the zone and region of a machine. Tries three paths upwards: from the host, from the
/// resource pool, and from the machine itself. The first path with a region tag and a zone tag
/// gives both, each from the nearest object that has such a tag.
///
/// # Errors
///
/// - [`ZoneError::NoHost`] if the machine has no host.
/// - [`ZoneError::Ambiguous`] if the nearest object with tags of a category has several of them.
///   The function does not try the remaining paths. It looks for a zone only on a path with a
///   region.
/// - [`ZoneError::NotVisible`] if no path has both tags, and an object that the provider has not
///   read ends one of the paths. That object may have the missing tag.
/// - [`ZoneError::Missing`] if no path has both tags, and the provider has read all objects on
///   them.
pub fn resolve(
    placement: &Placement,
    ancestors: &Ancestors,
    tags: &TagNames,
    categories: &ZoneCategories,
) -> Result<Zone, ZoneError> {
    let host = placement.host.as_ref().ok_or(ZoneError::NoHost)?;
    let mut paths = vec![path_up(host, ancestors)];
    paths.extend(placement.pool.as_ref().map(|pool| path_up(pool, ancestors)));
    let mut own = placement.parent.as_ref().map(|it| path_up(it, ancestors)).unwrap_or_default();
    own.objects.insert(0, placement.machine.clone());
    let mut failures = Vec::new();
    for path in &paths {
        match on_path(path, tags, categories) {
            Err(err @ (ZoneError::Missing(_) | ZoneError::NotVisible(_))) => failures.push(err),
            other => return other,
        }
    }
    match on_path(&own, tags, categories) {
        Err(err @ (ZoneError::Missing(_) | ZoneError::NotVisible(_))) => {
            Err(reason_of_all(failures, err))
        }
        other => other,
    }
}

/// Returns the error to report if no path has both tags: the first one about an invisible object,
/// because a tag may be on that object. Without such an error, returns that of the last path before
/// the machine's own, as upstream does.
fn reason_of_all(failures: Vec<ZoneError>, own: ZoneError) -> ZoneError {
    let hidden = |err: &&ZoneError| matches!(err, ZoneError::NotVisible(_));
    if let Some(hidden) = failures.iter().chain([&own]).find(hidden) {
        return hidden.clone();
    }
    failures.into_iter().last().unwrap_or(own)
}

/// Returns the nearest zone and the nearest region on one path.
fn on_path(path: &PathUp, tags: &TagNames, categories: &ZoneCategories) -> Result<Zone, ZoneError> {
    let nearest = |category: &str| -> Result<String, ZoneError> {
        for object in &path.objects {
            match tags.get(object).and_then(|t| t.get(category)).map(Vec::as_slice) {
                None | Some([]) => {}
                Some([name]) => return Ok(name.clone()),
                Some(several) => {
                    let mut names = several.to_vec();
                    names.sort();
                    return Err(ZoneError::Ambiguous {
                        object: object.clone(),
                        category: category.to_owned(),
                        tags: names.join(", "),
                    });
                }
            }
        }
        Err(match &path.cut {
            Some(object) => ZoneError::NotVisible(object.clone()),
            None => ZoneError::Missing(category.to_owned()),
        })
    };
    let region = nearest(&categories.region)?;
    let zone = nearest(&categories.zone)?;
    Ok(Zone { zone, region: Some(region) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> MoRef {
        MoRef::new("ManagedEntity", text)
    }

    /// Returns a machine with a host, a pool and a folder, and the categories `z` for zones and `r`
    /// for regions.
    fn everywhere() -> (Placement, ZoneCategories) {
        let placement = Placement {
            machine: object("vm"),
            host: Some(object("host")),
            pool: Some(object("pool")),
            parent: Some(object("folder")),
        };
        (placement, ZoneCategories { zone: "z".into(), region: "r".into() })
    }

    fn ancestors() -> Ancestors {
        [
            ("host", Some("cluster")),
            ("cluster", Some("hostfolder")),
            ("hostfolder", Some("dc")),
            ("pool", Some("cluster")),
            ("folder", Some("vmroot")),
            ("vmroot", Some("dc")),
            ("dc", Some("root")),
            ("root", None),
        ]
        .into_iter()
        .map(|(child, parent)| (object(child), parent.map(object)))
        .collect()
    }

    fn tags(list: &[(&str, &str, &str)]) -> TagNames {
        let mut tags = TagNames::new();
        for (on, category, name) in list {
            tags.entry(object(on))
                .or_default()
                .entry((*category).to_owned())
                .or_default()
                .push((*name).to_owned());
        }
        tags
    }

    #[test]
    fn zones_come_from_the_nearest_tags_on_one_path() {
        let (placement, categories) = everywhere();
        for (name, list, want) in [
            ("cluster and datacenter", &[("cluster", "z", "a"), ("dc", "r", "eu")][..], "eu/a"),
            (
                "nearest wins for both",
                &[("host", "z", "near"), ("cluster", "z", "far"), ("dc", "r", "eu")],
                "eu/near",
            ),
            (
                "host before pool",
                &[("host", "z", "h"), ("host", "r", "r"), ("pool", "z", "p"), ("pool", "r", "p")],
                "r/h",
            ),
            (
                "pool when the host path lacks one",
                &[("host", "z", "h"), ("pool", "z", "p"), ("pool", "r", "pr")],
                "pr/p",
            ),
            ("the machine's own tags last", &[("vm", "z", "v"), ("folder", "r", "f")], "f/v"),
            (
                "zone on one path and region on another",
                &[("pool", "z", "p"), ("folder", "r", "f")],
                "no path up from host, resource pool or machine has both a zone tag and a region tag; attach \
                 the missing tag of category r to the machine or to an object above it",
            ),
            (
                "no region",
                &[("cluster", "z", "a")],
                "no path up from host, resource pool or machine has both a zone tag and a region tag; attach \
                 the missing tag of category r to the machine or to an object above it",
            ),
            (
                "no zone",
                &[("cluster", "r", "a")],
                "no path up from host, resource pool or machine has both a zone tag and a region tag; attach \
                 the missing tag of category z to the machine or to an object above it",
            ),
            (
                "two of one category",
                &[("cluster", "z", "b"), ("cluster", "z", "a"), ("dc", "r", "eu")],
                "ManagedEntity:cluster carries several tags of category z: a, b; detach all but \
                 one",
            ),
            (
                "two farther away do not matter",
                &[
                    ("host", "z", "h"),
                    ("cluster", "z", "b"),
                    ("cluster", "z", "a"),
                    ("dc", "r", "eu"),
                ],
                "eu/h",
            ),
        ] {
            let got = match resolve(&placement, &ancestors(), &tags(list), &categories) {
                Ok(zone) => format!("{}/{}", zone.region.unwrap_or_default(), zone.zone),
                Err(err) => err.to_string(),
            };
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn the_zone_is_an_error_without_a_host_or_with_an_invisible_host() {
        let mut placement =
            Placement { machine: object("vm"), host: None, pool: None, parent: None };
        let categories = ZoneCategories { zone: "z".into(), region: "r".into() };
        let resolve = |p: &Placement| resolve(p, &ancestors(), &TagNames::new(), &categories);
        assert_eq!(resolve(&placement), Err(ZoneError::NoHost));
        placement.host = Some(object("elsewhere"));
        assert_eq!(resolve(&placement), Err(ZoneError::NotVisible(object("elsewhere"))));
    }

    #[test]
    fn an_object_that_is_not_visible_hides_only_the_tags_above_it() {
        let (placement, categories) = everywhere();
        let both = |on, zone, region| [(on, "z", zone), (on, "r", region)];
        for (name, hidden, list, want) in [
            ("the pool, and the host's path has both", "pool", both("cluster", "a", "eu"), "eu/a"),
            ("the cluster, and the host has both", "cluster", both("host", "a", "eu"), "eu/a"),
            ("the cluster, and the pool has both", "cluster", both("pool", "a", "eu"), "eu/a"),
            ("the host, and the machine has both", "host", both("vm", "a", "eu"), "eu/a"),
            ("the cluster, and a tag may be on it", "cluster", both("dc2", "a", "eu"), "cluster"),
            ("the folder alone", "folder", both("dc2", "a", "eu"), "folder"),
        ] {
            let mut ancestors = ancestors();
            ancestors.remove(&object(hidden));
            let got = match resolve(&placement, &ancestors, &tags(&list), &categories) {
                Ok(zone) => format!("{}/{}", zone.region.unwrap_or_default(), zone.zone),
                Err(ZoneError::NotVisible(object)) => object.id().to_owned(),
                Err(err) => err.to_string(),
            };
            assert_eq!(got, want, "{name}");
        }
    }
}
