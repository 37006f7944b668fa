//! Builds everything, starts it, and stops it in order.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use provider_vcenter::{CredentialSource, Vcenter};
use tokio_util::sync::CancellationToken;

use super::{Deps, Options, credentials::Credentials, leader::Candidate};
use crate::{
    cluster::{Cluster, Events, NodeChange, NodeStore, watch_nodes},
    config::Config,
    controllers::{lifecycle, node},
    instances::{Instances, Tuning, VcenterInstances, vcenter_policy},
    model::Clock,
    mutant::{Active, mutant},
    tasks::Tasks,
    telemetry::NodeNews,
};

/// Work under way at the stop may take this long to finish.
const GRACE: Duration = Duration::from_secs(10);

/// The last event may take this long; the API server may be what was lost.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why [`run`] ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A vCenter cannot be connected to with this configuration.
    #[error("vCenter {vcenter}: {what}")]
    Connect {
        /// Its name.
        vcenter: String,
        /// What is wrong.
        what: String,
    },
    /// The lease was lost. Another replica leads; this one must not write any more.
    #[error("the lease was lost")]
    LeadershipLost,
    /// A task panicked, which is a defect; what it would have done is not known to be done.
    #[error("a task panicked")]
    Panicked,
}

/// Runs the provider until [`Deps::stop`] is cancelled.
///
/// Order at the end: controllers finish the write they are at, the lease is released, backends stop, logins are ended,
/// and an event says that this replica has stopped leading.
///
/// # Errors
///
/// [`RunError::Connect`] before anything is called; [`RunError::LeadershipLost`] when another replica may lead.
///
/// Cancel safe in the sense of a crash: dropping the future stops every task, and leaves the lease and the logins to
/// expire.
pub async fn run(config: Config, options: Options, deps: Deps) -> Result<(), RunError> {
    let clock = Clock::starting_at(deps.epoch);
    let active = active(&options);
    let instances = connect(&config, &options, &deps, active)?;
    let crash = CancellationToken::new();
    // Dropping the future must not leave tasks behind that write.
    let _abort = crash.clone().drop_guard();

    let mut candidate = None;
    if let Some(election) = &options.leader_election {
        let mut new = Candidate::new(
            deps.kube.clone(),
            election.clone(),
            deps.identity.clone(),
            clock,
            deps.seed,
        );
        tracing::info!(identity = %deps.identity, "waiting for the lease");
        if deps.stop.run_until_cancelled(new.acquire()).await.is_none() {
            return Ok(());
        }
        tracing::info!(identity = %deps.identity, "leading");
        candidate = Some(new);
    }
    deps.telemetry.set_leader(true);

    let panicked = CancellationToken::new();
    let controllers = Tasks::new(&crash, &panicked);
    let backends = Tasks::new(&crash, &panicked);
    if let Some(candidate) = &candidate {
        let announcing = candidate.announce("became leader");
        backends.spawn_droppable(tracing::info_span!("leader-event"), announcing);
    }
    instances.spawn(&backends);
    let probe = instances.clone();
    deps.telemetry.set_probe(Box::new(move || probe.health()));
    spawn_controllers(&options, &deps, &instances, clock, active, &controllers, &backends);

    let lost = async {
        match &mut candidate {
            None => std::future::pending().await,
            Some(candidate) => candidate.renew_until_lost().await,
        }
    };
    let outcome = tokio::select! {
        // A stop that was asked for wins over a loss at the same moment.
        biased;
        () = deps.stop.cancelled() => Ok(()),
        () = panicked.cancelled() => Err(RunError::Panicked),
        () = lost => Err(RunError::LeadershipLost),
    };
    match &outcome {
        Ok(()) => tracing::info!("stopping"),
        Err(err) => tracing::error!(error = %err, "stopping"),
    }
    deps.telemetry.set_leader(false);
    if outcome.is_ok() {
        if !controllers.stop(GRACE).await {
            tracing::warn!("controllers did not stop in time");
        }
        if let Some(candidate) = &mut candidate {
            candidate.release().await;
        }
    }
    // Also ends whatever did not stop in time; without the lease nothing may be written.
    crash.cancel();
    backends.stop(GRACE).await;
    if !mutant!(active, NoLogout) {
        instances.close().await;
    }
    if let Some(candidate) = &candidate {
        // Last, so that it holds up nothing else.
        let announcing = candidate.announce("stopped leading");
        let _ = tokio::time::timeout(FAREWELL, announcing).await;
    }
    outcome
}

fn active(options: &Options) -> Active {
    #[cfg(feature = "mutants")]
    return Active { mutant: options.mutant };
    #[cfg(not(feature = "mutants"))]
    {
        let _ = options;
        Active::default()
    }
}

fn connect(
    config: &Config,
    options: &Options,
    deps: &Deps,
    active: Active,
) -> Result<VcenterInstances, RunError> {
    let Config { vcenters, selection, zones } = config;
    let secrets = Cluster::new(deps.kube.clone(), options.kube_api_qps, options.kube_api_burst);
    let mut clients = Vec::new();
    for vcenter in vcenters {
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
    let families = vcenters.iter().map(|vcenter| vcenter.families.clone()).collect();
    let datacenters = vcenters.iter().map(|vcenter| vcenter.datacenters.clone()).collect();
    let policy = vcenter_policy(selection.clone(), families, datacenters, zones.clone(), active);
    let tuning = Tuning {
        seed: deps.seed,
        absence_period: options.tuning.absence_period.max(options.node_monitor_period),
        ..options.tuning.clone()
    };
    Ok(VcenterInstances::new(clients, policy, tuning, Arc::clone(&deps.telemetry)))
}

fn spawn_controllers(
    options: &Options,
    deps: &Deps,
    instances: &VcenterInstances,
    clock: Clock,
    active: Active,
    controllers: &Tasks,
    backends: &Tasks,
) {
    let backend: Arc<dyn Instances> = Arc::new(instances.clone());
    let store = Arc::new(NodeStore::new());
    let client = || Cluster::new(deps.kube.clone(), options.kube_api_qps, options.kube_api_burst);
    let spawn_events = |component, cluster| {
        let (events, sending) = Events::new(component, cluster, clock);
        backends.spawn_droppable(tracing::info_span!("events", component), sending);
        events
    };
    let mut node_controller = None;
    if options.cloud_node {
        let cluster = client();
        let events = spawn_events("cloud-node-controller", cluster.clone());
        let controller = node::NodeController::new(
            cluster,
            Arc::clone(&store),
            Arc::clone(&backend),
            events,
            Arc::clone(&deps.telemetry),
            node::Settings {
                workers: options.concurrent_node_syncs.max(1),
                status_period: options.node_status_period,
                extra_labels: options.node_labels.clone(),
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
        let events = spawn_events("cloud-node-lifecycle-controller", cluster.clone());
        lifecycle::LifecycleController::new(
            cluster,
            Arc::clone(&store),
            Arc::clone(&backend),
            events,
            Arc::clone(&deps.telemetry),
            clock,
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
    }
    let (cluster, seed) = (client(), deps.seed);
    let telemetry = Arc::clone(&deps.telemetry);
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
