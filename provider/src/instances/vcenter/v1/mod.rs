//! Upstream's way one call for one: no view, a search of every datacenter per question, for comparison and rollback.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`search`], [`datacenters`] | finds a machine (`pkg/common/connectionmanager/search.go`, `pkg/common/vclib/datacenter.go`) |
//! | [`zones`] | reads its zone (`pkg/cloudprovider/vsphere/zones.go`, `pkg/common/connectionmanager/zones.go`) |
//! | [`whole`] | what its whole properties say |
//! | [`answers`] | the order of all that (`pkg/cloudprovider/vsphere/{nodemanager,instances,instances_v2}.go`) |
//!
//! Calls are upstream's as long as all goes well. Where upstream crashes, takes an error for an absence or never recovers,
//! this does not; `docs/differences-from-upstream.md` has the list.

mod answers;
mod datacenters;
mod search;
mod whole;
mod zones;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
};

use futures::future::BoxFuture;
use provider_vcenter::{MoRef, Vcenter};
use tokio::time::Instant;

use super::{Policy, Tuning, census::Census, state::VcenterIndex};
use crate::{
    instances::{Instances, ZoneWanted, desk::Desk},
    model::{Lookup, MachineId, Metadata, NodeIdentity},
    tasks::Tasks,
};

/// The machines of one or more vCenters, asked for anew each time.
#[derive(Clone)]
pub struct VcenterV1 {
    shared: Arc<Shared>,
}

struct Shared {
    vcenters: Vec<Vcenter>,
    policy: Policy,
    tuning: Tuning,
    /// Upstream's `SKIP_NODE_DELETION`, which spares one call.
    skip_deletion: bool,
    state: Mutex<State>,
    desk: Desk,
}

#[derive(Default)]
struct State {
    /// Nodes that there are, by name, and their UIDs: another one of the same name is another node.
    seen: BTreeMap<String, String>,
    /// Nodes whose machines are to be found as soon as they appear, by name.
    registrations: BTreeMap<String, NodeIdentity>,
    /// Where machines of nodes were found last.
    known: BTreeMap<String, Known>,
    /// Nodes whose machines were found nowhere although nobody knows where they were, and since when.
    absent: BTreeMap<String, Instant>,
    /// The last census of each vCenter, for nodes of whose machines nobody knows where they were.
    censuses: BTreeMap<VcenterIndex, Census>,
    /// Whether the last visit of each vCenter went well.
    is_well: Vec<bool>,
}

/// Where the machine of a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    vcenter: VcenterIndex,
    machine: MoRef,
    uuid: MachineId,
}

impl VcenterV1 {
    /// A backend over these vCenters; nothing is called before [`VcenterV1::spawn`].
    pub(crate) fn new(
        vcenters: Vec<Vcenter>,
        policy: Policy,
        tuning: Tuning,
        skip_deletion: bool,
    ) -> Self {
        let state = State { is_well: vec![true; vcenters.len()], ..State::default() };
        let state = Mutex::new(state);
        let desk = Desk::default();
        Self { shared: Arc::new(Shared { vcenters, policy, tuning, skip_deletion, state, desk }) }
    }

    /// Starts the task that asks for the node controller.
    pub(crate) fn spawn(&self, tasks: &Tasks) {
        let shared = Arc::clone(&self.shared);
        let span = tracing::info_span!("vcenter", task = "v1");
        tasks.spawn_droppable(span, async move { shared.run().await });
    }

    /// Ends every login. Called after the tasks have stopped.
    pub(crate) async fn close(&self) {
        futures::future::join_all(self.shared.vcenters.iter().map(Vcenter::close)).await;
    }

    /// Tells [`VcenterV1::health`] as long as the backend lives.
    pub(crate) fn probe(&self) -> Box<dyn Fn() -> Vec<(String, bool)> + Send> {
        let shared = Arc::downgrade(&self.shared);
        Box::new(move || {
            shared.upgrade().map(|shared| Self { shared }.health()).unwrap_or_default()
        })
    }

    /// Whether the last visit of each vCenter went well, by name; one that was not visited yet counts.
    pub(crate) fn health(&self) -> Vec<(String, bool)> {
        let state = self.shared.lock();
        let names = self.shared.vcenters.iter().map(|client| client.name().to_owned());
        names.zip(state.is_well.iter().copied()).collect()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Registers new nodes, then answers questions, one after the other.
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
    /// A node that is seen for the first time is looked up, and only then.
    fn observe(&self, node: &NodeIdentity) {
        let is_new = self.shared.lock().note_seen(node);
        if is_new {
            self.shared.desk.wake();
        }
    }

    fn forget(&self, name: &str) {
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
        self.shared.desk.take_off(&node.name)
    }

    /// One node after the other, as the framework's loop does.
    fn n_at_once(&self) -> usize {
        1
    }

    fn n_missing(&self) -> usize {
        0
    }

    fn changed(&self) -> BoxFuture<'_, BTreeSet<String>> {
        Box::pin(self.shared.desk.changed())
    }
}
