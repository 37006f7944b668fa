//! Parts of every object: fields, metadata, names and sizes.

pub(crate) mod fields;
pub(crate) mod meta;
pub(crate) mod names;
pub(crate) mod size;
