//! Decisions of the controller: which write an object needs, given the objects that it names. Pure.

mod annotations;
mod difference;
mod hardware;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value;

use super::keys::{PAUSED, WATCH_FILTER};

pub(crate) use self::{
    annotations::{group_annotations, is_owned, plan_group, template_name},
    hardware::check_class,
    status::{StatusForm, Subject, plan_status},
};

/// Knowledge of an object that another object names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Referent {
    /// The object.
    Object(Arc<Value>),
    /// The API server has no such object.
    Missing,
    /// The object could not be read, for this reason.
    Unread(String),
}

/// A decision about one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// Merge patch; `None` if the object already is as it must be.
    pub(crate) patch: Option<Value>,
    /// Reason to try again later; `None` if nothing is missing.
    pub(crate) problem: Option<String>,
}

/// Returns a text of an object; empty if the field is absent.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// True if the object has the annotation that pauses controllers.
pub(crate) fn is_paused(object: &Value) -> bool {
    object["metadata"]["annotations"].get(PAUSED).is_some()
}

/// True if the object is not paused and the filter, if any, selects it.
pub(crate) fn is_selected(object: &Value, filter: Option<&str>) -> bool {
    let label = &object["metadata"]["labels"][WATCH_FILTER];
    !is_paused(object) && filter.is_none_or(|filter| label == filter)
}
