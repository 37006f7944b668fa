//! Metrics of the server for the Cluster Autoscaler. Those of its calls have the names and codes of
//! `github.com/grpc-ecosystem/go-grpc-middleware: providers/prometheus`.
//!
//! The values of labels come from the protocol and from the definitions of the groups, never from a
//! request, so that no caller can add one.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicI64, AtomicU64},
    },
    time::Duration,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use tokio::time::Instant;

use super::{ResultLabel, gauge_value};

pub(crate) const HEALTH_SERVICE: &str = "grpc.health.v1.Health";
pub(crate) const REFLECTION_SERVICE: &str = "grpc.reflection.v1.ServerReflection";
/// Services and methods that have labels of their own.
const METHODS: [(&str, &[&str]); 3] = [
    (
        externalgrpc::SERVICE,
        &[
            "NodeGroups",
            "NodeGroupForNode",
            "PricingNodePrice",
            "PricingPodPrice",
            "GPULabel",
            "GetAvailableGPUTypes",
            "Cleanup",
            "Refresh",
            "NodeGroupTargetSize",
            "NodeGroupIncreaseSize",
            "NodeGroupDeleteNodes",
            "NodeGroupDecreaseTargetSize",
            "NodeGroupNodes",
            "NodeGroupTemplateNodeInfo",
            "NodeGroupGetOptions",
        ],
    ),
    (HEALTH_SERVICE, &["Check", "Watch"]),
    (REFLECTION_SERVICE, &["ServerReflectionInfo"]),
];
/// Label of a service or method that the server does not have.
const OTHER: &str = "other";

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct MethodLabels {
    grpc_service: &'static str,
    grpc_method: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RpcLabels {
    grpc_service: &'static str,
    grpc_method: &'static str,
    grpc_code: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct GroupLabel {
    group: String,
}

type Count = Counter<u64, AtomicU64>;
type Number = Gauge<i64, AtomicI64>;

/// Result of a read of the file with the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileRead {
    Applied,
    Unchanged,
    Failed,
}

/// State of the server at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct AutoscalerReading {
    /// The groups that the server answers for.
    pub(crate) groups: Vec<GroupReading>,
    /// Time since the view was last known to be current; `None` before the first list.
    pub(crate) view_age: Option<Duration>,
    /// Reason why the view cannot be used.
    pub(crate) trouble: Option<String>,
}

/// State of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupReading {
    pub(crate) id: String,
    pub(crate) min: u32,
    pub(crate) max: u32,
    /// Instances that count; `None` before the first list of machines.
    pub(crate) size: Option<usize>,
    pub(crate) n_failed: usize,
}

/// Function that returns the state of the server.
type Probe = Box<dyn Fn() -> AutoscalerReading + Send>;

/// Metrics of the server.
pub(crate) struct AutoscalerMetrics {
    handled: Family<RpcLabels, Count>,
    handling: Family<MethodLabels, Histogram, fn() -> Histogram>,
    created: Family<GroupLabel, Count>,
    deleted: Family<GroupLabel, Count>,
    failed: Family<GroupLabel, Count>,
    size: Family<GroupLabel, Number>,
    min: Family<GroupLabel, Number>,
    max: Family<GroupLabel, Number>,
    failed_instances: Family<GroupLabel, Number>,
    view_age: Gauge<f64, AtomicU64>,
    reads: Family<ResultLabel, Count>,
    refused: Number,
    status_writes: Family<ResultLabel, Count>,
    /// Groups whose metrics exist.
    shown: Mutex<BTreeSet<String>>,
    probe: Mutex<Option<Probe>>,
}

impl Default for AutoscalerMetrics {
    fn default() -> Self {
        let histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 16));
        Self {
            handled: Family::default(),
            handling: Family::new_with_constructor(histogram),
            created: Family::default(),
            deleted: Family::default(),
            failed: Family::default(),
            size: Family::default(),
            min: Family::default(),
            max: Family::default(),
            failed_instances: Family::default(),
            view_age: Gauge::default(),
            reads: Family::default(),
            refused: Gauge::default(),
            status_writes: Family::default(),
            shown: Mutex::default(),
            probe: Mutex::default(),
        }
    }
}

