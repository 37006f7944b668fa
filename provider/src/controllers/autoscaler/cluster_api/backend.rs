//! Cluster API as a backend of the server.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;
use tonic::Status;

use super::{
    super::{
        backend::Backend,
        group::{Capacity, Group, GroupId, Shape},
        instance::Instance,
        plan::{Cause, Deletion, Giving, Members, Membership, NamedNode},
    },
    ClusterApiMachines, Shared,
    change::{ChangeError, Lowering, sweep},
    keys::Resource,
    view::{Snapshot, keep},
};
use crate::tasks::Tasks;

/// Pause after the groups were set, so that a burst of changes is one.
const PAUSE: Duration = Duration::from_millis(200);

#[tonic::async_trait]
impl Backend for ClusterApiMachines {
    /// Spawns the tasks that keep the view, set the groups, and sweep.
    fn spawn(&self, tasks: &Tasks) {
        let (shared, more) = (Arc::clone(&self.0), tasks.clone());
        tasks.spawn_droppable(tracing::info_span!("groups"), async move {
            publish(&shared, &more).await;
        });
        let (shared, stop) = (Arc::clone(&self.0), tasks.stopping());
        tasks.spawn_droppable(tracing::info_span!("sweep"), async move {
            sweep(&shared, &stop).await;
        });
    }

    async fn use_groups(&self, _: &[Arc<Group>]) {}

    fn usable(&self) -> Result<(), String> {
        let snapshot = self.0.snapshot();
        self.0.view().usable(&snapshot)
    }

    fn view_age(&self) -> Option<Duration> {
        self.0.snapshot();
        self.0.view().age()
    }

    fn members(&self, group: &Group) -> Members {
        let snapshot = self.0.snapshot();
        let Some(state) = snapshot.states.get(&group.id) else { return Members::default() };
        let instances: Vec<Instance> = state.members.iter().map(|it| it.instance.clone()).collect();
        Members { instances, target: state.replicas as usize }
    }

    fn membership(&self, group: &Group, node: &NamedNode) -> Membership {
        match self.0.snapshot().find(&node.id, &node.name) {
            Some(it) if it.group == group.id => Membership::Here(Box::new(it.instance.clone())),
            Some(it) => Membership::Elsewhere(it.group.to_string()),
            None if self.0.view().had(&node.id) => Membership::Deleted,
            None => Membership::Unknown,
        }
    }

    fn group_of(&self, id: &str, name: &str) -> Option<GroupId> {
        self.0.snapshot().find(id, name).map(|it| it.group.clone())
    }

    fn capacity(&self, group: &Group) -> Result<Capacity, String> {
        match &group.shape {
            Shape::ClusterApi { capacity } => capacity.clone(),
            Shape::VirtualMachine(_) | Shape::Clone(_) => {
                Err("the group has no object of Cluster API".to_owned())
            }
        }
    }

    async fn increase(
        &self,
        group: &Group,
        causes: Vec<Cause>,
        budget: Duration,
    ) -> Result<(), Status> {
        self.raise(group, &causes, budget).await.map_err(|err| err.status())
    }

    async fn delete(
        &self,
        group: &Group,
        deletion: Deletion,
        budget: Duration,
    ) -> Result<(), Status> {
        let Deletion { victims, replacements } = deletion;
        // The failed ones are the last of the list.
        let (usual, replaced) = victims.split_at(victims.len().saturating_sub(replacements.len()));
        let change = Lowering {
            victims: usual,
            n_without_machine: 0,
            cause: None,
            only_pending: false,
            floor: group.min,
        };
        let ends_at = Instant::now() + budget;
        self.lower(group, change, budget).await.map_err(|err| err.status())?;
        let replaced = self.0.replace(group, replaced);
        let in_time = tokio::time::timeout_at(ends_at, replaced).await;
        in_time.unwrap_or(Err(ChangeError::Late { budget })).map_err(|err| err.status())
    }

    async fn decrease(
        &self,
        group: &Group,
        giving: Giving,
        budget: Duration,
    ) -> Result<(), Status> {
        let Giving { n_without_instance, victims } = giving;
        let delta = i32::try_from(n_without_instance + victims.len()).unwrap_or(i32::MAX);
        let change = Lowering {
            victims: &victims,
            n_without_machine: u32::try_from(n_without_instance).unwrap_or(u32::MAX),
            cause: Some(Cause::decrease(group, -delta)),
            only_pending: true,
            floor: 0,
        };
        self.lower(group, change, budget).await.map_err(|err| err.status())
    }
}

/// Sets the groups whenever they change, and starts to read the kinds that they name, forever.
async fn publish(shared: &Arc<Shared>, tasks: &Tasks) {
    let mut followed: BTreeSet<Resource> = BTreeSet::new();
    let mut said = BTreeMap::new();
    let mut is_first = true;
    let mut due = BTreeSet::new();
    let mut has_said_empty = false;
    loop {
        let snapshot = shared.snapshot();
        for kind in Resource::of_cluster_api().into_iter().chain(snapshot.kinds.clone()) {
            if followed.insert(kind.clone()) {
                let shared = Arc::clone(shared);
                let span = tracing::info_span!("objects", %kind);
                tasks.spawn_droppable(span, async move { keep(&shared, kind).await });
            }
        }
        if shared.view().age().is_some() {
            said = say(&snapshot, said);
            if snapshot.has_no_group() && !std::mem::replace(&mut has_said_empty, true) {
                tracing::warn!(namespace = ?shared.settings.namespace, cluster = ?shared.settings.cluster_name, "found no group, that is no MachineDeployment or MachineSet with a maximum size; set the annotation cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size, or correct --cluster-name and --namespace");
            }
            shared.groups.set(snapshot.listed.clone(), snapshot.wrong.len());
            if std::mem::take(&mut is_first) {
                // An earlier process may have left something behind.
                shared.wake.notify_one();
            }
            let states = snapshot.states.values();
            let now_due = states.flat_map(|it| shared.due(it)).map(|it| it.machine.uid.clone());
            let now_due: BTreeSet<String> = now_due.collect();
            if !now_due.is_subset(&due) {
                shared.wake.notify_one();
            }
            due = now_due;
        }
        tokio::time::sleep(PAUSE).await;
        shared.changed.notified().await;
    }
}

/// Logs what is wrong with the groups, each text once. Returns the texts.
fn say(snapshot: &Snapshot, said: BTreeMap<GroupId, String>) -> BTreeMap<GroupId, String> {
    let mut texts: BTreeMap<GroupId, String> =
        snapshot.notes.iter().map(|(id, notes)| (id.clone(), notes.join("; "))).collect();
    texts.retain(|_, text| !text.is_empty());
    for (id, why) in texts.iter().filter(|(id, text)| said.get(*id) != Some(*text)) {
        tracing::warn!(group = %id, "the group lacks a part: {why}");
    }
    for (id, why) in &snapshot.wrong {
        if said.get(id) != Some(why) {
            tracing::error!(group = %id, "ignoring a group: {why}");
        }
    }
    for (id, why) in &snapshot.cannot_grow {
        if said.get(id) != Some(why) {
            tracing::info!(group = %id, "not listing a group that has no machine and cannot grow from zero: {why}");
        }
    }
    texts.extend(snapshot.wrong.clone());
    texts.extend(snapshot.cannot_grow.clone());
    texts
}
