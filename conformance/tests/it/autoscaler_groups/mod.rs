//! Tests our server for the Cluster Autoscaler with NodeGroup objects as groups, in virtual time. The
//! server has the role of the documentation, and no other.

mod checks;
mod lives;
mod refusals;
mod schema;
mod statuses;
mod world;

use std::time::Duration;

const GROUP: &str = "VirtualMachine/workloads/workers";
const CLONES: &str = "vcenter/workers";
const NAMESPACE: &str = "kube-system";
const NOT_FOUND: i32 = 5;
const UNAVAILABLE: i32 = 14;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
