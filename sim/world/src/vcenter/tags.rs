//! Tags and categories, attached to inventory objects.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::refs::MoRef;

/// Number of tags of one category that may be attached to the same object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Cardinality {
    /// One.
    Single,
    /// Any number.
    Multiple,
}

/// A tag category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Category {
    /// Its name, unique in the vCenter.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Number of its tags that may be attached to the same object.
    pub cardinality: Cardinality,
    /// Types of objects that its tags may be attached to; empty means any.
    pub associable_types: Vec<String>,
}

/// A tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// Its category's id.
    pub category: String,
    /// Its name, unique within the category.
    pub name: String,
    /// Free text.
    pub description: String,
}

/// A change of tags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TagEvent {
    /// A category was created or updated.
    CategorySet {
        /// Its id.
        id: String,
        /// Its new state.
        category: Category,
    },
    /// A category and all its tags were deleted.
    CategoryDeleted(String),
    /// A tag was created or updated.
    TagSet {
        /// Its id.
        id: String,
        /// Its new state.
        tag: Tag,
    },
    /// A tag was deleted, and detached from every object.
    TagDeleted(String),
    /// A tag was attached.
    Attached {
        /// The tag's id.
        tag: String,
        /// The object.
        object: MoRef,
    },
    /// A tag was detached.
    Detached {
        /// The tag's id.
        tag: String,
        /// The object.
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
    /// The category of this name, with its id.
    pub fn category_named(&self, name: &str) -> Option<(&String, &Category)> {
        self.categories.iter().find(|(_, category)| category.name == name)
    }

    /// The tag of this name in this category, with its id.
    pub fn tag_named(&self, category: &str, name: &str) -> Option<(&String, &Tag)> {
        self.tags.iter().find(|(_, tag)| tag.category == category && tag.name == name)
    }

    /// Ids of the tags attached to `object`, in id order.
    pub fn attached(&self, object: MoRef) -> impl Iterator<Item = &String> {
        self.on_object.get(&object).into_iter().flatten()
    }

    /// Applies a change.
    pub(super) fn fold(&mut self, event: &TagEvent) {
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
