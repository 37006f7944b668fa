//! The vSphere API's typed core: values, objects, properties, searches, filters and operations.
//!
//! It knows no XML. The SOAP codec reads requests into [`Node`]s and writes [`Value`]s; a second
//! codec would do the same in JSON.

mod fault;
mod node;
mod types;
mod value;
mod content;
mod properties;
mod select;
mod views;
mod updates;
mod sessions;
mod search;
mod tasks;
mod retrieve;
mod waiting;
mod operations;
mod detail;

pub(crate) use detail::{count_objects, detail};
pub(crate) use fault::VimFault;
pub(crate) use node::Node;
pub(crate) use operations::{Answer, Caller, Failure, Vim};
pub(crate) use value::{Field, Object, Reference, Value};
pub(crate) use types::fault_class;
