//! Makes the clients of a run and its vCenter backend from the configuration.

use std::sync::Arc;

use provider_vcenter::{CredentialSource, Vcenter};

use super::{Deps, Options, RunError};
#[cfg(feature = "mutants")]
use crate::mutant::mutant;
use crate::{
    cluster::{Cluster, Pauses},
    config::{Config, Credentials},
    instances::{Tuning, VcenterInstances, VcenterPolicy, VcenterV1},
    mutant::Active,
};

/// Returns the deliberate defect that the options select, if any.
pub(super) fn active(options: &Options) -> Active {
    #[cfg(feature = "mutants")]
    return Active { mutant: options.mutant };
    #[cfg(not(feature = "mutants"))]
    {
        let _ = options;
        Active::default()
    }
}

/// Makes the vCenter backend for every instances mode except `v1`, without sending a call.
pub(super) fn connect(
    config: &Config,
    options: &Options,
    deps: &Deps,
    active: Active,
) -> Result<VcenterInstances, RunError> {
    let clients = clients(config, options, deps)?;
    let (policy, tuning) = (policy(config, active), tuning(options, deps));
    Ok(VcenterInstances::new(clients, policy, tuning, Arc::clone(&deps.telemetry)))
}

/// Makes the vCenter backend for the instances mode `v1`, which makes upstream's calls; sends no
/// call yet.
pub(super) fn connect_v1(
    config: &Config,
    options: &Options,
    deps: &Deps,
    active: Active,
) -> Result<VcenterV1, RunError> {
    let clients = clients(config, options, deps)?;
    let (policy, tuning) = (policy(config, active), tuning(options, deps));
    Ok(VcenterV1::new(clients, policy, tuning, options.skip_node_deletion))
}

/// Makes a client of the workload cluster with a separate rate limit. Telemetry counts the requests
/// of the client, and the client shares `pauses`.
pub(super) fn cluster(options: &Options, deps: &Deps, pauses: &Pauses) -> Cluster {
    let cluster = Cluster::new(deps.kube.clone(), options.kube_api_qps, options.kube_api_burst);
    cluster.with_counter(deps.telemetry.cluster_requests()).with_pauses(pauses)
}

/// Makes a client for every vCenter, in the order of the configuration. Fails if the caller's
/// connector makes no transport to one of them.
fn clients(config: &Config, options: &Options, deps: &Deps) -> Result<Vec<Vcenter>, RunError> {
    #[cfg(feature = "mutants")]
    let active = active(options);
    let secrets = cluster(options, deps, &Pauses::default());
    let mut clients = Vec::new();
    for vcenter in &config.vcenters {
        let transport = (deps.connect)(vcenter)
            .map_err(|what| RunError::Connect { vcenter: vcenter.endpoint.name.clone(), what })?;
        let (cluster, files) = (Some(secrets.clone()), deps.secret_files.clone());
        let credentials: Arc<dyn CredentialSource> =
            Arc::new(Credentials::new(vcenter, cluster, files));
        let settings = provider_vcenter::Settings {
            call_deadline: options.vcenter_deadline,
            poll: options.vcenter_poll,
            seed: deps.seed,
            observer: Some(Arc::clone(&deps.telemetry) as _),
            #[cfg(feature = "mutants")]
            defects: provider_vcenter::Defects {
                no_single_flight: mutant!(active, NoSingleFlight),
                login_per_call: mutant!(active, LoginPerCall),
                no_deadline: mutant!(active, NoDeadline),
                no_lockout: mutant!(active, NoLockout),
            },
            ..provider_vcenter::Settings::default()
        };
        clients.push(Vcenter::new(&vcenter.endpoint, transport, credentials, settings));
    }
    Ok(clients)
}

fn policy(config: &Config, active: Active) -> VcenterPolicy {
    let Config { vcenters, selection, zones } = config;
    VcenterPolicy {
        selection: selection.clone(),
        families: vcenters.iter().map(|vcenter| vcenter.families.clone()).collect(),
        datacenters: vcenters.iter().map(|vcenter| vcenter.datacenters.clone()).collect(),
        zones: zones.clone(),
        active,
    }
}

fn tuning(options: &Options, deps: &Deps) -> Tuning {
    Tuning {
        seed: deps.seed,
        absence_period: options.tuning.absence_period.max(options.node_monitor_period),
        ..options.tuning.clone()
    }
}
