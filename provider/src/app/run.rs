//! Builds all parts, starts them, and stops them in order.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    Deps, Options,
    backend::Backend,
    build::{active, spawn_controllers},
    leader::Candidate,
};
use crate::{config::Config, mutant::mutant, tasks::Tasks};

/// Time that work in progress may take to finish at the stop.
const GRACE: Duration = Duration::from_secs(10);

/// Time that the last event may take; the API server may be unreachable.
const FAREWELL: Duration = Duration::from_secs(2);

/// Reason why [`run`] ended without a request to stop.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A vCenter cannot be connected to with this configuration.
    #[error("vCenter {vcenter}: {what}")]
    Connect {
        /// Name of the vCenter.
        vcenter: String,
        /// The problem.
        what: String,
    },
    /// Supervisor mode without a Supervisor.
    #[error("Supervisor mode needs a client for the Supervisor, and the caller passed none")]
    NoSupervisor,
    /// The lease was lost. Another replica may lead, so this one must not write any more.
    #[error("the lease was lost")]
    LeadershipLost,
    /// A task panicked, which is a defect; its work may be left undone.
    #[error("a task panicked")]
    Panicked,
}

/// Runs the provider until [`Deps::stop`] is cancelled.
///
/// Order at the end: controllers finish their current write, the lease is released, backends stop, logins end, and an
/// event says that this replica has stopped leading.
///
/// # Errors
///
/// [`RunError::Connect`] and [`RunError::NoSupervisor`] before the first call; [`RunError::LeadershipLost`] when
/// another replica may lead.
///
/// Cancel safe in the sense of a crash: dropping the future stops every task, and leaves the lease and the logins to
/// expire.
pub async fn run(config: Config, options: Options, deps: Deps) -> Result<(), RunError> {
    let clock = deps.clock.clone();
    let active = active(&options);
    let backend = Backend::new(&config, &options, &deps, active)?;
    let crash = CancellationToken::new();
    // Dropping the future must not leave behind tasks that write.
    let _abort = crash.clone().drop_guard();

    let mut candidate = None;
    if let Some(election) = &options.leader_election {
        let mut new = Candidate::new(
            deps.kube.clone(),
            election.clone(),
            deps.identity.clone(),
            clock.clone(),
            deps.seed,
            Arc::clone(&deps.telemetry),
        );
        deps.telemetry.set_election(&election.name, election.lease_duration);
        tracing::info!(identity = %deps.identity, "waiting for the lease");
        if deps.stop.run_until_cancelled(new.acquire()).await.is_none() {
            return Ok(());
        }
        tracing::info!(identity = %deps.identity, "leading");
        candidate = Some(new);
    }
    deps.telemetry.set_leader(true);
    deps.telemetry.set_settled();

    let panicked = CancellationToken::new();
    let tasks = || {
        let tasks = Tasks::new(&crash, &panicked);
        #[cfg(feature = "mutants")]
        let tasks = tasks.suspended_by(&deps.suspension);
        tasks
    };
    let (controllers, backends) = (tasks(), tasks());
    let lease = candidate.as_ref().map(Candidate::lease);
    if let Some(candidate) = &candidate {
        let announcing = candidate.announce("became leader");
        backends.spawn_droppable(tracing::info_span!("leader-event"), announcing);
    }
    backend.show(&deps.telemetry);
    if !mutant!(active, Idle) {
        backend.spawn(&backends);
        let instances = backend.instances();
        let held = lease.clone();
        spawn_controllers(&options, &deps, &instances, held, active, &controllers, &backends);
    }

    let lost = async {
        match &mut candidate {
            None => std::future::pending().await,
            Some(candidate) => candidate.renew_until_lost().await,
        }
    };
    let outcome = tokio::select! {
        // A requested stop takes precedence over a loss at the same moment.
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
    if outcome.is_ok() && !controllers.stop(GRACE).await {
        tracing::warn!("controllers did not stop in time");
    }
    // Ends before the lease is given up: a controller that did not stop in time must not write beside the next leader.
    if let Some(lease) = &lease {
        lease.end();
    }
    crash.cancel();
    if let (Ok(()), Some(candidate)) = (&outcome, &mut candidate) {
        candidate.release().await;
    }
    backends.stop(GRACE).await;
    if !mutant!(active, NoLogout) {
        backend.close().await;
    }
    if let Some(candidate) = &candidate {
        // The event is the last step, so that it holds up nothing else.
        let announcing = candidate.announce("stopped leading");
        let _ = tokio::time::timeout(FAREWELL, announcing).await;
    }
    outcome
}
