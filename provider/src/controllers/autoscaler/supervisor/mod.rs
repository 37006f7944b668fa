//! Backend whose machines are VirtualMachine objects of one namespace of a Supervisor.
//!
//! The API server holds all state: a group's size is the number of its objects that are not being
//! deleted, so a restart loses nothing. One list and one watch keep a view of the objects, and
//! every answer comes from the view. A creation or deletion changes the view before it returns.

mod classes;
mod create;
mod delete;
mod follow;
mod leftovers;
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

pub(crate) use self::{
    create::{CreateError, Created},
    delete::DeleteError,
};
use self::{
    machine::{GROUP_LABEL, Machine},
    view::View,
};
use super::{
    group::{Capacity, Group, GroupId},
    instance::Instance,
    plan::{Cause, MachineChange, MachineEvent, Membership, NamedNode},
};
use crate::{
    cluster::{Cluster, Events, Subject, encode},
    model::Clock,
    supervisor::VmOperatorVersion,
    tasks::Tasks,
    telemetry::{AutoscalerMetrics, Telemetry},
};

/// Requests per second to the Supervisor after a burst. The autoscaler waits for each change, so
/// both are larger than client-go's.
const QPS: f64 = 50.0;
const BURST: u32 = 100;
/// Largest number of requests of one change at a time.
const AT_A_TIME: usize = 16;
/// Component of the events about machines.
const COMPONENT: &str = "cluster-autoscaler-provider";
/// Age of the view from which the backend no longer trusts it.
const MAX_AGE: Duration = Duration::from_secs(300);

/// The machines of one namespace, and the requests that change them.
#[derive(Clone)]
pub(crate) struct SupervisorMachines(Arc<Shared>);

/// The machine that a change is about.
#[derive(Clone, Copy)]
struct Changed<'a> {
    /// Name of the group.
    group: &'a str,
    name: &'a str,
    /// Empty if the object was never made.
    uid: &'a str,
}

impl<'a> From<&'a Machine> for Changed<'a> {
    fn from(machine: &'a Machine) -> Self {
        Self { group: &machine.group, name: &machine.name, uid: &machine.uid }
    }
}

struct Shared {
    cluster: Cluster,
    events: Events,
    metrics: Arc<AutoscalerMetrics>,
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
    /// Returns the backend, and the future that writes its events until the backend and its clones
    /// are dropped. Events have a rate limit of their own, so that they do not delay changes.
    pub(crate) fn new(
        client: kube::Client,
        namespace: &str,
        version: VmOperatorVersion,
        clock: Clock,
        seed: u64,
        telemetry: &Telemetry,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let cluster =
            |client| Cluster::new(client, QPS, BURST).with_counter(telemetry.supervisor_requests());
        let of_events = cluster(client.clone());
        let (events, sending) = Events::new(COMPONENT, of_events, clock.clone());
        let machines = Self(Arc::new(Shared {
            cluster: cluster(client),
            events,
            metrics: telemetry.autoscaler(),
            namespace: namespace.to_owned(),
            version,
            clock,
            seed,
            view: Mutex::default(),
            classes: Mutex::default(),
            n_drawn: AtomicU64::new(0),
            wake: tokio::sync::Notify::new(),
        }));
        (machines, sending)
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

    /// Counts a change of a machine, and records an event about it. Never waits and never fails: the
    /// change counts without the event, too.
    fn record(&self, of: Changed<'_>, change: &MachineChange, cause: &Cause) {
        let Changed { group, name, uid } = of;
        let Shared { version, namespace, events, metrics, .. } = &*self.0;
        let group = GroupId::of_virtual_machines(namespace, group);
        match change {
            MachineChange::Created => metrics.machine_created(group.as_str()),
            MachineChange::Deleted | MachineChange::Undone => {
                metrics.machine_deleted(group.as_str());
            }
            MachineChange::NotCreated(_) | MachineChange::NotDeleted(_) => {
                metrics.machine_failed(group.as_str());
            }
        }
        let subject = Subject::virtual_machine(version.as_str(), namespace, name, uid);
        let MachineEvent { severity, reason, message } = change.event(cause);
        events.record_about(subject, severity, reason, message);
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

    /// Returns the age of the view; `None` before the first list.
    pub(crate) fn view_age(&self) -> Option<Duration> {
        self.view().current_at.map(|at| at.elapsed())
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
