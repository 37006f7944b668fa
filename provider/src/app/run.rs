//! Builds all parts of the provider, starts them, and stops them in order.

use std::{sync::Arc, time::Duration};

use provider_vcenter::VcenterName;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    Deps, LeaderElection, Leadership, Options, backend::Backend, build::active,
    controllers::Controllers, leader::Candidate,
};
use crate::{
    cluster::WritePermission,
    config::Config,
    mutant::{Active, mutant},
    tasks::Tasks,
};

/// Longest time for which the stop waits until the controllers and the server beside them have finished
/// their current work, and again until the tasks of the backend have ended.
const GRACE: Duration = Duration::from_secs(10);

/// Longest time for which the stop waits until the last event is sent; the API server may be
/// unreachable.
const FAREWELL: Duration = Duration::from_secs(2);

/// Reason why [`run`] ended without a request to stop.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The caller's [`Connector`](super::Connector) made no transport to a vCenter.
    #[error("vCenter {vcenter}: {what}")]
    Connect {
        /// Name of the vCenter.
        vcenter: VcenterName,
        /// The problem.
        what: String,
    },
    /// The options select Supervisor mode, but [`Deps::supervisor`] is `None`.
    #[error(
        "Supervisor mode needs a client for the Supervisor, but the caller of the library passed \
         none; set Deps::supervisor"
    )]
    NoSupervisor,
    /// This replica has lost the lease. Another replica may lead, so this one must not write any
    /// more.
    #[error("this replica lost the lease and stops; another replica may lead now")]
    LeadershipLost,
    /// The server that runs beside the controllers has failed.
    #[error("{0}")]
    SideServer(String),
    /// A task panicked, which is a bug of the provider. The work of the task may be left undone.
    #[error("a task of the provider panicked; report this bug with the log")]
    Panicked,
}

/// Runs the provider until [`Deps::stop`] is cancelled or the run fails.
///
/// Order after a requested stop: the controllers finish their current write and the server beside them
/// answers its open requests, the provider releases the lease, the backend stops and logs out, and an
/// event reports that this replica has stopped leading. The same order follows a failure of the server
/// beside the controllers. After another failure the provider drops the controllers at once and leaves
/// the lease to expire, but the other steps follow.
///
/// # Errors
///
/// [`RunError::Connect`] and [`RunError::NoSupervisor`] before the first call;
/// [`RunError::LeadershipLost`] if another replica may lead; [`RunError::SideServer`] if the server
/// beside the controllers fails; [`RunError::Panicked`] after a panic in a task.
///
/// Cancel safe in the sense of a crash: dropping the future stops every task, and leaves the lease
/// and the sessions to expire.
pub async fn run(config: Config, options: Options, deps: Deps) -> Result<(), RunError> {
    let active = active(&options);
    let backend = Backend::new(&config, &options, &deps, active)?;
    let crash = CancellationToken::new();
    // If the caller drops the future, this guard drops all tasks, so that none of them goes on
    // writing.
    let _abort = crash.clone().drop_guard();

    let mut candidate = options.leader_election.as_ref().map(|it| candidate(it, &deps));
    if let Some(candidate) = &mut candidate {
        tracing::info!(identity = %deps.identity, "waiting for the lease; the controllers start when this replica holds it");
        if deps.stop.run_until_cancelled(candidate.acquire()).await.is_none() {
            return Ok(());
        }
        tracing::info!(identity = %deps.identity, "leading now; starting the controllers");
    }
    deps.telemetry.set_leader(true);
    deps.telemetry.set_settled();
    let mut running = ActiveRun::start(backend, candidate, crash, &options, &deps, active);
    let outcome = running.until_end(&deps.stop).await;
    match &outcome {
        Ok(()) => {
            tracing::info!("stopping the controllers, then releasing the lease and logging out")
        }
        Err(err) => {
            tracing::error!(error = %err, "the provider cannot go on; stopping all its tasks")
        }
    }
    deps.telemetry.set_leader(false);
    running.stop(&outcome, active).await;
    outcome
}

/// Makes the candidate for the lease, and shows the election in telemetry.
fn candidate(election: &LeaderElection, deps: &Deps) -> Candidate {
    deps.telemetry.set_election(&election.name, election.lease_duration);
    Candidate::new(
        deps.kube.clone(),
        election.clone(),
        deps.identity.clone(),
        deps.clock.clone(),
        deps.seed,
        Arc::clone(&deps.telemetry),
    )
}

