//! Metrics of a Supervisor: the view's state, lists by reason, reads and proofs by result.

use std::{sync::atomic::AtomicI64, time::Duration};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::{ResultLabel, gauge_value};
use crate::model::ViewState;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReadLabels {
    reason: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

/// Reason for which the provider lists VirtualMachines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListReason {
    /// The first list.
    Start,
    /// A periodic list beside the watch, in case the watch lost an event.
    Periodic,
    /// The version of the watch was too old.
    Expired,
    /// The last list or event was more than three minutes old, or the watch had failed for 30 s.
    Silent,
    /// A retry after a failed list or watch.
    Failed,
    /// A periodic list instead of a watch.
    Poll,
    /// A lookup that needs a newer list, while the provider polls.
    Asked,
    /// A proof that a machine is gone.
    Proof,
}

impl ListReason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Periodic => "periodic",
            Self::Expired => "expired",
            Self::Silent => "silent",
            Self::Failed => "failed",
            Self::Poll => "poll",
            Self::Asked => "asked",
            Self::Proof => "proof",
        }
    }
}

/// State of the view at one moment.
#[derive(Clone, Debug)]
pub(crate) struct SupervisorReading {
    pub(crate) state: ViewState,
    /// Failure of the last list or watch, until one succeeds. While it is set, a lookup that needs
    /// a newer view fails without a request to the Supervisor.
    pub(crate) trouble: Option<String>,
    pub(crate) n_machines: usize,
    pub(crate) n_duplicates: usize,
    pub(crate) last_contact_age: Option<Duration>,
    /// Reason why the provider probably reads the wrong Supervisor or namespace: it has tried in
    /// vain to prove that a machine is gone, and has not matched any node to a machine since its
    /// start. Otherwise `None`.
    pub(crate) lost: Option<&'static str>,
}

impl SupervisorReading {
    /// Ok if three conditions hold: the state is `fresh`, `poll` or `get`, the last list or watch
    /// did not fail, and [`SupervisorReading::lost`] is `None`. Otherwise the reason.
    pub(crate) fn outcome(&self) -> Result<(), String> {
        let state = self.state.as_str();
        if let Some(why) = self.lost {
            return Err(format!("view of VirtualMachines is {state}: {why}"));
        }
        match (&self.trouble, self.state) {
            (Some(why), _) => Err(format!("view of VirtualMachines is {state}: {why}")),
            (None, ViewState::Fresh | ViewState::Poll | ViewState::Get) => Ok(()),
            (None, ViewState::Syncing | ViewState::Stale) => {
                Err(format!("view of VirtualMachines is {state}"))
            }
        }
    }
}

/// Metrics of the Supervisor backend.
#[derive(Clone, Debug, Default)]
pub(crate) struct SupervisorMetrics {
    state: Family<StateLabel, Gauge<i64, AtomicI64>>,
    machines: Gauge<i64, AtomicI64>,
    duplicates: Gauge<i64, AtomicI64>,
    last_contact: Gauge<i64, AtomicI64>,
    lists: Family<ReasonLabel, Counter>,
    reads: Family<ReadLabels, Counter>,
    proofs: Family<ResultLabel, Counter>,
    mismatches: Counter,
    unreadable: Counter,
}

impl SupervisorMetrics {
    /// Registers the metrics; their values change only in Supervisor mode.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "vsphere_supervisor_view_state",
            "State of the view of the Supervisor's machines: 1 for the current state, else 0",
            self.state.clone(),
        );
        registry.register(
            "vsphere_supervisor_machines",
            "VirtualMachines in the view",
            self.machines.clone(),
        );
        registry.register(
            "vsphere_supervisor_duplicate_uuids",
            "BIOS UUIDs that more than one VirtualMachine has",
            self.duplicates.clone(),
        );
        registry.register(
            "vsphere_supervisor_last_contact_seconds",
            "Seconds since the last list or watch event of the Supervisor, or -1 before the first",
            self.last_contact.clone(),
        );
        registry.register(
            "vsphere_supervisor_lists",
            "Lists of VirtualMachines that the provider began, by reason",
            self.lists.clone(),
        );
        registry.register(
            "vsphere_supervisor_reads",
            "Reads of one VirtualMachine, by reason and result",
            self.reads.clone(),
        );
        registry.register(
            "vsphere_supervisor_proofs",
            "Attempts to prove that a machine is gone, by result",
            self.proofs.clone(),
        );
        registry.register(
            "vsphere_supervisor_provider_id_mismatch",
            "Nodes whose VirtualMachine has another BIOS UUID",
            self.mismatches.clone(),
        );
        registry.register(
            "vsphere_supervisor_unreadable_events",
            "Watch events with unreadable content",
            self.unreadable.clone(),
        );
    }

    pub(crate) fn listed(&self, reason: ListReason) {
        self.lists.get_or_create(&ReasonLabel { reason: reason.as_str() }).inc();
    }

    /// Counts a read of one machine; the state of the view at the read gives the label `reason`.
    pub(crate) fn read(&self, state: ViewState, result: &'static str) {
        let reason = match state {
            ViewState::Fresh | ViewState::Poll => "missing",
            ViewState::Stale => "stale",
            ViewState::Syncing => "syncing",
            ViewState::Get => "forbidden",
        };
        self.reads.get_or_create(&ReadLabels { reason, result }).inc();
    }

    pub(crate) fn proved(&self, result: &'static str) {
        self.proofs.get_or_create(&ResultLabel { result }).inc();
    }

    pub(crate) fn mismatched(&self) {
        self.mismatches.inc();
    }

    pub(crate) fn unreadable(&self) {
        self.unreadable.inc();
    }

    /// Sets the gauges to the state of the view.
    pub(super) fn show(&self, reading: &SupervisorReading) {
        for state in ViewState::ALL {
            let gauge = self.state.get_or_create(&StateLabel { state: state.as_str() });
            gauge.set(i64::from(state == reading.state));
        }
        self.machines.set(gauge_value(reading.n_machines));
        self.duplicates.set(gauge_value(reading.n_duplicates));
        let seconds = reading.last_contact_age.map(|age| age.as_secs());
        self.last_contact.set(seconds.map_or(-1, gauge_value));
    }
}
