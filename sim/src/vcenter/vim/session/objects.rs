//! Objects that a session owns: views, property collectors and paging tokens. They end with the
//! session.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::vcenter::vim::collector::select::{FilterSpec, Obj, PropertySelection, Views};
use crate::vcenter::vim::collector::updates::Collector;
use crate::vcenter::vim::data::{GivenRef, Reference};
use crate::vcenter::vim::views::View;
use crate::vcenter::vim::{Node, VimFault};

/// Id of the property collector that every session has from its beginning.
pub(crate) const DEFAULT_COLLECTOR: &str = "propertyCollector";

/// Objects that one session owns: views, property collectors and paging tokens.
#[derive(Debug)]
pub(crate) struct SessionObjects {
    /// Key of the session, part of the ids of its objects.
    key: String,
    serial: u64,
    pub(crate) views: Views,
    pub(crate) collectors: BTreeMap<Arc<str>, Collector>,
    pub(crate) pages: BTreeMap<String, Pages>,
}

/// Rest of a paged retrieval: the objects that the client has not fetched yet, the specs that
/// select their properties, and the size of a page.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) rest: VecDeque<Obj>,
    pub(crate) spec: Vec<FilterSpec>,
    pub(crate) size: usize,
}

impl SessionObjects {
    pub(crate) fn new(key: String) -> Self {
        let collectors =
            BTreeMap::from([(Arc::from(DEFAULT_COLLECTOR), Collector::new(&format!("{key}/0")))]);
        Self { key, serial: 0, views: Views::new(), collectors, pages: BTreeMap::new() }
    }

    /// Returns a new id, `session[<key>]<serial>`. Other sessions cannot use the object that gets
    /// this id.
    pub(crate) fn next_id(&mut self) -> Arc<str> {
        self.serial += 1;
        format!("session[{}]{:08x}", self.key, self.serial).into()
    }

    pub(crate) fn add_view(&mut self, view: View) -> Reference {
        let reference = view.reference.clone();
        self.views.insert(reference.id.clone(), view);
        reference
    }

    pub(crate) fn add_collector(&mut self) -> Reference {
        let id = self.next_id();
        self.collectors.insert(id.clone(), Collector::new(&id));
        Reference::new("PropertyCollector", id)
    }

    /// Returns the managed object type of an object of the session; `None` for any other id.
    pub(crate) fn type_of(&self, id: &str) -> Option<&'static str> {
        if let Some(view) = self.views.get(id) {
            return Some(view.kind());
        }
        if self.collectors.contains_key(id) {
            return Some("PropertyCollector");
        }
        self.collectors.values().any(|it| it.has_filter(id)).then_some("PropertyFilter")
    }

    pub(crate) fn view(&mut self, id: &str) -> Result<&mut View, VimFault> {
        self.views.get_mut(id).ok_or_else(|| VimFault::not_found("View", id))
    }

    pub(crate) fn collector(&mut self, id: &str) -> Result<&mut Collector, VimFault> {
        self.collectors.get_mut(id).ok_or_else(|| VimFault::not_found("PropertyCollector", id))
    }
}

/// Returns the children called `name` of a request, as references.
pub(crate) fn references<'a>(
    arguments: &'a Node,
    name: &'a str,
) -> impl Iterator<Item = GivenRef<'a>> {
    arguments.all(name).map(Node::reference)
}

/// Returns the union of the properties that the specs request of objects of type `kind`.
pub(crate) fn wanted_by_all(specs: &[FilterSpec], kind: &str) -> PropertySelection {
    let mut union = PropertySelection::default();
    for wanted in specs.iter().filter_map(|spec| spec.wanted(kind)) {
        union.all |= wanted.all;
        for path in wanted.paths {
            if !union.paths.contains(&path) {
                union.paths.push(path);
            }
        }
    }
    union
}
