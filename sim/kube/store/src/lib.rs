//! A Kubernetes object store: revisions, conflicts, a watch log, selectors and patches.
//!
//! The store is pure: it does no I/O and reads no clock. [`Store::decide`] takes a [`Command`] and
//! returns the changes that the command would make; [`Store::fold`] applies them. Two equal stores
//! stay equal if the same events are folded into both. A [`ResourceDef`] describes a kind of object
//! by data and a few functions. The rest of the code is the same for all kinds, except for special
//! cases for custom kinds, Namespaces and CustomResourceDefinitions.
//!
//! ```
//! use kube_sim_store::{Command, GroupResource, Ids, Key, PatchKind, Store};
//! use serde_json::json;
//!
//! let now = "2026-01-01T00:00:00Z".parse().unwrap();
//! let mut store = Store::new_at(Ids::new(0), now);
//! let key = Key::new(GroupResource::core("configmaps"), "default", "colors");
//! let object = json!({"metadata": {"name": "colors"}, "data": {"sky": "blue"}});
//! let create = Command::create(key.resource.clone(), "default", object);
//! let patch = Command::patch(key.clone(), PatchKind::Merge, json!({"data": {"sky": "gray"}}));
//! for command in [create, patch] {
//!     let decision = store.decide(now, command).unwrap();
//!     decision.events.iter().for_each(|event| store.fold(event));
//! }
//! assert_eq!(store.get(&key).unwrap()["data"]["sky"], "gray");
//! ```
//!
//! [`Ids`] and [`Time`] are the identifiers and points in time of everything that is simulated
//! beside the store, too.

mod command;
mod decide;
mod key;
mod kind;
mod object;
mod patch;
mod resources;
mod schema;
mod selector;
mod status;
mod store;
#[cfg(test)]
mod tests;
mod values;

pub use command::{
    Action, Command, Decision, Deletion, Effect, Event, FieldValidation, Op, PatchKind,
    Preconditions, Propagation, Reply, Subresource,
};
pub use decide::DeleteOptions;
pub use key::{GroupResource, Key};
pub use kind::custom::{Conversion, Custom, CustomVersion, Scale, compare_versions};
pub(crate) use kind::{Check, Strategy};
pub use kind::{MergeRule, ResourceDef, SelectableField};
pub use object::names::NameRule;
#[cfg(fuzzing)]
pub use patch::strategic_merge_patch_of;
pub use patch::{json_patch, merge_patch, strategic_merge_patch};
pub use schema::{GoKinds, OPENAPI, quantity_nanos};
pub use selector::{FieldSelector, LabelSelector, Selection};
pub use status::{Cause, Details, FieldErrors, Status};
pub use store::{Admission, Outage, Page, Paging, Quota, Snapshot, Store, WatchEvent, WatchType};
pub use values::ids::Ids;
pub use values::text::{duplicate_fields, go_json, json_problem, json_type, parse_uint, sorted};
pub use values::time::Time;

/// The examples of the README, which are tested with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
