//! Makes the parts of a run from its configuration: clients, backend, controllers.

use std::sync::{Arc, Mutex};

use provider_vcenter::{CredentialSource, Vcenter};

use super::{Deps, Options, RunError, credentials::Credentials};
#[cfg(feature = "mutants")]
use crate::mutant::mutant;
use crate::{
    cluster::{Cluster, Events, NodeChange, NodeStore, Pauses, WritePermission, watch_nodes},
    config::Config,
    controllers::{lifecycle, node},
    instances::{Instances, Tuning, VcenterInstances, VcenterPolicy, VcenterV1},
    mutant::Active,
    tasks::Tasks,
    telemetry::NodeNews,
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
fn cluster(options: &Options, deps: &Deps, pauses: &Pauses) -> Cluster {
    let cluster = Cluster::new(deps.kube.clone(), options.kube_api_qps, options.kube_api_burst);
    cluster.counted(deps.telemetry.cluster_requests()).sharing(pauses)
}

/// Makes a client for every vCenter, in the order of the configuration.
fn clients(config: &Config, options: &Options, deps: &Deps) -> Result<Vec<Vcenter>, RunError> {
    #[cfg(feature = "mutants")]
    let active = active(options);
    let secrets = cluster(options, deps, &Pauses::default());
    let mut clients = Vec::new();
    for vcenter in &config.vcenters {
        let transport = (deps.connect)(vcenter)
            .map_err(|what| RunError::Connect { vcenter: vcenter.endpoint.name.clone(), what })?;
        let credentials: Arc<dyn CredentialSource> = Arc::new(Credentials {
            vcenter: vcenter.clone(),
            cluster: secrets.clone(),
            files: deps.secret_files.clone(),
            last: Mutex::new(None),
        });
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

/// Spawns the controllers that the options select, and the node watch that feeds them and the
/// backend. If only the cloud-node controller runs, also spawns a task that reports troubles.
pub(super) fn spawn_controllers(
    options: &Options,
    deps: &Deps,
    backend: &Arc<dyn Instances>,
    lease: Option<WritePermission>,
    active: Active,
    controllers: &Tasks,
    backends: &Tasks,
) {
    let store = Arc::new(NodeStore::new());
    let pauses = Pauses::default();
    let client = || cluster(options, deps, &pauses).with_lease(lease.clone());
    // Events have a separate client, so that a flood of events does not delay the writes of a
    // controller.
    let spawn_events = |component| {
        let (events, sending) = Events::new(component, client(), deps.clock.clone());
        backends.spawn_droppable(tracing::info_span!("events", component), sending);
        events
    };
    let mut node_controller = None;
    if options.cloud_node {
        let cluster = client();
        let events = spawn_events("cloud-node-controller");
        let controller = node::NodeController::new(
            cluster,
            Arc::clone(&store),
            Arc::clone(backend),
            events,
            Arc::clone(&deps.telemetry),
            node::Settings {
                workers: options.concurrent_node_syncs.max(1),
                status_period: options.node_status_period,
                extra_labels: options.node_labels.clone(),
                late_zone: options.supervisor.map(|it| it.late_zone).unwrap_or_default(),
                seed: deps.seed,
                active,
            },
        );
        controller.spawn(controllers);
        deps.telemetry.set_controller("cloud-node", true);
        deps.telemetry.set_check("cloud-node-controller", Ok(()));
        node_controller = Some(controller);
    }
    if options.cloud_node_lifecycle {
        let cluster = client();
        let events = spawn_events("cloud-node-lifecycle-controller");
        lifecycle::LifecycleController::new(
            cluster,
            Arc::clone(&store),
            Arc::clone(backend),
            events,
            Arc::clone(&deps.telemetry),
            lifecycle::Settings {
                period: options.node_monitor_period,
                skip_deletion: options.skip_node_deletion,
                seed: deps.seed,
                active,
            },
        )
        .spawn(controllers);
        deps.telemetry.set_controller("cloud-node-lifecycle", true);
        deps.telemetry.set_check("cloud-node-lifecycle-controller", Ok(()));
    } else if options.cloud_node {
        let reporting = lifecycle::report_troubles(
            Arc::clone(&store),
            Arc::clone(backend),
            spawn_events("cloud-node-controller"),
            Arc::clone(&deps.telemetry),
            options.node_monitor_period,
        );
        controllers.spawn_droppable(tracing::info_span!("troubles"), reporting);
    }
    let (cluster, seed) = (client(), deps.seed);
    let (telemetry, backend) = (Arc::clone(&deps.telemetry), Arc::clone(backend));
    controllers.spawn_droppable(tracing::info_span!("node-watch"), async move {
        let on_change = |change: NodeChange| {
            match &change {
                NodeChange::Applied(node) => {
                    telemetry.node_news(NodeNews::Applied);
                    backend.observe(&node.identity());
                }
                NodeChange::Deleted(node) => {
                    telemetry.node_news(NodeNews::Deleted);
                    backend.forget(&node.name);
                }
            }
            if let Some(controller) = &node_controller {
                controller.on_change(&change);
            }
        };
        watch_nodes(&cluster, &store, seed, &on_change).await;
    });
}
