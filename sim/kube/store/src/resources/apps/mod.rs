//! The resources of the group `apps`.

mod daemonsets;
mod deployments;
mod replicasets;
mod statefulsets;

use crate::ResourceDef;

/// Returns the definitions of the resources of this group.
pub(super) fn definitions() -> [ResourceDef; 4] {
    [
        daemonsets::definition(),
        deployments::definition(),
        replicasets::definition(),
        statefulsets::definition(),
    ]
}
