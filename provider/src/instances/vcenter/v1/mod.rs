//! vCenter backend that makes upstream's calls one for one, for comparison and rollback. It keeps
//! no view, and searches the configured datacenters for each question.
//!
//! | part | task |
//! | --- | --- |
//! | [`search`], [`datacenters`] | finds a machine (`pkg/common/connectionmanager/search.go`, `pkg/common/vclib/datacenter.go`) |
//! | [`zones`] | reads the zone of a machine (`pkg/cloudprovider/vsphere/zones.go`, `pkg/common/connectionmanager/zones.go`) |
//! | [`full_properties`] | converts the whole properties of a machine |
//! | [`troubles`] | reports nodes whose vCenter is replaced or not configured; upstream does not |
//! | [`answers`] | answers questions with these calls (`pkg/cloudprovider/vsphere/{nodemanager,instances,instances_v2}.go`) |
//!
//! As long as the calls succeed and find the machine, they are those of upstream. Where upstream
//! crashes, takes an error for an absence or never recovers, this backend does not.
//! `docs/differences-from-upstream.md` lists these differences.

mod answers;
mod datacenters;
mod full_properties;
mod search;
mod troubles;
mod zones;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
};

use futures::future::BoxFuture;
use provider_vcenter::{MoRef, Vcenter, VcenterName};
use tokio::time::Instant;

use super::{Policy, Tuning, index::PerVcenter, proof::census::Censuses, state::VcenterIndex};
use crate::{
    instances::{Instances, Trouble, ZoneWanted, question_queue::QuestionQueue},
    model::{Lookup, MachineId, Metadata, NodeIdentity, NodeName},
    tasks::Tasks,
};

/// Backend for one or more vCenters that looks up machines anew for each question.
#[derive(Clone)]
pub struct VcenterV1 {
    shared: Arc<Shared>,
}

struct Shared {
    vcenters: PerVcenter<Vcenter>,
    policy: Policy,
    tuning: Tuning,
    /// Value of upstream's `SKIP_NODE_DELETION`. If true, no machine counts as gone, which spares
    /// the read after an empty search.
    skip_deletion: bool,
    state: Mutex<State>,
    desk: QuestionQueue,
    /// Reads of whole inventories, for nodes without a known location and without a reference.
    censuses: Censuses,
}

#[derive(Default)]
struct State {
    /// Nodes that exist according to the cluster, by name.
    seen: BTreeMap<NodeName, NodeIdentity>,
    /// New nodes whose machines have not been looked up yet, by name.
    registrations: BTreeMap<NodeName, NodeIdentity>,
    /// Last known location of each node's machine.
    known: BTreeMap<NodeName, Location>,
    /// Time of the first empty search per node; only for nodes without a known location and without
    /// a reference, after a person has confirmed that the machine is gone.
    absent: BTreeMap<NodeName, Instant>,
    /// For each vCenter: true unless the last search that tried to connect to it failed to do so.
    is_well: PerVcenter<bool>,
    /// For each vCenter: true if the last search in it may have left out datacenters, and before
    /// the first search.
    is_narrowed: PerVcenter<bool>,
}

/// Location of a node's machine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Location {
    vcenter: VcenterIndex,
    machine: MoRef,
    uuid: MachineId,
}

impl VcenterV1 {
    /// Creates a backend for these vCenters. The backend makes no call by itself before
    /// [`VcenterV1::spawn`]. If `skip_deletion` is true, no machine counts as gone.
    pub(crate) fn new(
        vcenters: Vec<Vcenter>,
        policy: Policy,
        tuning: Tuning,
        skip_deletion: bool,
    ) -> Self {
        let n = vcenters.len();
        let all_true = || std::iter::repeat_n(true, n).collect();
        let state = State { is_well: all_true(), is_narrowed: all_true(), ..State::default() };
        let state = Mutex::new(state);
        let censuses = Censuses::new(n);
        let vcenters = vcenters.into_iter().collect();
        let desk = QuestionQueue::default();
        let shared = Shared { vcenters, policy, tuning, skip_deletion, state, desk, censuses };
        Self { shared: Arc::new(shared) }
    }

