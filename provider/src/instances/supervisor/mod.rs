//! Machines as the Supervisor tells of them: a view kept by one list and one watch, and proof before "gone".
//!
//! | part | what it is |
//! | --- | --- |
//! | [`machine`], [`addresses`], [`identity`] | what an object says, what a node is told of it, which one it is; pure |
//! | [`listing`], [`view`], [`freshness`] | what is known, and how far it can be trusted; pure |
//! | [`answers`], [`proof`] | what follows from that; pure |
//! | [`api`], [`shared`], [`follow`] | requests, and the loops that keep the view |
//! | [`v1`] | upstream's calls one for one |

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

/// Whether an initialized node without zone labels gets them when its machine has a zone at last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LateZone {
    /// No: labels are written at initialization, as upstream has it.
    #[default]
    LeftOut,
    /// Yes. Labels that a node has are never changed.
    Added,
}

/// How the backend behaves.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// How answers are had. [`InstancesMode::V1`] is [`SupervisorV1`]'s and counts as polling here.
    pub mode: InstancesMode,
    /// In which version machines are read.
    pub version: VmOperatorVersion,
    /// Which addresses nodes report.
    pub addresses: AddressPolicy,
    /// `--supervisor-late-zone-labels`.
    pub late_zone: LateZone,
    /// `--vm-cache-sync-timeout`: how long the first list is waited for.
    pub sync_timeout: Duration,
    /// Seeds pauses.
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
