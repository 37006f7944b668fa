//! Metrics of the calls to vCenters, and of the updates that vCenters deliver to the views. The
//! metric of call durations has upstream's name, although upstream never records a value for it.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};
use provider_vcenter::{Call, UpdateKind, UpdateSet, VcenterName};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VcenterLabel {
    vcenter: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CallLabels {
    vcenter: String,
    request: &'static str,
    code: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct LoginLabels {
    vcenter: String,
    api: &'static str,
    code: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct UpdateLabels {
    vcenter: String,
    kind: &'static str,
}

/// Upper bounds of the buckets for call durations, in seconds; the last ones are for long polls.
const CALL_BUCKETS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 90.0];

/// The metric families for all vCenters of a run.
#[derive(Debug)]
pub(super) struct VcenterFamilies {
    calls: Family<CallLabels, Histogram, fn() -> Histogram>,
    logins: Family<LoginLabels, Counter<u64, AtomicU64>>,
    view_builds: Family<VcenterLabel, Counter<u64, AtomicU64>>,
    deliveries: Family<VcenterLabel, Counter<u64, AtomicU64>>,
    updates: Family<UpdateLabels, Counter<u64, AtomicU64>>,
}

impl Default for VcenterFamilies {
    fn default() -> Self {
        Self {
            calls: Family::new_with_constructor(|| Histogram::new(CALL_BUCKETS)),
            logins: Family::default(),
            view_builds: Family::default(),
            deliveries: Family::default(),
            updates: Family::default(),
        }
    }
}

impl VcenterFamilies {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "cloudprovider_vsphere_api_request_duration_seconds",
            "Durations of the calls to vCenters",
            self.calls.clone(),
        );
        registry.register("vsphere_logins", "Attempts to log in to vCenters", self.logins.clone());
        registry.register(
            "vsphere_view_builds",
            "Builds of the view of a vCenter's machines",
            self.view_builds.clone(),
        );
        registry.register(
            "vsphere_view_deliveries",
            "Deliveries of updates from a vCenter to its view",
            self.deliveries.clone(),
        );
        registry.register(
            "vsphere_view_updates",
            "Updates of machines in the deliveries to a view, by kind",
            self.updates.clone(),
        );
    }

    pub(super) fn called(&self, call: &Call<'_>) {
        let Call { vcenter, operation, .. } = *call;
        let code = || call.code.clone().into_owned();
        let labels = CallLabels { vcenter: vcenter.to_string(), request: operation, code: code() };
        self.calls.get_or_create(&labels).observe(call.took.as_secs_f64());
        if let Some(api) = call.logs_in_to() {
            let labels = LoginLabels { vcenter: vcenter.to_string(), api, code: code() };
            self.logins.get_or_create(&labels).inc();
        }
    }

    pub(super) fn view_built(&self, vcenter: &VcenterName) {
        self.view_builds.get_or_create(&VcenterLabel { vcenter: vcenter.to_string() }).inc();
    }

    pub(super) fn delivered(&self, vcenter: &VcenterName, set: &UpdateSet) {
        self.deliveries.get_or_create(&VcenterLabel { vcenter: vcenter.to_string() }).inc();
        for update in &set.updates {
            let kind = match update.kind {
                UpdateKind::Enter => "enter",
                UpdateKind::Modify => "modify",
                UpdateKind::Leave => "leave",
            };
            let labels = UpdateLabels { vcenter: vcenter.to_string(), kind };
            self.updates.get_or_create(&labels).inc();
        }
    }
}
