//! Metrics and health of one running provider. No globals: each run has its own.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicI64, AtomicU64},
    },
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NameLabel {
    name: String,
}

/// Metrics and health, shared by everything that runs.
pub struct Telemetry {
    registry: Registry,
    controllers: Family<NameLabel, Gauge<i64, AtomicI64>>,
    leader: Family<NameLabel, Gauge<i64, AtomicI64>>,
    views: Family<NameLabel, Gauge<i64, AtomicI64>>,
    held: Gauge<i64, AtomicI64>,
    initialized: Counter<u64, AtomicU64>,
    deleted: Counter<u64, AtomicU64>,
    failed: Counter<u64, AtomicU64>,
    checks: Mutex<BTreeMap<String, Result<(), String>>>,
    probe: Mutex<Option<Probe>>,
}

/// Tells which vCenters' views are current, by name.
type Probe = Box<dyn Fn() -> Vec<(String, bool)> + Send>;

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry").field("checks", &self.checks()).finish_non_exhaustive()
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        let mut registry = Registry::default();
        let telemetry = Self {
            controllers: Family::default(),
            leader: Family::default(),
            views: Family::default(),
            held: Gauge::default(),
            initialized: Counter::default(),
            deleted: Counter::default(),
            failed: Counter::default(),
            checks: Mutex::new(BTreeMap::new()),
            probe: Mutex::new(None),
            registry: Registry::default(),
        };
        registry.register(
            "running_managed_controllers",
            "Controllers that run in this process",
            telemetry.controllers.clone(),
        );
        registry.register(
            "leader_election_master_status",
            "Whether this process holds the lease",
            telemetry.leader.clone(),
        );
        registry.register(
            "vsphere_view_current",
            "Whether the view of a vCenter's machines is current",
            telemetry.views.clone(),
        );
        registry.register(
            "vsphere_nodes_held",
            "Nodes whose deletion is held back because too many are gone at once",
            telemetry.held.clone(),
        );
        registry.register(
            "vsphere_nodes_initialized",
            "Nodes initialized",
            telemetry.initialized.clone(),
        );
        registry.register(
            "vsphere_nodes_deleted",
            "Nodes deleted because their machine is gone",
            telemetry.deleted.clone(),
        );
        registry.register(
            "vsphere_node_sync_failures",
            "Looks at a node that ended in an error of the cluster's API",
            telemetry.failed.clone(),
        );
        Self { registry, ..telemetry }
    }
}

impl Telemetry {
    pub(crate) fn set_controller(&self, name: &str, runs: bool) {
        self.controllers.get_or_create(&NameLabel { name: name.to_owned() }).set(i64::from(runs));
    }

    pub(crate) fn set_leader(&self, leads: bool) {
        let name = "cloud-controller-manager".to_owned();
        self.leader.get_or_create(&NameLabel { name }).set(i64::from(leads));
    }

    fn set_view(&self, vcenter: &str, is_current: bool) {
        let label = NameLabel { name: vcenter.to_owned() };
        self.views.get_or_create(&label).set(i64::from(is_current));
    }

    pub(crate) fn set_held(&self, n_held: usize) {
        self.held.set(i64::try_from(n_held).unwrap_or(i64::MAX));
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

    /// Sets the outcome of a named check.
    pub(crate) fn set_check(&self, name: &str, outcome: Result<(), String>) {
        self.checks
            .lock()
            .expect("nothing panics under this lock")
            .insert(name.to_owned(), outcome);
    }

    pub(crate) fn set_probe(&self, probe: Probe) {
        *self.probe.lock().expect("nothing panics under this lock") = Some(probe);
    }

    /// Which vCenters answer and show current machines, by name.
    pub fn vcenters(&self) -> Vec<(String, bool)> {
        let probe = self.probe.lock().expect("nothing panics under this lock");
        probe.as_ref().map(|probe| probe()).unwrap_or_default()
    }

    /// All checks by name; an empty list means "just started".
    pub fn checks(&self) -> Vec<(String, Result<(), String>)> {
        let checks = self.checks.lock().expect("nothing panics under this lock");
        checks.iter().map(|(name, outcome)| (name.clone(), outcome.clone())).collect()
    }

    /// The metrics in the OpenMetrics text format, families in order of name.
    pub fn metrics(&self) -> String {
        for (vcenter, is_current) in self.vcenters() {
            self.set_view(&vcenter, is_current);
        }
        let mut text = String::new();
        if prometheus_client::encoding::text::encode(&mut text, &self.registry).is_err() {
            return "# EOF\n".to_owned();
        }
        sort_families(&text)
    }
}

/// The encoder's families come in an order that differs between runs of the same build; ours do not.
fn sort_families(text: &str) -> String {
    let mut families: Vec<Vec<&str>> = Vec::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if line.starts_with("# HELP") || families.is_empty() {
            families.push(Vec::new());
        }
        if let Some(family) = families.last_mut() {
            family.push(line);
        }
    }
    families.sort();
    let mut out = String::new();
    for family in &mut families {
        let n_head = family.iter().take_while(|line| line.starts_with('#')).count();
        family[n_head..].sort_unstable();
        for line in family {
            out.push_str(line);
            out.push('\n');
        }
    }
    out.push_str("# EOF\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_text_in_a_fixed_order() {
        let telemetry = Telemetry::default();
        telemetry.set_controller("cloud-node", true);
        telemetry.set_held(3);
        let text = telemetry.metrics();
        assert!(text.contains("running_managed_controllers{name=\"cloud-node\"} 1"), "{text}");
        assert!(text.contains("vsphere_nodes_held 3"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
