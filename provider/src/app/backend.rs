//! The backend that the options select: vCenter or Supervisor, in the instances mode `v1` or
//! another one.

use std::sync::Arc;

use super::{
    Deps, Options, RunError,
    build::{connect, connect_v1},
};
use crate::{
    config::Config,
    instances::{
        Instances, SupervisorInstances, SupervisorTuning, SupervisorV1, VcenterInstances, VcenterV1,
    },
    mutant::Active,
    supervisor::InstancesMode,
    tasks::Tasks,
    telemetry::Telemetry,
};

/// The backend of a run: vCenter or Supervisor, each in a variant that keeps a view and in the
/// variant `v1`.
pub(super) enum Backend {
    Vcenter(VcenterInstances),
    VcenterV1(VcenterV1),
    Supervisor(SupervisorInstances),
    SupervisorV1(SupervisorV1),
}

impl Backend {
    /// Makes the backend without sending a call. Fails if the options select Supervisor mode and
    /// `deps` has no client for it, or if the caller's connector makes no transport to a vCenter.
    pub(super) fn new(
        config: &Config,
        options: &Options,
        deps: &Deps,
        active: Active,
    ) -> Result<Self, RunError> {
        let Some(tuning) = options.supervisor else {
            return match options.tuning.mode {
                InstancesMode::V1 => connect_v1(config, options, deps, active).map(Self::VcenterV1),
                InstancesMode::Auto | InstancesMode::Watch | InstancesMode::Poll => {
                    connect(config, options, deps, active).map(Self::Vcenter)
                }
            };
        };
        let link = deps.supervisor.clone().ok_or(RunError::NoSupervisor)?;
        let tuning = SupervisorTuning { seed: deps.seed, ..tuning };
        Ok(match tuning.mode {
            InstancesMode::V1 => {
                let counter = deps.telemetry.supervisor_requests();
                Self::SupervisorV1(SupervisorV1::new(link.client, &link.namespace, tuning, counter))
            }
            InstancesMode::Auto | InstancesMode::Watch | InstancesMode::Poll => {
                let telemetry = &deps.telemetry;
                let (client, namespace) = (link.client, &link.namespace);
                let made = SupervisorInstances::new(client, namespace, tuning, telemetry, active);
                Self::Supervisor(made)
            }
        })
    }

    /// Returns the backend as the interface through which the controllers look up machines.
    pub(super) fn instances(&self) -> Arc<dyn Instances> {
        match self {
            Self::Vcenter(it) => Arc::new(it.clone()),
            Self::VcenterV1(it) => Arc::new(it.clone()),
            Self::Supervisor(it) => Arc::new(it.clone()),
            Self::SupervisorV1(it) => Arc::new(it.clone()),
        }
    }

    /// Registers the backend with health and metrics, which read its state. Does nothing for the
    /// variant `v1` of the Supervisor backend, which keeps no state.
    pub(super) fn show(&self, telemetry: &Telemetry) {
        match self {
            // The backend owns a reference to the telemetry. If the telemetry also owned one to the
            // backend, neither would ever be freed.
            Self::Vcenter(it) => telemetry.set_probe(it.probe()),
            Self::VcenterV1(it) => telemetry.set_probe(it.probe()),
            Self::Supervisor(it) => {
                let it = it.clone();
                telemetry.set_supervisor_probe(Box::new(move || it.reading()));
            }
            // This backend keeps no state between two lookups.
            Self::SupervisorV1(_) => {}
        }
    }

    /// Spawns the tasks of the backend.
    pub(super) fn spawn(&self, tasks: &Tasks) {
        match self {
            Self::Vcenter(it) => it.spawn(tasks),
            Self::VcenterV1(it) => it.spawn(tasks),
            Self::Supervisor(it) => it.spawn(tasks),
            Self::SupervisorV1(it) => it.spawn(tasks),
        }
    }

    /// Logs out of every vCenter; does nothing in Supervisor mode. Called after the tasks have
    /// stopped.
    pub(super) async fn close(&self) {
        match self {
            Self::Vcenter(it) => it.close().await,
            Self::VcenterV1(it) => it.close().await,
            Self::Supervisor(_) | Self::SupervisorV1(_) => {}
        }
    }
}
