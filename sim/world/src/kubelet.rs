//! What a kubelet with `--cloud-provider=external` does, and what the node lifecycle controller
//! makes of its silence.
//!
//! Pure: functions of the objects and the time answer the commands that they would send. When they
//! are asked is the world's business, in `act/kubelets.rs`.

mod lifecycle;
mod registration;

use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) use lifecycle::{collect_lease, mark_silent, settle_taints};
pub use registration::{Machine, Taint};
pub(crate) use registration::{become_ready, heartbeat, register, renew_lease};

/// How often a kubelet renews its lease, unless a test says otherwise.
pub(crate) const LEASE_PERIOD: Duration = Duration::from_secs(10);

/// A kubelet reports its status with every so-many-th lease renewal when nothing changes: 5 min.
pub(crate) const BEATS_PER_STATUS: u64 = 30;

/// Silence after which the control plane calls a node NotReady, `--node-monitor-grace-period` of
/// kube-controller-manager 1.36 (50 s since 1.32, 40 s before).
pub(crate) const GRACE_PERIOD: Duration = Duration::from_secs(50);

/// Labels in the order of their keys.
pub type Labels = BTreeMap<String, String>;
