//! Backend whose machines are VirtualMachine objects of one namespace of a Supervisor.
//!
//! The API server holds all state: a group's size is the number of its objects that are not being
//! deleted, so a restart loses nothing. One list and one watch keep a view of the objects, and
//! every answer comes from the view. A creation or deletion changes the view before it returns.

mod changes;
mod classes;
mod follow;
mod machine;
#[cfg(test)]
mod tests;
mod view;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, atomic::AtomicU64},
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::changes::{CreateError, Created, DeleteError};
use self::{machine::GROUP_LABEL, view::View};
use super::{
    group::{Capacity, Group},
    instance::Instance,
    plan::{Membership, NamedNode},
};
use crate::{
    cluster::{Cluster, encode},
    model::Clock,
    supervisor::VmOperatorVersion,
    tasks::Tasks,
};

/// Requests per second to the Supervisor after a burst. The autoscaler waits for each change, so
/// both are larger than client-go's.
const QPS: f64 = 50.0;
const BURST: u32 = 100;
/// Age of the view from which the backend no longer trusts it.
const MAX_AGE: Duration = Duration::from_secs(300);

/// The machines of one namespace, and the requests that change them.
#[derive(Clone)]
pub(crate) struct SupervisorMachines(Arc<Shared>);

struct Shared {
    cluster: Cluster,
    namespace: String,
    version: VmOperatorVersion,
    clock: Clock,
    seed: u64,
    view: Mutex<View>,
    /// Resources of the machines of each class that a group uses.
    classes: Mutex<BTreeMap<String, Result<Capacity, String>>>,
    /// Number of names that were drawn.
    n_drawn: AtomicU64,
    wake: tokio::sync::Notify,
}

impl SupervisorMachines {
    pub(crate) fn new(
        client: kube::Client,
        namespace: &str,
        version: VmOperatorVersion,
        clock: Clock,
        seed: u64,
    ) -> Self {
        Self(Arc::new(Shared {
            cluster: Cluster::new(client, QPS, BURST),
            namespace: namespace.to_owned(),
            version,
            clock,
            seed,
            view: Mutex::default(),
            classes: Mutex::default(),
            n_drawn: AtomicU64::new(0),
            wake: tokio::sync::Notify::new(),
        }))
    }

    /// Spawns the tasks that keep the view, delete what is left of failed increases, and start
    /// replacements.
    pub(crate) fn spawn(&self, tasks: &Tasks) {
        let (follower, sweeper) = (self.clone(), self.clone());
        tasks.spawn_droppable(tracing::info_span!("machines"), async move {
            follow::follow(&follower.0).await;
        });
        let stop = tasks.stopping();
        tasks.spawn_droppable(tracing::info_span!("leftovers"), async move {
            sweeper.sweep(&stop).await;
        });
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.0.view.lock().expect("no holder panics")
    }

    fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Tells the backend which groups exist: it reads their classes, and counts machines of others
    /// only for the groups that adopt them.
    pub(crate) async fn use_groups(&self, groups: &[Arc<Group>]) {
        let adopting = groups.iter().filter(|it| it.adopt).map(|it| it.name.clone()).collect();
        self.view().adopting = adopting;
        classes::read(&self.0, groups).await;
    }

    /// Says why the view cannot be used; `Ok` if it can.
    pub(crate) fn usable(&self) -> Result<(), String> {
        let current_at = self.view().current_at;
        match current_at {
            None => Err("the VirtualMachines have not been listed yet".to_owned()),
            Some(at) if at.elapsed() > MAX_AGE => {
                Err(format!("the view of VirtualMachines is {} s old", at.elapsed().as_secs()))
            }
            Some(_) => Ok(()),
        }
    }

    /// True once the machines were listed.
    pub(crate) fn is_loaded(&self) -> bool {
        self.view().current_at.is_some()
    }

    /// Returns the instances of a group, oldest first.
    pub(crate) fn instances(&self, group: &Group) -> Vec<Instance> {
        let now = self.now();
        self.view().instances(&group.name, now)
    }

    /// Says whether a node is an instance of the group.
    pub(crate) fn membership(&self, group: &Group, node: &NamedNode) -> Membership {
        let now = self.now();
        self.view().membership(&group.name, node, now)
    }

    /// Returns the name of the group of a node; `None` if the node is no machine of a group.
    pub(crate) fn group_of(&self, id: &str, name: &str) -> Option<String> {
        self.view().find(id, name).map(|it| it.group.clone())
    }

    /// Returns the resources of a machine of the group.
    ///
    /// # Errors
    ///
    /// If the class of the group does not exist or has no hardware, or was not read yet.
    pub(crate) fn capacity(&self, group: &Group) -> Result<Capacity, String> {
        let classes = self.0.classes.lock().expect("no holder panics");
        let class = &group.machine.class_name;
        classes
            .get(class)
            .cloned()
            .unwrap_or_else(|| Err(format!("class {class} was not read yet")))
    }
}

impl Shared {
    fn machines_path(&self) -> String {
        let Self { version, namespace, .. } = self;
        format!("/apis/vmoperator.vmware.com/{version}/namespaces/{namespace}/virtualmachines")
    }

    fn selector(&self) -> String {
        format!("labelSelector={}", encode(GROUP_LABEL))
    }

    fn mark_current(&self, version: &str) {
        let mut view = self.view.lock().expect("no holder panics");
        view.current_at = Some(Instant::now());
        version.clone_into(&mut view.seen_at);
    }
}

/// Waits for `time`, for a signal or for the stop, whatever is first.
async fn pause(time: Duration, signal: &tokio::sync::Notify, stop: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(time) => {}
        () = signal.notified() => {}
        () = stop.cancelled() => {}
    }
}
