//! The built-in resources, by API group. One file or folder per resource has its data and its
//! strategy.

pub(crate) mod core;
pub(crate) mod customresourcedefinitions;
mod endpointslices;
mod events;
mod leases;
pub(crate) mod rbac;

use crate::ResourceDef;

/// Returns the definitions of all built-in resources.
pub(crate) fn builtin() -> Vec<ResourceDef> {
    let mut all = vec![
        customresourcedefinitions::definition(),
        endpointslices::definition(),
        events::definition(),
        leases::definition(),
    ];
    all.extend(self::core::definitions());
    all.extend(rbac::definitions());
    all
}
