//! Resolves the configured datacenter names anew before every search, as upstream does.
//!
//! The provider searches a name in the whole tree of folders, follows a path from the root folder,
//! and reads the ancestors of an object id. If no datacenter has the id, the provider searches the
//! value as a name or path, unlike upstream.
//! object id and matches none as a name.

use std::collections::BTreeSet;

use provider_vcenter::{Chain, FilterSpec, MoRef, Vcenter};

use crate::instances::datacenters::{decode, is_like};

/// Prefixes of object ids (`govmomi: object/types.go`).
const ID_PREFIXES: [&str; 10] = [
    "datacenter",
    "datastore",
    "domain",
    "dvportgroup",
    "dvs",
    "group",
    "host",
    "network",
    "resgroup",
    "vm",
];

/// Datacenters to search.
pub(super) struct SearchRoots {
    pub(super) datacenters: Vec<MoRef>,
    /// True if the vCenter may have other datacenters than these.
    pub(super) is_narrowed: bool,
    /// Messages about names that do not resolve, at most one per name. Without names, at most one
    /// message, if no datacenter was found or the search failed.
    pub(super) problems: Vec<String>,
}

/// Resolves these names, or returns all datacenters if `names` is empty.
pub(super) async fn resolve(client: &Vcenter, names: &[String]) -> SearchRoots {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    // All datacenters of the vCenter, once a search of the whole tree has found them.
    let mut all = None;
    if names.is_empty() {
        match anywhere(client, "*", &mut all).await {
            Ok(all) if all.is_empty() => problems.push(
                "the login sees no datacenter; let the login read the datacenters".to_owned(),
            ),
            Ok(all) => found = all,
            Err(why) => problems.push(why),
        }
    }
    for name in names {
        let named = if let Some(id) = id_of(name) { by_id(client, id).await } else { Ok(None) };
        let named = match named {
            Ok(Some(datacenter)) => Ok(vec![datacenter]),
            Ok(None) if name.contains('/') => along(client, name).await,
            Ok(None) => anywhere(client, name, &mut all).await,
            Err(why) => Err(why),
        };
        match named.as_deref() {
            Ok([one]) if !found.contains(one) => found.push(one.clone()),
            Ok([_]) => {}
            Ok([]) => problems.push(format!(
                "{name:?} is not a datacenter that the login can see; correct the name, or let the login read it"
            )),
            Ok(_) => problems.push(format!(
                "{name:?} matches several datacenters; write the path of each one that you mean"
            )),
            Err(why) => problems.push(why.clone()),
        }
    }
    let is_everything = all.is_some_and(|all| all.iter().all(|it| found.contains(it)));
    SearchRoots { datacenters: found, is_narrowed: !is_everything, problems }
}

/// Returns the object id in a value that looks like one; `None` for any other value.
fn id_of(value: &str) -> Option<&str> {
    if let Some(id) = value.strip_prefix("Datacenter:") {
        return Some(id);
    }
    let (prefix, rest) = value.split_once('-')?;
    (ID_PREFIXES.contains(&prefix) && !rest.is_empty()).then_some(value)
}

/// Finds the datacenter with this id; `None` if no visible datacenter has it.
async fn by_id(client: &Vcenter, id: &str) -> Result<Option<MoRef>, String> {
    let datacenter = MoRef::new("Datacenter", id);
    match client.retrieve(&FilterSpec::ancestors(vec![datacenter.clone()])).await {
        Ok(objects) if objects.iter().any(|it| it.object == datacenter) => Ok(Some(datacenter)),
        Ok(_) => Ok(None),
        Err(err) if err.is_object_gone() => Ok(None),
        Err(err) => Err(Chain(&err).to_string()),
    }
}

/// Finds every datacenter whose name matches, folder by folder. Reads no folder twice, so that an
/// answer that puts a folder into itself does not lead to an endless search. Stores all datacenters
/// in `all`.
async fn anywhere(
    client: &Vcenter,
    name: &str,
    all: &mut Option<Vec<MoRef>>,
) -> Result<Vec<MoRef>, String> {
    let (mut found, mut every) = (Vec::new(), Vec::new());
    let root = root(client).await?;
    let mut seen = BTreeSet::from([root.clone()]);
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for (object, its_name) in children(client, folder).await? {
            match object.kind() {
                "Folder" if seen.insert(object.clone()) => folders.push(object),
                "Folder" => {}
                _ => {
                    if is_like(&its_name, name) {
                        found.push(object.clone());
                    }
                    every.push(object);
                }
            }
        }
    }
    *all = Some(every);
    Ok(found)
}

/// Finds every datacenter whose path from the root folder matches.
async fn along(client: &Vcenter, path: &str) -> Result<Vec<MoRef>, String> {
    let session = client.session().await.map_err(|err| Chain(&err).to_string())?;
    let is_absolute = path.starts_with('/');
    let mut folders =
        vec![if is_absolute { session.content.root_folder } else { root(client).await? }];
    let names: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (last, above) = names.split_last().ok_or_else(|| {
        format!("{path:?} is not a path of a datacenter; write it like /FOLDER/DATACENTER")
    })?;
    for name in above {
        let mut next = Vec::new();
        for folder in folders {
            let inside = children(client, folder).await?;
            let is_it = |(object, its_name): &(MoRef, String)| {
                object.kind() == "Folder" && is_like(its_name, name)
            };
            next.extend(inside.into_iter().filter(is_it).map(|(object, _)| object));
        }
        folders = next;
    }
    let mut found = Vec::new();
    for folder in folders {
        let inside = children(client, folder).await?;
        let is_it =
            |(object, name): &(MoRef, String)| object.kind() == "Datacenter" && is_like(name, last);
        found.extend(inside.into_iter().filter(is_it).map(|(object, _)| object));
    }
    Ok(found)
}

/// Returns the root folder, after a read of its ancestors. Upstream makes this read before it reads
/// the children of the root folder.
async fn root(client: &Vcenter) -> Result<MoRef, String> {
    let failed = |err: provider_vcenter::CallError| Chain(&err).to_string();
    let root = client.session().await.map_err(failed)?.content.root_folder;
    client.retrieve(&FilterSpec::ancestors(vec![root.clone()])).await.map_err(failed)?;
    Ok(root)
}

/// Returns the folders and datacenters that are directly in a folder, with their names.
async fn children(client: &Vcenter, folder: MoRef) -> Result<Vec<(MoRef, String)>, String> {
    let objects = client.retrieve(&FilterSpec::children(folder)).await;
    let objects = objects.map_err(|err| Chain(&err).to_string())?;
    let named = objects.into_iter().map(|it| {
        let name = decode(it.text("name").unwrap_or_default());
        (it.object, name)
    });
    Ok(named.collect())
}

#[cfg(test)]
mod tests {
    use super::id_of;

    #[test]
    fn a_datacenter_id_is_recognized_by_its_prefix() {
        for (value, id) in [
            ("Datacenter:datacenter-3", Some("datacenter-3")),
            ("datacenter-3", Some("datacenter-3")),
            ("vm-dc1", Some("vm-dc1")),
            ("DC0", None),
            ("east-1", None),
            ("/datacenter-east", None),
            ("datacenter-", None),
        ] {
            assert_eq!(id_of(value), id, "{value}");
        }
    }
}
