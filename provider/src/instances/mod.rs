//! Answers about the machines behind Nodes. One backend exists per place to ask; no backend deletes anything.

mod addresses;
mod datacenters;
mod desk;
mod forgotten;
mod instance_type;
mod news;
mod supervisor;
mod trouble;
mod vcenter;
mod zones;

use std::collections::BTreeSet;

use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::model::{Lookup, Metadata, NodeIdentity, Unknown};

pub use addresses::{AddressError, Family, Guest, Nic, Selection, select};
pub use datacenters::Datacenters;
pub(crate) use supervisor::NEVER_MATCHED;
pub use supervisor::{
    AddressPolicy, HostnameEntry, LateZone, NoneWanted, SupervisorInstances, SupervisorV1,
    Tuning as SupervisorTuning, ViewState,
};
pub use trouble::{Trouble, TroubleKind};
pub(crate) use vcenter::Policy as VcenterPolicy;
pub use vcenter::{Tuning, VcenterInstances, VcenterV1};
pub use zones::{
    Ancestors, PathUp, Placement, TagNames, ZoneCategories, ZoneError, path_up, resolve,
};

/// Need of a caller for zone and region; the answer costs tagging calls when it is not cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneWanted {
    /// The node controller is about to initialize the node.
    Yes,
    /// The caller has no use for a zone, because labels are written at initialization only.
    No,
}

/// Answers about the machines behind nodes.
///
/// Reads come from a view that the backend keeps current by itself, so they cost no call. Only the proof that a machine
/// is gone reads anew. `Unknown` is never a reason to remove anything.
#[doc(alias = "InstancesV2")]
pub trait Instances: Send + Sync {
    /// Notes a node, so that its machine is looked up together with those of other new nodes.
    fn observe(&self, node: &NodeIdentity);

    /// Notes that a node no longer exists.
    fn forget(&self, name: &str);

    /// Metadata for the node. After `Unknown(Pending)`, [`Instances::changed`] returns the node's name once the answer
    /// is known.
    #[doc(alias = "InstanceMetadata")]
    fn metadata(&self, node: &NodeIdentity, zone: ZoneWanted) -> Lookup<Metadata>;

    /// Answers whether the machine exists. `Gone` needs a proof read after `proof_after`.
    ///
    /// Cancel safe: the next question restarts an interrupted proof.
    #[doc(alias = "InstanceExists")]
    fn exists<'a>(
        &'a self,
        node: &'a NodeIdentity,
        proof_after: Instant,
    ) -> BoxFuture<'a, Lookup<()>>;

    /// Reads once more before the deletion of a node whose machine was just proved gone. Returns why the proof is not
    /// valid, or `None`. For backends whose proof is a list, which can omit objects although it claims to be complete.
    fn objection<'a>(&'a self, _node: &'a NodeIdentity) -> BoxFuture<'a, Option<Unknown>> {
        Box::pin(std::future::ready(None))
    }

    /// True if the machine is not powered on. As in upstream, a suspended machine counts as shut down in vCenter mode
    /// and not in Supervisor mode.
    #[doc(alias = "InstanceShutdown")]
    fn shutdown(&self, node: &NodeIdentity) -> Lookup<bool>;

    /// Maximum number of concurrent questions about existence; unlimited by default. Each question has its own time
    /// limit. With a backend that paces its calls, later questions would spend that limit waiting.
    fn n_at_once(&self) -> usize {
        usize::MAX
    }

    /// Number of machines of known nodes that are not visible now, for whatever reason.
    fn n_missing(&self) -> usize;

    /// Nodes that the backend cannot manage, as far as it knows without a call.
    fn troubles(&self) -> Vec<Trouble> {
        Vec::new()
    }

    /// Waits for news and returns the names of the nodes concerned. Supports one caller.
    ///
    /// Cancel safe: the next call returns the names that this one did not.
    fn changed(&self) -> BoxFuture<'_, BTreeSet<String>>;
}
