//! Resolves the datacenter names of the configuration. Pure: names and the inventory's folders in,
//! a set of datacenters out.
//!
//! The rules are those of `cloud-provider-vsphere: pkg/common/vclib/datacenter.go`,
//! `GetDatacenter`. A value without a slash is the name of a datacenter anywhere in the tree. A
//! value with a slash is a path from the root folder. Both may contain `*` and `?` with their
//! meaning in file name patterns. A value may also be an object id such as `datacenter-3` or
//! `Datacenter:datacenter-3`. Unlike upstream, a value that looks like an object id and matches
//! none is searched as a name.

use std::collections::{BTreeMap, BTreeSet};

use provider_vcenter::{MoRef, ObjectContent};

/// Datacenter names in the configuration of one vCenter. An empty list means all datacenters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Datacenters {
    /// Names, paths or ids, as written in the configuration.
    pub names: Vec<String>,
    /// File and key that hold the names, for messages.
    pub key: String,
}

/// Folders and datacenters of one vCenter, with their names and parents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree(BTreeMap<MoRef, Entry>);

#[derive(Clone, Debug)]
struct Entry {
    name: String,
    parent: Option<MoRef>,
}

/// Result of resolving the configured names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Datacenters of the names that match exactly one.
    pub datacenters: BTreeSet<MoRef>,
    /// True if `datacenters` has every datacenter that the login sees, and at least one. Also true
    /// if the configuration has no names.
    pub is_everything: bool,
    /// Message about the names that match no datacenter or several, with the remedy; `None` if
    /// every name matches one.
    pub problem: Option<String>,
}

impl Tree {
    /// Builds the tree from the folders and datacenters among these objects, with their properties
    /// `name` and `parent`.
    pub(crate) fn of(objects: &[ObjectContent]) -> Self {
        let entries = objects.iter().filter(|object| is_branch(&object.object)).map(|object| {
            let name = decode(object.text("name").unwrap_or_default());
            (object.object.clone(), Entry { name, parent: object.reference("parent") })
        });
        Self(entries.collect())
    }

    fn datacenters(&self) -> impl Iterator<Item = &MoRef> {
        self.0.keys().filter(|object| object.kind() == "Datacenter")
    }

    /// Returns the names on the path down to the datacenter, without the root folder. The path
    /// begins below the root folder, or at the highest ancestor that the tree has.
    fn path(&self, datacenter: &MoRef) -> Vec<&str> {
        let mut path = Vec::new();
        let mut current = self.0.get(datacenter);
        while let Some(entry) = current {
            // Paths do not include the root folder; a cycle ends the walk.
            let Some(parent) = &entry.parent else { break };
            path.insert(0, entry.name.as_str());
            current = self.0.get(parent).filter(|_| path.len() <= self.0.len());
        }
        path
    }

    /// Returns the quoted path of a datacenter, for messages.
    fn show(&self, datacenter: &MoRef) -> String {
        format!("\"/{}\"", self.path(datacenter).join("/"))
    }

    /// Returns the datacenters that one configured value matches.
    fn named(&self, value: &str) -> Vec<&MoRef> {
        let id = value.strip_prefix("Datacenter:").unwrap_or(value);
        if let Some(datacenter) = self.datacenters().find(|datacenter| datacenter.id() == id) {
            return vec![datacenter];
        }
        let wanted: Vec<&str> = value.trim_matches('/').split('/').collect();
        let is_path = value.contains('/');
        let is_meant = |datacenter: &&MoRef| {
            let path = self.path(datacenter);
            let path = if is_path { &path[..] } else { &path[path.len().saturating_sub(1)..] };
            path.len() == wanted.len()
                && path.iter().zip(&wanted).all(|(name, pattern)| is_like(name, pattern))
        };
        self.datacenters().filter(is_meant).collect()
    }
}

impl Datacenters {
    /// Resolves the names against the tree of a vCenter. The caller must not call this without
    /// names: an empty list means all datacenters, but the result would have none.
    pub(crate) fn among(&self, tree: &Tree) -> Listed {
        let mut listed = Listed::default();
        let mut problems = Vec::new();
        for value in &self.names {
            match tree.named(value).as_slice() {
                [one] => {
                    listed.datacenters.insert((*one).clone());
                }
                [] => {
                    let all: Vec<String> = tree.datacenters().map(|it| tree.show(it)).collect();
                    problems.push(format!(
                        "{}: {value:?} is not a datacenter that the login can see; it sees {}. Correct the name, or \
                         let the login read that datacenter",
                        self.key,
                        if all.is_empty() { "none".to_owned() } else { all.join(", ") },
                    ));
                }
                several => {
                    let paths: Vec<String> = several.iter().map(|it| tree.show(it)).collect();
                    problems.push(format!(
                        "{}: {value:?} matches several datacenters, {}. Write the path of each one that you mean",
                        self.key,
                        paths.join(", "),
                    ));
                }
            }
        }
        // A login that sees no datacenter cannot claim to see all of them.
        listed.is_everything = !listed.datacenters.is_empty()
            && tree.datacenters().all(|it| listed.datacenters.contains(it));
        listed.problem = Some(problems.join("; ")).filter(|text| !text.is_empty());
        listed
    }
}

