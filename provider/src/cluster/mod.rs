//! Access to a Kubernetes API server: requests with deadlines, lists and watches, events, and the
//! leader lease.
//!
//! Requests go through [`kube::Client`] for its transport and authentication only. Retries,
//! deadlines and pacing are implemented here, so that a client made from a bare service and one
//! made from a kubeconfig behave alike.

mod bucket;
mod client;
mod discovery;
mod events;
mod lease;
mod list_watch;
mod nodes;
mod pauses;
mod spam;
mod stream;
mod watch;

pub(crate) use bucket::TokenBucket;
#[cfg(test)]
pub(crate) use client::ErrorDetails;
pub(crate) use client::{Cluster, ClusterError, PatchKind};
pub(crate) use discovery::served_version;
pub(crate) use events::{Events, Severity, Subject, send_event};
pub(crate) use lease::{Moment, WritePermission};
pub(crate) use list_watch::{Collection, ObjectChange, ObjectView, follow, without_managed_fields};
pub(crate) use nodes::NodeStore;
pub(crate) use pauses::Pauses;
pub(crate) use stream::{WatchEvents, WatchItem, encode};
pub(crate) use watch::{NodeChange, is_earlier, watch_nodes};