    /// Starts the task that answers the node controller's questions, and for each vCenter one task
    /// that reads its inventory for [`Censuses`].
    pub(crate) fn spawn(&self, tasks: &Tasks) {
        for index in self.shared.vcenters.indexes() {
            let shared = Arc::clone(&self.shared);
            let span = tracing::info_span!("vcenter", vcenter = %shared.vcenters[index].name(), task = "census");
            tasks.spawn_droppable(span, async move {
                shared.censuses.run(index, &shared.vcenters[index]).await;
            });
        }
        let shared = Arc::clone(&self.shared);
        let span = tracing::info_span!("vcenter", task = "v1");
        tasks.spawn_droppable(span, async move { shared.run().await });
    }

    /// Logs out of every vCenter. The caller has stopped the tasks before.
    pub(crate) async fn close(&self) {
        futures::future::join_all(self.shared.vcenters.iter().map(Vcenter::close)).await;
    }

    /// Returns a function that returns [`VcenterV1::health`], or an empty list once the backend is
    /// dropped.
    pub(crate) fn probe(&self) -> Box<dyn Fn() -> Vec<(VcenterName, bool)> + Send> {
        let shared = Arc::downgrade(&self.shared);
        Box::new(move || {
            shared.upgrade().map(|shared| Self { shared }.health()).unwrap_or_default()
        })
    }

    /// Returns the name and the health of each vCenter. A vCenter is unhealthy if the last search
    /// that tried to connect to it failed to do so, or if the last login led to another vCenter
    /// than the first login.
    pub(crate) fn health(&self) -> Vec<(VcenterName, bool)> {
        let state = self.shared.lock();
        let vcenters = self.shared.vcenters.iter().zip(&state.is_well);
        let health = vcenters.map(|(client, is_well)| {
            (client.name().clone(), *is_well && client.other_instance().is_none())
        });
        health.collect()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Looks up the machines of new nodes first, then answers questions, one after the other. Never
    /// ends.
    async fn run(&self) {
        loop {
            self.desk.wait().await;
            loop {
                let new = self.lock().registrations.pop_first();
                if let Some((_, node)) = new {
                    self.register(&node).await;
                    continue;
                }
                let Some((node, wanted)) = self.desk.next() else { break };
                let answer = match self.metadata(&node, wanted).await {
                    Ok(metadata) => Lookup::Found(metadata),
                    Err(why) => Lookup::Unknown(why),
                };
                self.desk.answer(node.name, wanted, answer).await;
            }
        }
    }
}

impl Instances for VcenterV1 {
    /// Queues a lookup of the machine only if the node is new.
    fn observe(&self, node: &NodeIdentity) {
        let is_new = self.shared.lock().note_seen(node);
        if is_new {
            self.shared.desk.wake();
        }
    }

    fn forget(&self, name: &NodeName) {
        self.shared.lock().forget(name);
        self.shared.desk.forget(name);
    }

    fn metadata(&self, node: &NodeIdentity, zone: ZoneWanted) -> Lookup<Metadata> {
        self.shared.desk.ask(node, zone)
    }

    fn exists<'a>(
        &'a self,
        node: &'a NodeIdentity,
        _proof_after: Instant,
    ) -> BoxFuture<'a, Lookup<()>> {
        Box::pin(self.shared.exists(node))
    }

    fn shutdown(&self, node: &NodeIdentity) -> Lookup<bool> {
        self.shared.desk.take_power(&node.name)
    }

    /// One question about existence at a time, as in the loop of upstream's framework.
    fn max_concurrent_exists(&self) -> usize {
        1
    }

    fn n_missing(&self) -> usize {
        0
    }

    fn troubles(&self) -> Vec<Trouble> {
        self.shared.troubles()
    }

    fn changed(&self) -> BoxFuture<'_, BTreeSet<NodeName>> {
        Box::pin(self.shared.desk.changed())
    }
}
