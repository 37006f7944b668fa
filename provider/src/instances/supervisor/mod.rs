//! Machines as VirtualMachine objects of a Supervisor: a view kept by one list and one watch, and proof before "gone".
//!
//! | part | what it is |
//! | --- | --- |
//! | [`machine`], [`addresses`], [`identity`] | read an object, choose a node's addresses, determine its machine; pure |
//! | [`listing`], [`view`], [`freshness`] | hold the known machines and the trust in them; pure |
//! | [`answers`], [`proof`] | decide from that; pure |
//! | [`api`], [`shared`], [`follow`] | send requests and keep the view |
//! | [`v1`] | makes upstream's calls one for one |

mod addresses;
mod answers;
mod api;
mod backend;
mod follow;
mod freshness;
mod identity;
mod listing;
mod machine;
mod proof;
mod shared;
mod state;
#[cfg(test)]
mod tests;
mod v1;
mod view;

use std::time::Duration;

use self::machine::MachineObject;
use crate::supervisor::{InstancesMode, VmOperatorVersion};

pub use addresses::{AddressPolicy, HostnameEntry, NoneWanted};
pub use backend::SupervisorInstances;
pub use freshness::ViewState;
pub(crate) use proof::NEVER_MATCHED;
pub use v1::SupervisorV1;

/// Treatment of an initialized node without zone labels whose machine gets a zone later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LateZone {
    /// The node gets none: labels are written at initialization only, as upstream does.
    #[default]
    LeftOut,
    /// The node gets them. Existing labels are never changed.
    Added,
}

/// Settings of the Supervisor backend.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Source of the answers. [`InstancesMode::V1`] belongs to [`SupervisorV1`] and counts as polling here.
    pub mode: InstancesMode,
    /// API version in which machines are read.
    pub version: VmOperatorVersion,
    /// Rules for the addresses that nodes report.
    pub addresses: AddressPolicy,
    /// Value of `--supervisor-late-zone-labels`.
    pub late_zone: LateZone,
    /// Value of `--vm-cache-sync-timeout`: longest wait for the first list (default 60 s).
    pub sync_timeout: Duration,
    /// Seed of the jitter of pauses.
    pub seed: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            mode: InstancesMode::default(),
            version: VmOperatorVersion::default(),
            addresses: AddressPolicy::default(),
            late_zone: LateZone::default(),
            sync_timeout: Duration::from_secs(60),
            seed: 0,
        }
    }
}
