//! Settings of a run: the mode of the provider, seed and defect.

use ::provider::InstancesMode;

use crate::scenario::Backend;

/// Backend and instances mode of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The provider reads machines from vCenter.
    VCenter(InstancesMode),
    /// The provider reads machines from a Supervisor.
    Supervisor(InstancesMode),
}

impl Default for Mode {
    fn default() -> Self {
        Self::VCenter(InstancesMode::default())
    }
}

impl Mode {
    /// Returns the backend.
    pub const fn backend(self) -> Backend {
        match self {
            Self::VCenter(_) => Backend::VCenter,
            Self::Supervisor(_) => Backend::Supervisor,
        }
    }

    /// Returns a mode with this backend and instances mode.
    pub const fn new(backend: Backend, instances: InstancesMode) -> Self {
        match backend {
            Backend::VCenter => Self::VCenter(instances),
            Backend::Supervisor => Self::Supervisor(instances),
        }
    }

    /// Returns the instances mode.
    pub const fn instances(self) -> InstancesMode {
        let (Self::VCenter(mode) | Self::Supervisor(mode)) = self;
        mode
    }

    /// True for the instances mode `v1`: the provider makes upstream's calls one by one, with
    /// upstream's side effects.
    pub const fn is_v1(self) -> bool {
        matches!(self.instances(), InstancesMode::V1)
    }
}

impl From<Backend> for Mode {
    fn from(backend: Backend) -> Self {
        Self::new(backend, InstancesMode::Auto)
    }
}

/// Settings of one run in the lab: mode, seed, defect and log.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// Backend and instances mode of the provider.
    pub mode: Mode,
    /// Seed of all random draws.
    pub seed: u64,
    /// Deliberate defect of our provider, if any.
    pub mutant: Option<::provider::Mutant>,
    /// True if the world keeps no log, so that judges get none. Otherwise the log has every event.
    pub light: bool,
}
