//! Backend whose groups are MachineDeployments, and MachineSets without one, of a management cluster
//! of Cluster API.
//!
//! The API server holds all state: a group's size is `spec.replicas`. Lists and watches keep a view
//! of the objects, and every answer comes from the view. A change takes effect in the view before it
//! returns.
//!
//! | part | task |
//! | --- | --- |
//! | [`keys`], [`settings`] | names of resources and annotations; flags |
//! | [`objects`] | reads groups, Machines and the ledger of deletions; pure |
//! | [`view`] | the known objects, and the groups and instances that follow from them; lists and watches |
//! | [`change`] | raises and lowers sizes; marks of Machines; what a crash leaves behind |
//! | [`backend`] | connects the parts to the server |

mod backend;
mod change;
mod keys;
mod objects;
mod settings;
mod view;

use std::sync::{Arc, Mutex, MutexGuard, atomic::AtomicU64};

use self::{
    keys::{MACHINES, Resource},
    objects::Machine,
    view::{GroupState, Snapshot, View},
};
use super::{groups::Groups, plan::COMPONENT, replacements::Replacements};
use crate::{
    cluster::{Cluster, Events},
    model::Clock,
    telemetry::{AutoscalerMetrics, Telemetry},
};

pub use settings::{ClusterApiSettings, KubeletReservation};

/// Requests per second to the API server after a burst, as for the other backends.
const QPS: f64 = 50.0;
const BURST: u32 = 100;
/// The same for changes: a request may name hundreds of nodes, and each costs a request.
const CHANGE_QPS: f64 = 100.0;
const CHANGE_BURST: u32 = 300;
/// Largest number of requests of one change at a time.
const AT_A_TIME: usize = 16;

/// The groups of one cluster, and the requests that change them.
#[derive(Clone)]
pub(crate) struct ClusterApiMachines(Arc<Shared>);

struct Shared {
    /// Client for lists and watches.
    cluster: Cluster,
    /// Client for changes. The content of a write depends on objects that may change during a pause,
    /// so it sends nothing again.
    changes: Cluster,
    events: Events,
    metrics: Arc<AutoscalerMetrics>,
    groups: Arc<Groups>,
    settings: ClusterApiSettings,
    clock: Clock,
    seed: u64,
    view: Mutex<View>,
    /// Number of tokens that were drawn.
    n_tokens: AtomicU64,
    replacements: Replacements,
    /// Signal that the view has changed.
    changed: tokio::sync::Notify,
    /// Signal that there is something to sweep.
    wake: tokio::sync::Notify,
}

impl ClusterApiMachines {
    /// Returns the backend, which sets the groups, and the future that writes its events until the
    /// backend and its clones are dropped.
    pub(crate) fn new(
        client: kube::Client,
        settings: ClusterApiSettings,
        groups: Arc<Groups>,
        clock: Clock,
        seed: u64,
        telemetry: &Telemetry,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let cluster = |qps, burst| {
            let cluster = Cluster::new(client.clone(), qps, burst);
            cluster.with_counter(telemetry.supervisor_requests())
        };
        let (events, sending) = Events::new(COMPONENT, cluster(QPS, BURST), clock.clone());
        let machines = Self(Arc::new(Shared {
            changes: cluster(CHANGE_QPS, CHANGE_BURST).without_retries(),
            cluster: cluster(QPS, BURST),
            events,
            metrics: telemetry.autoscaler(),
            groups,
            settings,
            clock,
            seed,
            view: Mutex::default(),
            n_tokens: AtomicU64::new(0),
            replacements: Replacements::default(),
            changed: tokio::sync::Notify::new(),
            wake: tokio::sync::Notify::new(),
        }));
        (machines, sending)
    }
}

impl Shared {
    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().expect("no holder panics")
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.view().snapshot(&self.settings)
    }

    /// Returns the path of the object of a group.
    fn group_path(&self, group: &GroupState) -> String {
        self.path(&group.kind.resource(), &group.namespace, &group.name)
    }

    fn machine_path(&self, machine: &Machine) -> String {
        self.path(&MACHINES.into(), &machine.namespace, &machine.name)
    }

    fn path(&self, resource: &Resource, namespace: &str, name: &str) -> String {
        let version = self.view().version(resource);
        format!("{}/{name}", resource.collection(&version, Some(namespace)))
    }

    /// Returns a text that no other change has.
    fn token(&self) -> String {
        let n = self.n_tokens.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        format!("{}/{:x}/{n}", self.clock.now(), self.seed)
    }
}