impl AutoscalerMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "grpc_server_handled",
            "Calls of an autoscaler that ended, by method and code",
            self.handled.clone(),
        );
        registry.register(
            "grpc_server_handling_seconds",
            "Durations of the calls of an autoscaler, of a stream until its first answer",
            self.handling.clone(),
        );
        self.register_groups(registry);
        registry.register(
            "vsphere_autoscaler_view_age_seconds",
            "Seconds since the view of VirtualMachines was last known to be current, or -1 before the first list",
            self.view_age.clone(),
        );
        registry.register(
            "vsphere_autoscaler_group_file_reads",
            "Reads of the file with the groups after the start, by result: `applied`, `unchanged` or `failed`",
            self.reads.clone(),
        );
        registry.register(
            "vsphere_autoscaler_groups_refused",
            "Groups that the server ignores because of a mistake",
            self.refused.clone(),
        );
        registry.register(
            "vsphere_autoscaler_node_group_status_writes",
            "Writes of the status of a NodeGroup, by result: `written` or `failed`",
            self.status_writes.clone(),
        );
    }

    fn register_groups(&self, registry: &mut Registry) {
        registry.register(
            "vsphere_autoscaler_machines_created",
            "Machines created, by group",
            self.created.clone(),
        );
        registry.register(
            "vsphere_autoscaler_machines_deleted",
            "Machines deleted, by group, also those of failed increases",
            self.deleted.clone(),
        );
        registry.register(
            "vsphere_autoscaler_machine_failures",
            "Creations and deletions of machines that failed, by group",
            self.failed.clone(),
        );
        registry.register(
            "vsphere_autoscaler_group_size",
            "Instances of a group that count for its size",
            self.size.clone(),
        );
        registry.register(
            "vsphere_autoscaler_group_min",
            "Minimum size of a group",
            self.min.clone(),
        );
        registry.register(
            "vsphere_autoscaler_group_max",
            "Maximum size of a group",
            self.max.clone(),
        );
        registry.register(
            "vsphere_autoscaler_group_failed_instances",
            "Instances of a group whose machine cannot be made",
            self.failed_instances.clone(),
        );
    }

    /// Begins to measure a call with this path.
    pub(crate) fn call(self: &Arc<Self>, path: &str) -> RpcTimer {
        let labels = labels(path);
        RpcTimer { metrics: Arc::clone(self), labels, began: Instant::now(), code: "Canceled" }
    }

    pub(crate) fn machine_created(&self, group: &str) {
        self.count(&self.created, group);
    }

    pub(crate) fn machine_deleted(&self, group: &str) {
        self.count(&self.deleted, group);
    }

    /// Counts a creation or deletion that failed.
    pub(crate) fn machine_failed(&self, group: &str) {
        self.count(&self.failed, group);
    }

    fn count(&self, family: &Family<GroupLabel, Count>, group: &str) {
        self.shown().insert(group.to_owned());
        family.get_or_create(&GroupLabel { group: group.to_owned() }).inc();
    }

    /// Counts a read of the file with the groups.
    pub(crate) fn file_read(&self, result: FileRead) {
        let result = match result {
            FileRead::Applied => "applied",
            FileRead::Unchanged => "unchanged",
            FileRead::Failed => "failed",
        };
        self.reads.get_or_create(&ResultLabel { result }).inc();
    }

    /// Sets the number of groups that the server ignores.
    pub(crate) fn set_refused(&self, n_groups: usize) {
        self.refused.set(gauge_value(n_groups));
    }

    /// Counts a write of the status of a NodeGroup.
    pub(crate) fn status_written(&self, is_written: bool) {
        let result = if is_written { "written" } else { "failed" };
        self.status_writes.get_or_create(&ResultLabel { result }).inc();
    }

    /// Sets the function that returns the state of the server.
    pub(crate) fn set_probe(&self, probe: Probe) {
        *self.probe.lock().expect("nothing panics under this lock") = Some(probe);
    }

    /// The check of `/readyz`; `None` without server.
    pub(super) fn check(&self) -> Option<Result<(), String>> {
        Some(self.reading()?.trouble.map_or(Ok(()), Err))
    }

    fn reading(&self) -> Option<AutoscalerReading> {
        let probe = self.probe.lock().expect("nothing panics under this lock");
        probe.as_ref().map(|probe| probe())
    }

    fn shown(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.shown.lock().expect("nothing panics under this lock")
    }

    /// Sets the gauges to the state of the server, and forgets groups that it no longer has.
    pub(super) fn refresh(&self) {
        let Some(reading) = self.reading() else { return };
        self.view_age.set(reading.view_age.map_or(-1.0, |age| age.as_secs_f64()));
        let now: BTreeSet<String> = reading.groups.iter().map(|it| it.id.clone()).collect();
        let before = std::mem::replace(&mut *self.shown(), now.clone());
        before.difference(&now).for_each(|group| self.forget(group));
        reading.groups.iter().for_each(|group| self.show(group));
    }

    fn show(&self, group: &GroupReading) {
        let label = GroupLabel { group: group.id.clone() };
        for family in [&self.created, &self.deleted, &self.failed] {
            // A counter is shown from zero on, so that its first increase is one for queries.
            drop(family.get_or_create(&label));
        }
        self.min.get_or_create(&label).set(group.min.into());
        self.max.get_or_create(&label).set(group.max.into());
        if let Some(size) = group.size {
            self.size.get_or_create(&label).set(gauge_value(size));
            self.failed_instances.get_or_create(&label).set(gauge_value(group.n_failed));
        }
    }

    fn forget(&self, group: &str) {
        let label = GroupLabel { group: group.to_owned() };
        for family in [&self.created, &self.deleted, &self.failed] {
            family.remove(&label);
        }
        for family in [&self.size, &self.min, &self.max, &self.failed_instances] {
            family.remove(&label);
        }
    }
}

/// Returns the labels of a call with this path.
fn labels(path: &str) -> MethodLabels {
    let mut parts = path.split('/').skip(1);
    let (service, method) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let known = METHODS.into_iter().find(|(name, _)| *name == service);
    let Some((grpc_service, methods)) = known else {
        return MethodLabels { grpc_service: OTHER, grpc_method: OTHER };
    };
    let grpc_method = methods.iter().find(|name| **name == method).copied().unwrap_or(OTHER);
    MethodLabels { grpc_service, grpc_method }
}

/// Measures a call until it is dropped. A call without [`RpcTimer::set_code`] was cancelled.
pub(crate) struct RpcTimer {
    metrics: Arc<AutoscalerMetrics>,
    labels: MethodLabels,
    began: Instant,
    code: &'static str,
}

impl RpcTimer {
    /// Sets the code of the answer, by Go's name.
    pub(crate) fn set_code(&mut self, code: &'static str) {
        self.code = code;
    }
}

impl Drop for RpcTimer {
    fn drop(&mut self) {
        let MethodLabels { grpc_service, grpc_method } = self.labels;
        let labels = RpcLabels { grpc_service, grpc_method, grpc_code: self.code };
        self.metrics.handled.get_or_create(&labels).inc();
        let seconds = self.began.elapsed().as_secs_f64();
        self.metrics.handling.get_or_create(&self.labels).observe(seconds);
    }
}

#[cfg(test)]
mod tests;
