//! Content libraries, their items, and the templates that items contain.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::refs::MoRef;
use crate::Time;

/// Type of the items that contain a template of machines.
pub const TEMPLATE_ITEM: &str = "vm-template";

/// A content library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Library {
    /// Name of the library. Several libraries may have the same name.
    pub name: String,
    /// Datastore that stores the items.
    pub datastore: Option<MoRef>,
    /// World time of the creation.
    pub created: Time,
}

impl Library {
    /// A library that was created at this time.
    pub(crate) fn new(name: String, datastore: Option<MoRef>, created: Time) -> Self {
        Self { name, datastore, created }
    }
}

/// An item of a content library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LibraryItem {
    /// Id of the library that contains the item.
    pub library: String,
    /// Name of the item. Several items of a library may have the same name.
    pub name: String,
    /// Type of the item, such as `vm-template`, `ovf` or `iso`.
    pub kind: String,
    /// Latest template of the item; `None` for an item without template.
    pub template: Option<MoRef>,
    /// Number of templates that the item has had.
    pub version: u32,
    /// World time of the creation.
    pub created: Time,
    /// World time of the latest change.
    pub modified: Time,
}

impl LibraryItem {
    /// An item without template that was created at this time.
    pub(crate) fn new(library: String, name: String, kind: String, created: Time) -> Self {
        Self { library, name, kind, template: None, version: 0, created, modified: created }
    }
}

/// Change of content libraries or their items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LibraryEvent {
    /// A library was created.
    LibrarySet {
        /// Id of the library.
        id: String,
        /// State of the library.
        library: Library,
    },
    /// An item was created or changed.
    ItemSet {
        /// Id of the item.
        id: String,
        /// New state of the item.
        item: LibraryItem,
    },
    /// An item was deleted.
    ItemDeleted(String),
}

/// All content libraries of one vCenter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Libraries {
    /// Libraries by id.
    pub libraries: BTreeMap<String, Library>,
    /// Items of all libraries by id.
    pub items: BTreeMap<String, LibraryItem>,
    /// Number of libraries and items ever created; the id of the next one depends on it.
    pub created: u64,
}

impl Libraries {
    /// True if the vCenter never had a library.
    pub fn is_empty(&self) -> bool {
        self.created == 0
    }

    /// Ids of the libraries of this name, in id order. As vCenter, compares without case.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a String> {
        let libraries = self.libraries.iter();
        libraries.filter(|(_, library)| is_same(&library.name, name)).map(|(id, _)| id)
    }

    /// Items of the library with this id, with their ids, in id order.
    pub fn items_of<'a>(
        &'a self,
        library: &'a str,
    ) -> impl Iterator<Item = (&'a String, &'a LibraryItem)> {
        self.items.iter().filter(move |(_, item)| item.library == library)
    }

    /// Applies a change of libraries or items.
    pub(in crate::vcenter) fn fold(&mut self, event: &LibraryEvent) {
        match event {
            LibraryEvent::LibrarySet { id, library } => {
                let before = self.libraries.insert(id.clone(), library.clone());
                self.created += u64::from(before.is_none());
            }
            LibraryEvent::ItemSet { id, item } => {
                let before = self.items.insert(id.clone(), item.clone());
                self.created += u64::from(before.is_none());
            }
            LibraryEvent::ItemDeleted(id) => {
                self.items.remove(id);
            }
        }
    }
}

/// True if two names are the same without regard to case.
pub fn is_same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}
