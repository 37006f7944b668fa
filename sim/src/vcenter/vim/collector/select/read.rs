//! Parser of filter specs: checks types, names and paths, and resolves references by name.

use std::collections::BTreeMap;

use super::{FilterSpec, Obj, PropSpec, Start, Traversal};
use crate::call::vim25::{self, Version};
use crate::vcenter::vim::data::{Node, VimFault};

impl FilterSpec {
    /// Parses a spec. Fails with `InvalidArgument` for a missing element, an unknown type, or a
    /// `selectSet` that names an unknown traversal, and with `InvalidProperty` for a path that the
    /// type does not have in this release, and for a traversal that does not lead to references.
    pub(crate) fn read(node: &Node, release: Version) -> Result<Self, VimFault> {
        let mut reading = Reading::new(release);
        let props = node.all("propSet").map(|set| prop_spec(set, release));
        let props = props.collect::<Result<Vec<_>, _>>()?;
        let mut starts = Vec::new();
        for spec in node.all("objectSet") {
            let obj = spec.child("obj").ok_or_else(|| VimFault::invalid_argument("obj"))?;
            let given = obj.reference();
            starts.push(Start {
                obj: Obj::of(given.id),
                kind: given.kind.into_owned(),
                id: given.id.to_owned(),
                skip: spec.flag("skip")?.unwrap_or(false),
                select: reading.selections(Owner::Start(starts.len()), spec)?,
            });
        }
        let report_missing = node.flag("reportMissingObjectsInResults")?.unwrap_or(false);
        let traversals = reading.resolve(&mut starts)?;
        Ok(Self { props, starts, traversals, report_missing })
    }
}

fn prop_spec(node: &Node, release: Version) -> Result<PropSpec, VimFault> {
    let kind = node.required("type")?;
    if vim25::managed(kind).is_none() {
        return Err(VimFault::invalid_argument("type"));
    }
    let all = node.flag("all")?.unwrap_or(false);
    let paths: Vec<String> = node.all("pathSet").map(|path| path.text.clone()).collect();
    let is_unknown = |path: &&String| vim25::property(kind, path, release).is_none();
    if let Some(path) = paths.iter().find(|path| !all && is_unknown(path)) {
        return Err(VimFault::invalid_property(path));
    }
    Ok(PropSpec { kind: kind.to_owned(), all, paths: if all { Vec::new() } else { paths } })
}

/// State of the parse of one spec, before the names of all traversals are known.
struct Reading {
    release: Version,
    traversals: Vec<Traversal>,
    names: BTreeMap<String, usize>,
    /// References by name, each with the owner that gets the traversal once all names are known.
    references: Vec<(Owner, String)>,
}

/// The spec whose `selectSet` contains a reference.
#[derive(Clone, Copy)]
enum Owner {
    Start(usize),
    Traversal(usize),
}

impl Reading {
    fn new(release: Version) -> Self {
        Self { release, traversals: Vec::new(), names: BTreeMap::new(), references: Vec::new() }
    }

    /// Parses a `selectSet` and returns the indexes of its traversals. Stores references by name
    /// until [`resolve`](Self::resolve).
    fn selections(&mut self, owner: Owner, node: &Node) -> Result<Vec<usize>, VimFault> {
        let mut direct = Vec::new();
        for select in node.all("selectSet") {
            match self.selection(select)? {
                Ok(traversal) => direct.push(traversal),
                Err(name) => self.references.push((owner, name)),
            }
        }
        Ok(direct)
    }

    /// Parses an element of a `selectSet`. Returns the index of the traversal in the element, or
    /// the name by which the element refers to another traversal.
    fn selection(&mut self, node: &Node) -> Result<Result<usize, String>, VimFault> {
        let traverses = match node.xsi_type.as_deref() {
            Some("TraversalSpec") => true,
            Some(_) => false,
            None => node.child("path").is_some(),
        };
        if !traverses {
            return Ok(Err(node.required("name")?.to_owned()));
        }
        let kind = node.required("type")?;
        if vim25::managed(kind).is_none() {
            return Err(VimFault::invalid_argument("type"));
        }
        let path = node.required("path")?;
        let declared = vim25::property(kind, path, self.release);
        if !declared.is_some_and(|it| it.is_reference || it.name == "anyType") {
            return Err(VimFault::invalid_property(path));
        }
        let index = self.traversals.len();
        self.traversals.push(Traversal {
            kind: kind.to_owned(),
            path: path.to_owned(),
            skip: node.flag("skip")?.unwrap_or(false),
            select: Vec::new(),
        });
        if let Some(name) = node.text_of("name").filter(|name| !name.is_empty()) {
            self.names.entry(name.to_owned()).or_insert(index);
        }
        self.traversals[index].select = self.selections(Owner::Traversal(index), node)?;
        Ok(Ok(index))
    }

    fn resolve(mut self, starts: &mut [Start]) -> Result<Vec<Traversal>, VimFault> {
        for (owner, name) in std::mem::take(&mut self.references) {
            let index = self
                .names
                .get(&name)
                .copied()
                .ok_or_else(|| VimFault::invalid_argument("selectSet"))?;
            match owner {
                Owner::Traversal(owner) => self.traversals[owner].select.push(index),
                Owner::Start(owner) => starts[owner].select.push(index),
            }
        }
        Ok(self.traversals)
    }
}
