//! Selection of the PropertyCollector: the objects and properties that a filter spec reports.
//!
//! The rules of the selection are checked against requests of govmomi and pyVmomi.

mod content;
mod read;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sim_world::vcenter::{Kind, MoRef};

use crate::call::vim25;
use crate::faults::Effects;
use crate::vcenter::vim::data::VimFault;
use crate::vcenter::vim::properties::{Reader, Subject};
use crate::vcenter::vim::views::View;
pub(crate) use content::{
    missing_property, object_content, reference, unreadable, values, with_list,
};
use walk::Walk;

/// A managed object of any kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Obj {
    /// An inventory object, or a task.
    Mo(MoRef),
    /// A manager, or a view of the session, by id.
    Named(Arc<str>),
}

impl Obj {
    /// Returns the object with this id, whether or not it exists.
    pub(crate) fn of(id: &str) -> Self {
        MoRef::parse(id).map_or_else(|| Self::Named(id.into()), Self::Mo)
    }
}

/// Views of a session, by id.
pub(crate) type Views = BTreeMap<Arc<str>, View>;

/// A `PropertyFilterSpec`, parsed and checked.
#[derive(Clone, Debug)]
pub(crate) struct FilterSpec {
    props: Vec<PropSpec>,
    pub(crate) starts: Vec<Start>,
    /// All traversals of the spec; `select` fields refer to them by index.
    pub(crate) traversals: Vec<Traversal>,
    report_missing: bool,
}

#[derive(Clone, Debug)]
struct PropSpec {
    kind: String,
    all: bool,
    paths: Vec<String>,
}

/// An `ObjectSpec`: a start object of the walk, and the traversals from it.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) obj: Obj,
    kind: String,
    id: String,
    pub(crate) skip: bool,
    pub(crate) select: Vec<usize>,
}

/// A `TraversalSpec`: a property to follow on objects of one type, and the traversals after it.
#[derive(Clone, Debug)]
pub(crate) struct Traversal {
    kind: String,
    pub(crate) path: String,
    skip: bool,
    pub(crate) select: Vec<usize>,
}

/// Properties that a spec requests of objects of one type.
#[derive(Clone, Debug, Default)]
pub(crate) struct PropertySelection {
    pub(crate) all: bool,
    pub(crate) paths: Vec<String>,
}

/// Objects that a spec selects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selected {
    /// Objects to report, in the order found.
    pub(crate) objects: Vec<Obj>,
    /// Type and id of start objects that do not exist, if the spec requests a report of them.
    pub(crate) missing: Vec<(String, String)>,
}

impl FilterSpec {
    /// Returns the properties that the spec requests of objects of type `kind`; `None` if it does
    /// not report such objects.
    pub(crate) fn wanted(&self, kind: &str) -> Option<PropertySelection> {
        let mut matching =
            self.props.iter().filter(|prop| vim25::is_a(kind, &prop.kind)).peekable();
        matching.peek()?;
        let mut wanted = PropertySelection::default();
        for prop in matching {
            wanted.all |= prop.all;
            for path in &prop.paths {
                if !wanted.paths.contains(path) {
                    wanted.paths.push(path.clone());
                }
            }
        }
        Some(wanted)
    }

    /// Checks that the start objects exist and that the traversals lead along references. Checks
    /// nothing if all start objects are views.
    ///
    /// # Errors
    /// The fault of [`select`](Self::select).
    pub(crate) fn check(&self, reader: &Reader<'_>, views: &Views) -> Result<(), VimFault> {
        let is_view = |start: &Start| match &start.obj {
            Obj::Named(id) => views.contains_key(id),
            Obj::Mo(_) => false,
        };
        // Views may have many members, so the first wait walks from them, not this check.
        if self.starts.iter().all(is_view) {
            return Ok(());
        }
        self.select(reader, views, &Effects::default()).map(|_| ())
    }

    /// Selects objects by a walk from the start objects.
    ///
    /// # Errors
    /// `ManagedObjectNotFound` for a start object that does not exist, unless the spec requests a
    /// report of it; `InvalidProperty` for a traversal of a property that is not a reference.
    pub(crate) fn select(
        &self,
        reader: &Reader<'_>,
        views: &Views,
        effects: &Effects,
    ) -> Result<Selected, VimFault> {
        let mut walk = Walk {
            spec: self,
            reader,
            views,
            effects,
            seen: BTreeSet::new(),
            walked: BTreeSet::new(),
            selected: Selected::default(),
        };
        for start in &self.starts {
            match subject(reader, views, &start.obj) {
                None if self.report_missing => {
                    walk.selected.missing.push((start.kind.clone(), start.id.clone()));
                }
                None => return Err(VimFault::not_found(&start.kind, &start.id)),
                Some(_) => {
                    if !start.skip {
                        walk.report(&start.obj);
                    }
                    walk.follow(&start.select, &start.obj)?;
                }
            }
        }
        Ok(walk.selected)
    }
}

/// Returns the object if it exists. Does not check the permissions of the caller.
pub(crate) fn subject<'a>(
    reader: &Reader<'a>,
    views: &'a Views,
    obj: &'a Obj,
) -> Option<Subject<'a>> {
    match obj {
        Obj::Mo(id) if id.kind == Kind::Task => {
            reader.vc.tasks.get(id).map(|task| Subject::Task(*id, task))
        }
        Obj::Mo(id) => reader.vc.inventory.get(*id).map(|entity| Subject::Entity(*id, entity)),
        Obj::Named(id) => match views.get(id) {
            Some(view) => Some(Subject::View(view)),
            None => crate::vcenter::vim::content::manager(id).map(Subject::Manager),
        },
    }
}
