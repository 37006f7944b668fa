//! The vSphere API (vim25) without its encoding: values, objects, properties, searches, filters
//! and operations.
//!
//! This module does not use XML. The SOAP codec parses requests into [`Node`]s and writes
//! [`Value`]s; another codec could do this in JSON.

mod access;
mod content;
mod detail;
mod fault;
mod logins;
mod node;
mod operation;
mod operations;
mod properties;
mod retrieve;
mod search;
mod select;
mod sessions;
mod tasks;
mod types;
mod updates;
mod value;
mod views;
mod waiting;

pub(crate) use detail::count_objects;
pub(crate) use fault::VimFault;
pub(crate) use node::Node;
pub(crate) use operation::{Operation, Requested, Subject};
pub(crate) use operations::{Answer, Caller, Failure, Step, Vim};
pub(crate) use types::{FAULTS, fault_class};
pub(crate) use value::{Field, Object, Reference, Value};