fn is_branch(object: &MoRef) -> bool {
    matches!(object.kind(), "Folder" | "Datacenter")
}

/// Decodes a name: vCenter encodes `/`, `\` and `%` in names as `%2f`, `%5c` and `%25`.
pub(crate) fn decode(name: &str) -> String {
    name.replace("%2f", "/").replace("%5c", "\\").replace("%25", "%")
}

/// True if a name matches a pattern in which `*` stands for any text and `?` for one character.
pub(crate) fn is_like(name: &str, pattern: &str) -> bool {
    let (name, pattern): (Vec<char>, Vec<char>) =
        (name.chars().collect(), pattern.chars().collect());
    // `fits[i]`: the part of the pattern up to here matches the first `i` characters of the name.
    let mut fits = vec![false; name.len() + 1];
    fits[0] = true;
    for wanted in pattern {
        let mut next = vec![false; name.len() + 1];
        next[0] = wanted == '*' && fits[0];
        for (i, c) in name.iter().enumerate() {
            next[i + 1] = match wanted {
                '*' => next[i] || fits[i + 1],
                '?' => fits[i],
                literal => fits[i] && literal == *c,
            };
        }
        fits = next;
    }
    fits[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tree with `/DC0`, `/east/DC1`, `/west/DC1` and `/datacenter-east`.
    fn tree() -> Tree {
        let entry = |kind: &str, id: &str, name: &str, parent: Option<&str>| {
            let parent = parent.map(|id| MoRef::new("Folder", id));
            (MoRef::new(kind, id), Entry { name: name.to_owned(), parent })
        };
        Tree(BTreeMap::from([
            entry("Folder", "group-d1", "Datacenters", None),
            entry("Folder", "group-d2", "east", Some("group-d1")),
            entry("Folder", "group-d3", "west", Some("group-d1")),
            entry("Datacenter", "datacenter-0", "DC0", Some("group-d1")),
            entry("Datacenter", "datacenter-1", "DC1", Some("group-d2")),
            entry("Datacenter", "datacenter-2", "DC1", Some("group-d3")),
            entry("Datacenter", "datacenter-3", "datacenter-east", Some("group-d1")),
        ]))
    }

    #[test]
    fn names_paths_and_ids_of_datacenters_resolve_as_upstream_resolves_them() {
        let many = "matches several datacenters, \"/east/DC1\", \"/west/DC1\"";
        for (name, value, want) in [
            ("a name", "DC0", Ok("datacenter-0")),
            ("another case", "dc0", Err("is not a datacenter")),
            ("a path", "/east/DC1", Ok("datacenter-1")),
            ("a path without its first slash", "west/DC1", Ok("datacenter-2")),
            ("a path to the top", "/DC0", Ok("datacenter-0")),
            ("half a path", "/DC1", Err("is not a datacenter")),
            ("a folder", "/east", Err("is not a datacenter")),
            ("a pattern", "D?0", Ok("datacenter-0")),
            ("a pattern in a path", "/w*/*", Ok("datacenter-2")),
            ("several of one name", "DC1", Err(many)),
            ("a pattern of several", "/*/DC?", Err(many)),
            ("an id", "datacenter-2", Ok("datacenter-2")),
            ("an id with its type", "Datacenter:datacenter-2", Ok("datacenter-2")),
            ("a name that looks like an id", "datacenter-east", Ok("datacenter-3")),
            ("an id that is not there", "datacenter-99", Err("is not a datacenter")),
        ] {
            let key = "vsphere.conf: vcenter.a.datacenters".to_owned();
            let wanted = Datacenters { names: vec![value.to_owned()], key };
            let found = wanted.among(&tree());
            match (want, &found.problem) {
                (Ok(id), None) => {
                    assert_eq!(found.datacenters, [MoRef::new("Datacenter", id)].into(), "{name}");
                }
                (Err(text), Some(problem)) => {
                    let begin = format!("vsphere.conf: vcenter.a.datacenters: {value:?} {text}");
                    assert!(problem.starts_with(&begin), "{name}: {problem}");
                    assert!(found.datacenters.is_empty(), "{name}");
                }
                (want, problem) => panic!("{name}: {want:?}, {problem:?}"),
            }
        }
    }

    #[test]
    fn a_list_of_all_datacenters_counts_as_everything() {
        let list = |names: &[&str]| Datacenters {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            key: "k".to_owned(),
        };
        let all = ["DC0", "east/DC1", "west/DC1", "datacenter-east"];
        assert!(list(&all).among(&tree()).is_everything);
        assert!(!list(&all[1..]).among(&tree()).is_everything);
        let with_ghost = list(&["DC0", "ghost"]).among(&tree());
        assert!(!with_ghost.is_everything && with_ghost.datacenters.len() == 1);
        insta::assert_snapshot!(with_ghost.problem.unwrap(), @r#"k: "ghost" is not a datacenter that the login can see; it sees "/DC0", "/east/DC1", "/west/DC1", "/datacenter-east". Correct the name, or let the login read that datacenter"#);
    }
}
