//! Metrics and health of one run of the provider. No globals: two runs share no metrics.
//!
//! Labels name, for example, vCenters, operations, codes and queues, and never nodes or machines,
//! so that the number of label values does not grow with the cluster. Where the Kubernetes
//! framework or upstream has a metric with the same meaning, ours has the name of that metric.

mod autoscaler;
mod queue;
mod requests;
mod supervisor;
mod tenure;
mod text;
mod vcenter;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use provider_vcenter::{Call, CallObserver, UpdateSet, VcenterName};
use tokio::time::Instant;

use self::tenure::ElectionHealth;

pub(crate) use autoscaler::{
    AutoscalerMetrics, AutoscalerReading, FileRead, GroupReading, HEALTH_SERVICE,
    REFLECTION_SERVICE,
};
pub(crate) use queue::QueueMetrics;
pub(crate) use requests::RequestCounter;
pub(crate) use supervisor::{ListReason, SupervisorMetrics, SupervisorReading};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NameLabel {
    name: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

/// Returns a number as the value of a gauge.
fn gauge_value(n: impl TryInto<i64>) -> i64 {
    n.try_into().unwrap_or(i64::MAX)
}

/// Kind of a Node change, as the node watch reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeNews {
    Applied,
    Deleted,
}

/// Metrics and health, shared by all parts of a run.
pub struct Telemetry {
    registry: Registry,
    controllers: Family<NameLabel, Gauge<i64, AtomicI64>>,
    leader: Family<NameLabel, Gauge<i64, AtomicI64>>,
    views: Family<NameLabel, Gauge<i64, AtomicI64>>,
    held: Gauge<i64, AtomicI64>,
    troubled: Family<KindLabel, Gauge<i64, AtomicI64>>,
    holds: Counter<u64, AtomicU64>,
    vcenter_metrics: vcenter::VcenterFamilies,
    supervisor_metrics: Arc<SupervisorMetrics>,
    autoscaler_metrics: Arc<AutoscalerMetrics>,
    /// True in `provider autoscaler`, which has no controllers.
    serves_only_autoscaler: bool,
    node_news: Family<KindLabel, Counter<u64, AtomicU64>>,
    queues: queue::QueueFamilies,
    requests: requests::RequestFamily,
    initialized: Counter<u64, AtomicU64>,
    deleted: Counter<u64, AtomicU64>,
    failed: Counter<u64, AtomicU64>,
    checks: Mutex<BTreeMap<String, Result<(), String>>>,
    machines: Mutex<Result<(), String>>,
    settled: AtomicBool,
    tenure: Mutex<Option<ElectionHealth>>,
    probe: Mutex<Option<Probe>>,
    supervisor: Mutex<Option<SupervisorProbe>>,
}

/// Function that returns the name of each vCenter, with true if the vCenter is healthy. In mode
/// `v1` the v1 backend decides that, in the other modes
/// [`VcenterInstances::health`](crate::VcenterInstances::health).
type Probe = Box<dyn Fn() -> Vec<(VcenterName, bool)> + Send>;

/// Function that returns the state of the view of the Supervisor.
type SupervisorProbe = Box<dyn Fn() -> SupervisorReading + Send>;

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry").field("checks", &self.checks()).finish_non_exhaustive()
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        let mut registry = Registry::default();
        let telemetry = Self::without_registry();
        telemetry.register(&mut registry);
        Self { registry, ..telemetry }
    }
}

impl Telemetry {
    /// Metrics and health of `provider autoscaler`.
    pub fn of_autoscaler() -> Self {
        let mut registry = Registry::default();
        let telemetry = Self::without_registry();
        telemetry.autoscaler_metrics.register(&mut registry);
        telemetry.requests.register(&mut registry);
        Self { registry, serves_only_autoscaler: true, ..telemetry }
    }

    /// Metrics and health of a provider that also serves Cluster Autoscalers.
    pub fn with_autoscaler() -> Self {
        let mut telemetry = Self::default();
        telemetry.autoscaler_metrics.register(&mut telemetry.registry);
        telemetry
    }

