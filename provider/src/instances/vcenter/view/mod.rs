//! Keeps the machines of joined nodes in one list view with one filter, and waits for what changes.
//!
//! While the wait blocks, the view is told of joined and parted machines; the collector then delivers them to the
//! same wait. What is lost with a session, a restart or a collector version is built again: one login, one view, one
//! filter, one delivery. Until then the old picture stays, and nobody takes absence from it.

mod deliveries;
mod members;

use std::{collections::BTreeSet, time::Duration};

use provider_vcenter::{Backoff, CallError, Chain, FaultKind, Jitter, MoRef, Retry};
use tokio::time::Instant;

pub(super) use self::members::left;
use self::{
    deliveries::{deliver, settle},
    members::{Built, abandon, adjust, build},
};
use super::{Shared, reread::Reread, state::VcenterIndex};
use crate::mutant::mutant;

/// A filter that fails this often in a row is built anew.
const MAX_FAILURES_PER_FILTER: u32 = 2;

/// While there is nothing to wait for, the session is kept alive this often. vCenter ends one after 30 idle minutes;
/// an administrator may shorten that, and a login costs more than this call.
const KEEP_ALIVE: Duration = Duration::from_secs(300);

/// A view that has lived this long is a success: the next loss begins a new series of pauses. One that is lost again
/// sooner is part of the trouble, however much it delivered.
const LIVED: Duration = Duration::from_secs(5);

/// Serves the view for ever.
pub(super) async fn run(shared: &Shared, index: VcenterIndex) {
    let backend = &shared.vcenters[index];
    let jitter = Jitter::new(shared.tuning.seed, &format!("{}/view", backend.client.name()));
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), jitter);
    let mut optional_paths_refused = BTreeSet::new();
    let mut was_logged_out = false;
    loop {
        while shared.lock().vcenters[index].desired.is_empty() {
            idle(shared, index).await;
        }
        let err = match build(shared, index, &mut optional_paths_refused).await {
            Ok(built) => {
                shared.telemetry.view_built(backend.client.name());
                watch(shared, index, &built, &mut backoff).await
            }
            Err(err) => err,
        };
        {
            let vcenter = &mut shared.lock().vcenters[index];
            vcenter.fresh = false;
            vcenter.troubled = true;
        }
        let is_first = backoff.failures() == 0;
        let pause = backoff.fail();
        let is_logged_out = err.retry() == Retry::AfterLogin;
        // To learn that the session is gone is to be answered; the login that follows need not wait, unless it was no help.
        let is_answered = is_logged_out && !was_logged_out;
        was_logged_out = is_logged_out;
        let pause = match err.retry() {
            _ if is_answered => Duration::ZERO,
            // What was lost is on our side of the wire; the first attempt to build it again need not wait.
            Retry::AfterLogin | Retry::Never if is_first => Duration::ZERO,
            _ if is_first && is_session_bound_loss(&err) => Duration::ZERO,
            Retry::After(wait) => wait.min(Duration::from_secs(60)),
            _ => pause,
        };
        tracing::warn!(error = %Chain(&err), pause = ?pause, "the view is lost and will be built anew");
        tokio::time::sleep(pause).await;
    }
}

/// Waits for a machine to be watched, or until it is time to keep the session alive, and does so.
async fn idle(shared: &Shared, index: VcenterIndex) {
    let backend = &shared.vcenters[index];
    if tokio::time::timeout(KEEP_ALIVE, backend.view.notified()).await.is_ok() {
        return;
    }
    // A session that has ended is made anew by whoever needs one; until then nobody does.
    if let Err(err) = backend.client.keep_alive().await {
        tracing::info!(error = %Chain(&err), "session not kept alive");
    }
}

fn is_session_bound_loss(err: &CallError) -> bool {
    matches!(
        err.fault(),
        Some(
            FaultKind::InvalidCollectorVersion
                | FaultKind::RequestCanceled
                | FaultKind::ManagedObjectNotFound(_)
        )
    )
}

/// Waits for changes until the view is lost; says how.
async fn watch(
    shared: &Shared,
    index: VcenterIndex,
    built: &Built,
    backoff: &mut Backoff,
) -> CallError {
    let backend = &shared.vcenters[index];
    let client = &backend.client;
    let mut version = String::new();
    let mut truncated = false;
    let mut entered: Option<BTreeSet<MoRef>> = Some(BTreeSet::new());
    let mut failures = 0;
    let built_at = Instant::now();
    let mut reread = Reread::new(shared, index, &built.paths);
    loop {
        reread.plan();
        // The first delivery is there at once or not at all; nothing may block before the picture is whole, nor
        // before it is known whether the view outlived a failure.
        let is_settled = entered.is_none() && failures == 0;
        let wait = if is_settled { client.poll() } else { Duration::ZERO };
        let result = {
            let poll = client.wait_for_updates(&built.session, &version, wait);
            tokio::pin!(poll);
            loop {
                tokio::select! {
                    // Deliveries first: they may be what the next change of the view depends on.
                    biased;
                    result = &mut poll => break result,
                    () = backend.view.notified() => {
                        if let Err(err) = adjust(shared, index, built).await {
                            break Err(err);
                        }
                    }
                    () = reread.due() => {
                        reread.run().await;
                        reread.plan();
                    }
                }
            }
        };
        if failures == 0 && built_at.elapsed() >= LIVED {
            backoff.reset();
        }
        match result {
            Ok(set) => {
                failures = 0;
                shared.lock().vcenters[index].troubled = false;
                let is_truncated = set.as_ref().is_some_and(|s| s.truncated);
                if let Some(set) = set {
                    shared.telemetry.delivered(client.name(), &set);
                    deliver(shared, index, &set, entered.as_mut());
                    truncated = set.truncated;
                    version = set.version;
                }
                if !is_truncated && let Some(entered) = entered.take() {
                    settle(shared, index, &entered);
                }
            }
            Err(err) => {
                shared.lock().vcenters[index].fresh = false;
                if matches!(err.fault(), Some(FaultKind::InvalidCollectorVersion))
                    && mutant!(shared.policy.active, IgnoreInvalidCollectorVersion)
                {
                    std::future::pending::<()>().await;
                }
                failures += 1;
                let is_lost = matches!(err.retry(), Retry::AfterLogin | Retry::Never)
                    || failures > MAX_FAILURES_PER_FILTER;
                if is_lost {
                    abandon(shared, index, built, &err).await;
                    return err;
                }
                if is_session_bound_loss(&err) || truncated {
                    // The filter may still be there: everything again from it costs one call.
                    version.clear();
                    entered = Some(BTreeSet::new());
                    truncated = false;
                }
                if !is_session_bound_loss(&err) {
                    shared.lock().vcenters[index].troubled = true;
                    let pause = match err.retry() {
                        Retry::After(wait) => wait.min(Duration::from_secs(60)),
                        _ => backoff.fail(),
                    };
                    tracing::warn!(error = %Chain(&err), pause = ?pause, "waiting for changes failed");
                    tokio::time::sleep(pause).await;
                }
            }
        }
        let vcenter = &mut shared.lock().vcenters[index];
        if entered.is_none() && failures == 0 {
            vcenter.fresh = true;
        }
    }
}
