//! Requests of a kubelet with `--cloud-provider=external`, and requests of two controllers about
//! its Node: the node lifecycle controller sets conditions and taints, and the garbage collector
//! deletes the lease.
//!
//! The functions are pure: from the objects and the time they return the requests that these
//! components would send. `act/kubelets/mod.rs` decides when to call them.

mod join;
mod lifecycle;
mod registration;

use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) use join::{Join, decoded};
pub(crate) use lifecycle::{collect_lease, mark_silent, settle_taints};
pub use registration::{Machine, Taint};
pub(crate) use registration::{become_ready, heartbeat, register, renew_lease};

/// Default interval at which a kubelet renews its lease.
pub(crate) const LEASE_PERIOD: Duration = Duration::from_secs(10);

/// Number of lease renewals per status report when nothing changes: one report in 5 min with the
/// default interval.
pub(crate) const BEATS_PER_STATUS: u64 = 30;

/// Time without a sign of a kubelet after which the control plane sets the conditions of its Node
/// to Unknown: the default of `--node-monitor-grace-period` of kube-controller-manager 1.36 (50 s
/// since 1.32, 40 s before).
pub(crate) const GRACE_PERIOD: Duration = Duration::from_secs(50);

/// Labels of a Kubernetes object: values by key.
pub type Labels = BTreeMap<String, String>;