    fn without_registry() -> Self {
        Self {
            serves_only_autoscaler: false,
            controllers: Family::default(),
            leader: Family::default(),
            views: Family::default(),
            held: Gauge::default(),
            troubled: Family::default(),
            holds: Counter::default(),
            vcenter_metrics: vcenter::VcenterFamilies::default(),
            supervisor_metrics: Arc::default(),
            autoscaler_metrics: Arc::default(),
            node_news: Family::default(),
            queues: queue::QueueFamilies::default(),
            requests: requests::RequestFamily::default(),
            initialized: Counter::default(),
            deleted: Counter::default(),
            failed: Counter::default(),
            checks: Mutex::new(BTreeMap::new()),
            machines: Mutex::new(Ok(())),
            settled: AtomicBool::new(false),
            tenure: Mutex::new(None),
            probe: Mutex::new(None),
            supervisor: Mutex::new(None),
            registry: Registry::default(),
        }
    }

    /// Registers all metrics. `/metrics` shows them in order of name, whatever the order here.
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "running_managed_controllers",
            "1 if the controller runs in this process, else 0",
            self.controllers.clone(),
        );
        registry.register(
            "leader_election_master_status",
            "1 if this process holds the leader lease, else 0",
            self.leader.clone(),
        );
        registry.register(
            "vsphere_view_current",
            "1 if the calls to a vCenter succeed and its view, if needed, is current, else 0",
            self.views.clone(),
        );
        registry.register(
            "vsphere_nodes_held",
            "Nodes whose deletion is held back because too many are gone at once",
            self.held.clone(),
        );
        registry.register(
            "vsphere_nodes_troubled",
            "Nodes that the provider cannot manage, by kind of trouble",
            self.troubled.clone(),
        );
        registry.register(
            "vsphere_nodes_initialized",
            "Nodes initialized",
            self.initialized.clone(),
        );
        registry.register(
            "vsphere_nodes_deleted",
            "Nodes deleted because their machine is gone",
            self.deleted.clone(),
        );
        registry.register(
            "vsphere_node_sync_failures",
            "Syncs of a node that failed because a request to the API server failed",
            self.failed.clone(),
        );
        registry.register(
            "vsphere_node_deletions_held",
            "Times that the deletion of a node was held back",
            self.holds.clone(),
        );
        registry.register(
            "vsphere_node_watch_events",
            "Changes of nodes that the node watch reported, by kind",
            self.node_news.clone(),
        );
        self.vcenter_metrics.register(registry);
        self.supervisor_metrics.register(registry);
        self.queues.register(registry);
        self.requests.register(registry);
    }
}

impl CallObserver for Telemetry {
    fn called(&self, call: &Call<'_>) {
        self.vcenter_metrics.called(call);
    }
}

impl Telemetry {
    /// Shows that the controller runs.
    pub(crate) fn controller_started(&self, name: &str) {
        self.controllers.get_or_create(&NameLabel { name: name.to_owned() }).set(1);
    }

    pub(crate) fn set_leader(&self, leads: bool) {
        if let Some(it) = &mut *self.tenure.lock().expect("nothing panics under this lock")
            && !leads
        {
            it.renewed_at = None;
        }
        let name = "cloud-controller-manager".to_owned();
        self.leader.get_or_create(&NameLabel { name }).set(i64::from(leads));
    }

    fn set_view(&self, vcenter: &VcenterName, is_current: bool) {
        let label = NameLabel { name: vcenter.to_string() };
        self.views.get_or_create(&label).set(i64::from(is_current));
    }

    pub(crate) fn set_held(&self, n_held: usize) {
        self.held.set(gauge_value(n_held));
    }

