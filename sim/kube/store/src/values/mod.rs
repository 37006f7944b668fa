//! Values without a relation to an object: addresses, identifiers, patterns, points in time, and
//! texts in Go's formats.

pub(crate) mod addresses;
pub(crate) mod ids;
pub(crate) mod patterns;
pub(crate) mod text;
pub(crate) mod time;
