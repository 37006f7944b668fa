//! Tag categories, their tags, and the inventory objects to which the tags are attached.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::super::refs::MoRef;

/// Number of tags of one category that may be attached to the same object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Cardinality {
    /// At most one tag of the category per object.
    Single,
    /// Any number of tags of the category per object.
    Multiple,
}

/// A tag category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Category {
    /// Name of the category, unique in the vCenter.
    pub name: String,
    /// Description; free text.
    pub description: String,
    /// Number of tags of the category that may be attached to the same object.
    pub cardinality: Cardinality,
    /// Types of objects to which the tags of the category may be attached, such as
    /// `VirtualMachine`; empty for any type.
    pub associable_types: Vec<String>,
}

/// A tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// Id of the category that contains the tag.
    pub category: String,
    /// Name of the tag, unique within the category.
    pub name: String,
    /// Description; free text.
    pub description: String,
}

/// Change of tags, of categories, or of the objects that have tags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TagEvent {
    /// A category was created or updated.
    CategorySet {
        /// Id of the category.
        id: String,
        /// New state of the category.
        category: Category,
    },
    /// A category and all its tags were deleted.
    CategoryDeleted(String),
    /// A tag was created or updated.
    TagSet {
        /// Id of the tag.
        id: String,
        /// New state of the tag.
        tag: Tag,
    },
    /// A tag was deleted, and detached from every object.
    TagDeleted(String),
    /// A tag was attached to an object.
    Attached {
        /// Id of the tag.
        tag: String,
        /// Object that has the tag now.
        object: MoRef,
    },
    /// A tag was detached from an object.
    Detached {
        /// Id of the tag.
        tag: String,
        /// Object that had the tag.
        object: MoRef,
    },
}

/// All tags of one vCenter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tags {
    /// Categories by id.
    pub categories: BTreeMap<String, Category>,
    /// Tags by id.
    pub tags: BTreeMap<String, Tag>,
    /// Tag ids by object.
    pub on_object: BTreeMap<MoRef, BTreeSet<String>>,
    /// Objects by tag id.
    pub on_tag: BTreeMap<String, BTreeSet<MoRef>>,
    /// Number of categories and tags ever created; the id of the next one depends on it.
    pub created: u64,
}

impl Tags {
    /// Returns id and data of the category of this name; `None` if the vCenter has no such
    /// category.
    pub fn category_named(&self, name: &str) -> Option<(&String, &Category)> {
        self.categories.iter().find(|(_, category)| category.name == name)
    }

    /// Returns id and data of the tag with this name in the category with this id; `None` if the
    /// category has no such tag.
    pub fn tag_named(&self, category: &str, name: &str) -> Option<(&String, &Tag)> {
        self.tags.iter().find(|(_, tag)| tag.category == category && tag.name == name)
    }

    /// Ids of the tags attached to `object`, in id order.
    pub fn attached(&self, object: MoRef) -> impl Iterator<Item = &String> {
        self.on_object.get(&object).into_iter().flatten()
    }

    /// Applies a change of tags, of categories, or of the objects that have tags.
    pub(in crate::vcenter) fn fold(&mut self, event: &TagEvent) {
        match event {
            TagEvent::CategorySet { id, category } => {
                let before = self.categories.insert(id.clone(), category.clone());
                self.created += u64::from(before.is_none());
            }
            TagEvent::CategoryDeleted(id) => {
                self.categories.remove(id);
                let tags: Vec<String> = self
                    .tags
                    .iter()
                    .filter(|(_, tag)| tag.category == *id)
                    .map(|(tag, _)| tag.clone())
                    .collect();
                for tag in tags {
                    self.fold(&TagEvent::TagDeleted(tag));
                }
            }
            TagEvent::TagSet { id, tag } => {
                let before = self.tags.insert(id.clone(), tag.clone());
                self.created += u64::from(before.is_none());
            }
            TagEvent::TagDeleted(id) => {
                self.tags.remove(id);
                for object in self.on_tag.remove(id).unwrap_or_default() {
                    self.unlist(object, id);
                }
            }
            TagEvent::Attached { tag, object } => {
                self.on_object.entry(*object).or_default().insert(tag.clone());
                self.on_tag.entry(tag.clone()).or_default().insert(*object);
            }
            TagEvent::Detached { tag, object } => {
                self.unlist(*object, tag);
                if let Some(objects) = self.on_tag.get_mut(tag) {
                    objects.remove(object);
                }
            }
        }
    }

    fn unlist(&mut self, object: MoRef, tag: &str) {
        if let Some(tags) = self.on_object.get_mut(&object) {
            tags.remove(tag);
            if tags.is_empty() {
                self.on_object.remove(&object);
            }
        }
    }
}