    /// Sets the number of nodes that the provider cannot manage, by kind of trouble, and the result
    /// of the check `machines`.
    pub(crate) fn set_troubles(
        &self,
        counts: impl Iterator<Item = (&'static str, usize)>,
        readiness: Result<(), String>,
    ) {
        for (kind, count) in counts {
            self.troubled.get_or_create(&KindLabel { kind }).set(gauge_value(count));
        }
        *self.machines.lock().expect("nothing panics under this lock") = readiness;
    }

    /// Ok if no node has a trouble that fails readiness; otherwise the first such trouble and the
    /// number of further ones.
    pub fn machines_check(&self) -> Result<(), String> {
        self.machines.lock().expect("nothing panics under this lock").clone()
    }

    /// Counts a node deletion that the guard begins to hold.
    pub(crate) fn deletion_held(&self) {
        self.holds.inc();
    }

    /// Counts a build of the view of a vCenter, whether it is the first build or a later one.
    pub(crate) fn view_built(&self, vcenter: &VcenterName) {
        self.vcenter_metrics.view_built(vcenter);
    }

    /// Counts a delivery of updates from a vCenter to its view, and the updates by kind.
    pub(crate) fn delivered(&self, vcenter: &VcenterName, set: &UpdateSet) {
        self.vcenter_metrics.delivered(vcenter, set);
    }

    /// Counts a change of a Node that the watch reported.
    pub(crate) fn node_news(&self, news: NodeNews) {
        let kind = match news {
            NodeNews::Applied => "applied",
            NodeNews::Deleted => "deleted",
        };
        self.node_news.get_or_create(&KindLabel { kind }).inc();
    }

    /// Returns the counter of requests to the workload cluster.
    pub(crate) fn cluster_requests(&self) -> RequestCounter {
        self.requests.counter("cluster")
    }

    /// Returns the counter of requests to the Supervisor.
    pub(crate) fn supervisor_requests(&self) -> RequestCounter {
        self.requests.counter("supervisor")
    }

    /// Creates the metrics of a work queue with this name.
    pub(crate) fn queue(&self, name: &str) -> Arc<QueueMetrics> {
        self.queues.queue(name)
    }

    pub(crate) fn initialized(&self) {
        self.initialized.inc();
    }

    pub(crate) fn deleted(&self) {
        self.deleted.inc();
    }

    pub(crate) fn sync_failed(&self) {
        self.failed.inc();
    }

    /// Sets the result of the health check `name`, which `/healthz`, `/livez` and `/readyz`
    /// include. An `Err` contains the reason of the failure.
    pub(crate) fn set_check(&self, name: &str, outcome: Result<(), String>) {
        self.checks
            .lock()
            .expect("nothing panics under this lock")
            .insert(name.to_owned(), outcome);
    }

    pub(crate) fn set_probe(&self, probe: Probe) {
        *self.probe.lock().expect("nothing panics under this lock") = Some(probe);
    }

    /// Returns the metrics of the Supervisor backend.
    pub(crate) fn supervisor(&self) -> Arc<SupervisorMetrics> {
        Arc::clone(&self.supervisor_metrics)
    }

    /// Returns the metrics of the server for the Cluster Autoscaler.
    pub(crate) fn autoscaler(&self) -> Arc<AutoscalerMetrics> {
        Arc::clone(&self.autoscaler_metrics)
    }

    pub(crate) fn set_supervisor_probe(&self, probe: SupervisorProbe) {
        *self.supervisor.lock().expect("nothing panics under this lock") = Some(probe);
    }

    fn supervisor_reading(&self) -> Option<SupervisorReading> {
        let probe = self.supervisor.lock().expect("nothing panics under this lock");
        probe.as_ref().map(|probe| probe())
    }

    /// Ok if three conditions hold: the state of the view of the Supervisor's machines is `fresh`,
    /// `poll` or `get`, the last list or watch did not fail, and nothing suggests that the provider
    /// reads the wrong Supervisor or namespace. Otherwise the reason. `None` if this run keeps no
    /// such view.
    pub fn supervisor_check(&self) -> Option<Result<(), String>> {
        self.supervisor_reading().map(|reading| reading.outcome())
    }

    /// The name of each vCenter, with true if the vCenter is healthy. In mode `v1` the v1 backend
    /// decides that, in the other modes
    /// [`VcenterInstances::health`](crate::VcenterInstances::health). Empty in Supervisor mode, and
    /// before the backend starts.
    pub fn vcenters(&self) -> Vec<(VcenterName, bool)> {
        let probe = self.probe.lock().expect("nothing panics under this lock");
        probe.as_ref().map(|probe| probe()).unwrap_or_default()
    }

    /// The checks of `/healthz` and `/livez` by name; empty until leader election or a controller
    /// starts.
    pub fn checks(&self) -> Vec<(String, Result<(), String>)> {
        let checks = self.checks.lock().expect("nothing panics under this lock");
        let copied = checks.iter().map(|(name, outcome)| (name.clone(), outcome.clone()));
        let tenure = self.tenure.lock().expect("nothing panics under this lock");
        let tenure = tenure.as_ref().map(|it| ("leaderElection".to_owned(), it.check()));
        tenure.into_iter().chain(copied).collect()
    }

    /// Notes that this process leads, or stands by while another one leads.
    pub(crate) fn set_settled(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// The checks of `/readyz` by name: those of [`Telemetry::checks`], leadership, every vCenter,
    /// the Supervisor if this run keeps a view of it, the machines of nodes, and `autoscaler`, the view
    /// of the server for the Cluster Autoscaler while this process serves one. In `provider autoscaler`
    /// the only check is that of its view.
    pub fn readiness(&self) -> Vec<(String, Result<(), String>)> {
        let autoscaler = self.autoscaler_metrics.check();
        if self.serves_only_autoscaler {
            let outcome =
                autoscaler.unwrap_or_else(|| Err("the server has not started".to_owned()));
            return vec![("virtualmachines".to_owned(), outcome)];
        }
        let mut checks = self.checks();
        let settled = self.settled.load(Ordering::Relaxed);
        let leadership =
            if settled { Ok(()) } else { Err("the leader is not known yet".to_owned()) };
        checks.push(("leadership".to_owned(), leadership));
        checks.extend(self.vcenters().into_iter().map(|(name, is_current)| {
            let why = "a vCenter call failed, or the machines are not up to date; see the log";
            let outcome = if is_current { Ok(()) } else { Err(why.to_owned()) };
            (format!("vcenter-{name}"), outcome)
        }));
        let supervisor = self.supervisor_check();
        checks.extend(supervisor.map(|outcome| ("supervisor".to_owned(), outcome)));
        checks.push(("machines".to_owned(), self.machines_check()));
        checks.extend(autoscaler.map(|outcome| ("autoscaler".to_owned(), outcome)));
        checks
    }

    /// Adds the check `leaderElection`, for the Lease with this name and duration.
    pub(crate) fn set_election(&self, lease: &str, lease_duration: Duration) {
        let tenure = ElectionHealth { lease: lease.to_owned(), lease_duration, renewed_at: None };
        *self.tenure.lock().expect("nothing panics under this lock") = Some(tenure);
    }

    /// Notes that the lease was acquired or renewed now.
    pub(crate) fn lease_renewed(&self) {
        if let Some(it) = &mut *self.tenure.lock().expect("nothing panics under this lock") {
            it.renewed_at = Some(Instant::now());
        }
    }

    /// Returns the metrics in the OpenMetrics text format, families in order of name.
    pub fn metrics(&self) -> String {
        for (vcenter, is_current) in self.vcenters() {
            self.set_view(&vcenter, is_current);
        }
        if let Some(reading) = self.supervisor_reading() {
            self.supervisor_metrics.show(&reading);
        }
        self.autoscaler_metrics.refresh();
        self.queues.refresh();
        let mut text = String::new();
        if prometheus_client::encoding::text::encode(&mut text, &self.registry).is_err() {
            return "# EOF\n".to_owned();
        }
        text::sorted(&text)
    }
}

#[cfg(test)]
mod tests;
