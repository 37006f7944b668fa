//! The vSphere API (vim25) without its encoding: values, objects, properties, searches, filters
//! and operations.
//!
//! This module does not use XML. The SOAP codec parses requests into [`Node`]s and writes
//! [`Value`]s; another codec could do this in JSON.

mod check;
mod collector;
mod content;
mod data;
mod detail;
mod operations;
mod properties;
mod search;
mod session;
mod spec;
mod tasks;
mod views;

pub(crate) use data::{Field, Node, Object, Reference, Value, VimFault};
pub(crate) use detail::{argument_summary, count_objects};
pub(crate) use operations::{Answer, Caller, Failure, Progress, Vim};
