//! The resources of the group `resource.k8s.io`. No device is ever allocated.
//!
//! The store does not check device selectors and configurations, which contain CEL and documents of
//! drivers, and the devices of slices.

mod deviceclasses;
mod resourceclaims;
mod resourceslices;

use crate::ResourceDef;

/// Returns the definitions of the resources of this group.
pub(super) fn definitions() -> [ResourceDef; 3] {
    [deviceclasses::definition(), resourceclaims::definition(), resourceslices::definition()]
}
