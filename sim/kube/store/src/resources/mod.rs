//! The built-in resources, by API group. One file or folder per resource has its data and its
//! strategy.

mod apps;
mod checks;
pub(crate) mod core;
pub(crate) mod customresourcedefinitions;
mod devices;
mod endpointslices;
mod events;
mod jobs;
mod leases;
mod poddisruptionbudgets;
pub(crate) mod rbac;
mod storage;

use crate::ResourceDef;

/// Returns the definitions of all built-in resources.
pub(crate) fn builtin() -> Vec<ResourceDef> {
    let mut all = vec![
        customresourcedefinitions::definition(),
        endpointslices::definition(),
        events::definition(),
        jobs::definition(),
        leases::definition(),
        poddisruptionbudgets::definition(),
    ];
    all.extend(apps::definitions());
    all.extend(self::core::definitions());
    all.extend(devices::definitions());
    all.extend(rbac::definitions());
    all.extend(storage::definitions());
    all
}
