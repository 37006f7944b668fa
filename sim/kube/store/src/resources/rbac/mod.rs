//! The resources of the group `rbac.authorization.k8s.io`.

mod clusterrolebindings;
pub(crate) mod clusterroles;
mod rolebindings;
mod roles;

use crate::ResourceDef;

/// Returns the definitions of the resources of this group.
pub(super) fn definitions() -> [ResourceDef; 4] {
    [
        clusterrolebindings::definition(),
        clusterroles::definition(),
        rolebindings::definition(),
        roles::definition(),
    ]
}
