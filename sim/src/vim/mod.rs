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

pub(crate) use detail::{argument_summary, count_objects};
pub(crate) use fault::VimFault;
pub(crate) use node::Node;
pub(crate) use operations::{Answer, Caller, Failure, Step, Vim};
pub(crate) use value::{Field, Object, Reference, Value};