/// Spawns the server of [`Deps::side_server`], if there is one. Returns the channel with the reason why
/// it fails, on which nothing arrives as long as it works.
fn spawn_server(
    deps: &Deps,
    permission: Option<WritePermission>,
    controllers: &Tasks,
) -> oneshot::Receiver<String> {
    let (failing, failed) = oneshot::channel();
    if let Some(start) = &deps.side_server {
        let serving = start(Leadership { stop: controllers.stopping(), permission });
        controllers.spawn(tracing::info_span!("server"), async move {
            if let Err(why) = serving.await {
                // The receiver is gone if the run has ended.
                let _ = failing.send(why);
            }
        });
    }
    failed
}

/// A run whose tasks are spawned.
struct ActiveRun {
    backend: Backend,
    /// The holder of the lease; `None` without leader election.
    candidate: Option<Candidate>,
    controllers: Tasks,
    /// Tasks of the backend, and those that send events.
    backends: Tasks,
    /// Drops all tasks when cancelled.
    crash: CancellationToken,
    /// Cancelled after a panic in a task.
    panicked: CancellationToken,
    /// Reason why the server beside the controllers has failed.
    failed: oneshot::Receiver<String>,
}

impl ActiveRun {
    /// Spawns the tasks of the backend and the controllers.
    fn start(
        backend: Backend,
        candidate: Option<Candidate>,
        crash: CancellationToken,
        options: &Options,
        deps: &Deps,
        active: Active,
    ) -> Self {
        let panicked = CancellationToken::new();
        let tasks = || {
            let tasks = Tasks::new(&crash, &panicked);
            #[cfg(feature = "mutants")]
            let tasks = tasks.suspended_by(&deps.suspension);
            tasks
        };
        let (controllers, backends) = (tasks(), tasks());
        if let Some(candidate) = &candidate {
            let announcing = candidate.announce("became leader");
            backends.spawn_droppable(tracing::info_span!("leader-event"), announcing);
        }
        backend.show(&deps.telemetry);
        if !mutant!(active, Idle) {
            backend.spawn(&backends);
            let lease = candidate.as_ref().map(Candidate::lease);
            let parts = Controllers::new(options, deps, backend.instances(), lease, active);
            parts.spawn(&controllers, &backends);
        }
        let lease = candidate.as_ref().map(Candidate::lease);
        let failed = spawn_server(deps, lease, &controllers);
        Self { backend, candidate, controllers, backends, crash, panicked, failed }
    }

    /// Waits until `stop` is cancelled or the run fails.
    async fn until_end(&mut self, stop: &CancellationToken) -> Result<(), RunError> {
        let lost = async {
            match &mut self.candidate {
                None => std::future::pending().await,
                Some(candidate) => candidate.renew_until_lost().await,
            }
        };
        tokio::select! {
            // A requested stop takes precedence over a lost lease at the same moment.
            biased;
            () = stop.cancelled() => Ok(()),
            () = self.panicked.cancelled() => Err(RunError::Panicked),
            Ok(why) = &mut self.failed => Err(RunError::SideServer(why)),
            () = lost => Err(RunError::LeadershipLost),
        }
    }

    /// Stops the tasks in the order that [`run`] promises for this outcome.
    async fn stop(mut self, outcome: &Result<(), RunError>, active: Active) {
        // The controllers and the lease are sound if only the server beside them has failed.
        let is_in_order = matches!(outcome, Ok(()) | Err(RunError::SideServer(_)));
        if is_in_order && !self.controllers.stop(GRACE).await {
            tracing::warn!("the controllers did not stop in time; dropping their tasks");
        }
        // The permission to write ends before the provider releases the Lease, so that a controller
        // that has not stopped does not write beside the next leader.
        if let Some(candidate) = &self.candidate {
            candidate.lease().end();
        }
        self.crash.cancel();
        if let (true, Some(candidate)) = (is_in_order, &mut self.candidate) {
            candidate.release().await;
        }
        self.backends.stop(GRACE).await;
        if !mutant!(active, NoLogout) {
            self.backend.close().await;
        }
        if let Some(candidate) = &self.candidate {
            // The event is the last step, so that it delays nothing else.
            let announcing = candidate.announce("stopped leading");
            let _ = tokio::time::timeout(FAREWELL, announcing).await;
        }
    }
}
