//! The resources of the group `storage.k8s.io`. No volume is ever made or attached.

mod csidrivers;
mod csinodes;
mod csistoragecapacities;
mod storageclasses;
mod volumeattachments;

use crate::ResourceDef;

/// Returns the definitions of the resources of this group.
pub(super) fn definitions() -> [ResourceDef; 5] {
    [
        csidrivers::definition(),
        csinodes::definition(),
        csistoragecapacities::definition(),
        storageclasses::definition(),
        volumeattachments::definition(),
    ]
}
