//! Supervisor backend: answers from a view of the VirtualMachine objects in one namespace of a
//! Supervisor. Usually one list and one watch keep the view. Except for the variant [`v1`], the
//! backend makes a proof before it answers that a machine is gone.
//!
//! | part | task |
//! | --- | --- |
//! | [`machine`] with its modules | reads an object, chooses addresses of a node, determines its machine; pure |
//! | [`view`] with its modules | holds the known machines, finds those of nodes, and judges how current they are; pure |
//! | [`answers`], [`proof`] | decide the answers to questions from these; pure |
//! | [`api`], [`shared`], [`state`], [`follow`] | send requests and keep the view |
//! | [`backend`] | implements [`Instances`](crate::instances::Instances) with these parts |
//! | [`v1`] | variant of the backend that makes upstream's calls one for one |

mod answers;
mod api;
mod backend;
mod follow;
mod machine;
mod proof;
mod shared;
mod state;
#[cfg(test)]
mod tests;
mod v1;
mod view;

use std::time::Duration;

use crate::supervisor::{InstancesMode, VmOperatorVersion};

pub use backend::SupervisorInstances;
pub use machine::addresses::{AddressPolicy, HostnameEntry, NoneWanted};
pub use v1::SupervisorV1;

/// Treatment of an initialized node without zone labels whose machine gets a zone later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LateZone {
    /// The node gets no zone labels. As in upstream, the provider writes the labels of a machine's
    /// zone at initialization only.
    #[default]
    LeftOut,
    /// The node gets the zone labels. The provider never changes existing labels.
    Added,
}

/// Settings of the Supervisor backend.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Way in which the backend keeps its view: by watching or by polling. [`InstancesMode::V1`]
    /// belongs to [`SupervisorV1`] and counts as polling here.
    pub mode: InstancesMode,
    /// API version of VM Operator in which the backend reads machines.
    pub version: VmOperatorVersion,
    /// Rules for the addresses that the provider publishes.
    pub addresses: AddressPolicy,
    /// Value of `--supervisor-late-zone-labels`.
    pub late_zone: LateZone,
    /// Value of `--vm-cache-sync-timeout`: longest time that questions wait for the first list
    /// (default 60 s).
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
