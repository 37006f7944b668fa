//! What machines there are, and what they say. One backend per place to ask; none of them deletes anything.

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

/// Whether a caller needs zone and region; asking costs tagging calls when they are not cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneWanted {
    /// The node is about to be initialized.
    Yes,
    /// Labels are written at initialization only; nobody would use the answer.
    No,
}

/// Answers about the machines behind nodes.
///
/// Reads come from a view that the backend keeps current by itself, so they cost no call. Only proving that a
/// machine is gone asks anew. `Unknown` is never a reason to take anything away.
#[doc(alias = "InstancesV2")]
pub trait Instances: Send + Sync {
    /// Takes note of a node, so that its machine is looked up together with the others that are new.
    fn observe(&self, node: &NodeIdentity);

    /// Takes note that a node no longer exists.
    fn forget(&self, name: &str);

    /// What the node is to be told. `Unknown(Pending)` promises a later word through [`Instances::changed`].
    #[doc(alias = "InstanceMetadata")]
    fn metadata(&self, node: &NodeIdentity, zone: ZoneWanted) -> Lookup<Metadata>;

    /// Whether the machine exists. `Gone` needs a proof read after `proof_after`.
    ///
    /// Cancel safe: a proof cut short is begun again by the next question.
    #[doc(alias = "InstanceExists")]
    fn exists<'a>(
        &'a self,
        node: &'a NodeIdentity,
        proof_after: Instant,
    ) -> BoxFuture<'a, Lookup<()>>;

    /// One last look before the node is deleted whose machine was just proved gone: why the proof is not to be believed, or
    /// `None`. For backends whose proof is a list, which can leave out what it claims to hold whole.
    fn objection<'a>(&'a self, _node: &'a NodeIdentity) -> BoxFuture<'a, Option<Unknown>> {
        Box::pin(std::future::ready(None))
    }

    /// Whether the machine is not powered on. Suspended counts as shut down in vCenter mode and not in Supervisor mode, as
    /// upstream has it.
    #[doc(alias = "InstanceShutdown")]
    fn shutdown(&self, node: &NodeIdentity) -> Lookup<bool>;

    /// How many questions about existence may be asked at once. Each has a time limit of its own, and where an answer
    /// costs calls that are paced, those asked later would spend theirs waiting.
    fn n_at_once(&self) -> usize {
        usize::MAX
    }

    /// How many machines of known nodes are not to be seen at present, for whatever reason.
    fn n_missing(&self) -> usize;

    /// Nodes that cannot be looked after, as far as that is known without a call.
    fn troubles(&self) -> Vec<Trouble> {
        Vec::new()
    }

    /// Waits for news and returns the names of the nodes concerned. For one caller.
    ///
    /// Cancel safe: names not returned are returned next time.
    fn changed(&self) -> BoxFuture<'_, BTreeSet<String>>;
}
