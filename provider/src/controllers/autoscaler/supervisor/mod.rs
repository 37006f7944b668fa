//! Backend whose machines are VirtualMachine objects of one namespace of a Supervisor.
//!
//! The API server holds all state: a group's size is the number of its objects that are not being
//! deleted, so a restart loses nothing. One list and one watch keep a view of the objects, and
//! every answer comes from the view. A creation or deletion changes the view before it returns.

mod backend;
mod bootstrap;
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

use self::{
    bootstrap::Bootstrap,
    create::{CreateError, Created},
    delete::DeleteError,
    machine::Machine,
    view::View,
};
use super::{
    group::{Capacity, GROUP_LABEL, GroupId},
    plan::{COMPONENT, Cause, MachineChange, MachineEvent},
    replacements::Replacements,
    tokens::BootstrapTokens,
};
use crate::{
    SupervisorLink,
    cluster::{Cluster, Events, Subject, encode},
    model::Clock,
    supervisor::VmOperatorVersion,
    telemetry::{AutoscalerMetrics, Telemetry},
};

/// Requests per second to the Supervisor after a burst. The autoscaler waits for each change, so
/// both are larger than client-go's.
const QPS: f64 = 50.0;
const BURST: u32 = 100;
/// Largest number of requests of one change at a time.
const AT_A_TIME: usize = 16;

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
    replacements: Replacements,
    /// Bootstrap tokens; `None` if the server knows no workload cluster.
    bootstrap: Option<Bootstrap>,
    wake: tokio::sync::Notify,
}

impl SupervisorMachines {
    /// Returns the backend, and the future that writes its events until the backend and its clones
    /// are dropped. Events have a rate limit of their own, so that they do not delay changes.
    pub(crate) fn new(
        link: SupervisorLink,
        version: VmOperatorVersion,
        tokens: Option<BootstrapTokens>,
        clock: Clock,
        seed: u64,
        telemetry: &Telemetry,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let cluster =
            |client| Cluster::new(client, QPS, BURST).with_counter(telemetry.supervisor_requests());
        let SupervisorLink { client, namespace } = link;
        let of_events = cluster(client.clone());
        let (events, sending) = Events::new(COMPONENT, of_events, clock.clone());
        let cluster = cluster(client);
        let bootstrap = tokens.map(|it| {
            let of = (namespace.as_str(), version.as_str());
            Bootstrap::new(it, cluster.clone(), of, (clock.clone(), seed), telemetry)
        });
        let machines = Self(Arc::new(Shared {
            cluster,
            events,
            metrics: telemetry.autoscaler(),
            namespace,
            version,
            clock,
            seed,
            view: Mutex::default(),
            classes: Mutex::default(),
            n_drawn: AtomicU64::new(0),
            replacements: Replacements::default(),
            bootstrap,
            wake: tokio::sync::Notify::new(),
        }));
        (machines, sending)
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
