//! Answers the controllers' questions about the machines of Nodes, through the trait [`Instances`].
//!
//! The vCenter backend and the Supervisor backend implement the trait, each also in a variant that
//! makes upstream's calls (`v1`). A backend changes neither Nodes nor machines.

mod addresses;
mod changed_nodes;
mod datacenters;
mod forgotten;
pub(crate) mod instance_type;
mod question_queue;
mod supervisor;
mod trouble;
mod vcenter;
mod zones;

use std::collections::BTreeSet;

use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::model::{Lookup, Metadata, NodeIdentity, NodeName, Unknown};

pub use addresses::{AddressError, Guest, Nic, Selection, select};
pub use datacenters::Datacenters;
pub use supervisor::{
    AddressPolicy, HostnameEntry, LateZone, NoneWanted, SupervisorInstances, SupervisorV1,
    Tuning as SupervisorTuning,
};
pub use trouble::{Trouble, TroubleKind};
pub(crate) use vcenter::Policy as VcenterPolicy;
pub use vcenter::{Tuning, VcenterInstances, VcenterV1};
pub use zones::{
    Ancestors, PathUp, Placement, TagNames, ZoneCategories, ZoneError, path_up, resolve,
};

/// Tells [`Instances::metadata`] whether the caller needs zone and region. In vCenter mode, a zone
/// that is not cached costs tagging calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneWanted {
    /// Needed: the node controller is about to initialize the node.
    Yes,
    /// Not needed: the node is initialized. In vCenter mode, the provider writes zone labels at
    /// initialization only.
    No,
}

/// Answers questions about the machines of nodes.
///
/// Except for the `v1` variants, a backend answers from a view that it keeps current itself, so
/// most questions cost no call. Except for the `v1` variant for a Supervisor, a backend answers
/// that a machine is gone only after a proof with reads of its own. `Unknown` is never a reason to
/// remove anything.
#[doc(alias = "InstancesV2")]
pub trait Instances: Send + Sync {
    /// Notes a node that the cluster shows, new or changed. In vCenter mode, also starts the lookup
    /// of the machine of a new node.
    fn observe(&self, node: &NodeIdentity);

    /// Drops a node that no longer exists.
    fn forget(&self, name: &NodeName);

    /// Returns the metadata for the node. After `Unknown(Pending)`, [`Instances::changed`] returns
    /// the node's name once the answer is known, unless the node is dropped before.
    #[doc(alias = "InstanceMetadata")]
    fn metadata(&self, node: &NodeIdentity, zone: ZoneWanted) -> Lookup<Metadata>;

    /// Answers whether the machine exists. `Gone` rests on a proof whose first read began at
    /// `proof_after` or later. Two exceptions: the vCenter backend may add an older read of the
    /// whole inventory to the proof, and the `v1` variant for a Supervisor believes one lookup, and
    /// takes a provider ID without a UUID for an absence.
    ///
    /// Cancel safe: the next question restarts an interrupted proof.
    #[doc(alias = "InstanceExists")]
    fn exists<'a>(
        &'a self,
        node: &'a NodeIdentity,
        proof_after: Instant,
    ) -> BoxFuture<'a, Lookup<()>>;

    /// Returns the reason why the controller must not delete this node, whose machine was proved
    /// gone, or `None`. The controller asks right before the deletion. By default the answer is
    /// `None` without a check. A backend whose proof is a list reads the machine by name, because a
    /// list can omit objects although it claims to be complete.
    fn recheck_absence<'a>(&'a self, _node: &'a NodeIdentity) -> BoxFuture<'a, Option<Unknown>> {
        Box::pin(std::future::ready(None))
    }

    /// Answers whether the machine is shut down. As in upstream, a suspended machine counts as shut
    /// down in vCenter mode and not in Supervisor mode.
    #[doc(alias = "InstanceShutdown")]
    fn shutdown(&self, node: &NodeIdentity) -> Lookup<bool>;

    /// Maximum number of concurrent calls of [`Instances::exists`]; unlimited by default. The
    /// caller limits the time of each call. With a backend that paces its requests, calls beyond
    /// the maximum would spend that time waiting.
    fn max_concurrent_exists(&self) -> usize {
        usize::MAX
    }

    /// Returns the number of nodes whose machines the backend found before and does not see now,
    /// for whatever reason. With many missing machines, an empty list of a Supervisor makes all
    /// nodes count. The `v1` variants return 0.
    fn n_missing(&self) -> usize;

    /// Returns the nodes that the backend cannot manage, as far as it can tell without a call; none
    /// by default.
    fn troubles(&self) -> Vec<Trouble> {
        Vec::new()
    }

    /// Waits until the answers about some nodes may have changed, and returns their names. Supports
    /// one caller.
    ///
    /// Cancel safe: the next call returns the names that a cancelled call did not return.
    fn changed(&self) -> BoxFuture<'_, BTreeSet<NodeName>>;
}
