//! Tags and content libraries of a vCenter, which vAPI manages.

mod libraries;
mod tags;

pub use libraries::{Libraries, Library, LibraryEvent, LibraryItem, TEMPLATE_ITEM, is_same};
pub use tags::{Cardinality, Category, Tag, TagEvent, Tags};
