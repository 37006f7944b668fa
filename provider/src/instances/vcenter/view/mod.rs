//! Keeps the machines of linked nodes in one list view with one filter, and waits for changes.
//!
//! While the wait blocks, another call adds newly linked machines to the view and removes those
//! without a link. The collector then delivers the added machines to the same wait. After the loss
//! of the session or a restart of vCenter, the view is rebuilt: one login, one view, one filter,
//! one delivery. After the loss of the collector version alone, the next wait delivers everything
//! again. Until then the backend keeps the old state and concludes no absence from it.
//!
//! [`course`] decides what follows from the outcome of each call; this file makes the calls.

mod course;
mod deliveries;
mod members;

use std::{collections::BTreeSet, pin::Pin, time::Duration};

use provider_vcenter::{Backoff, CallError, Chain, FaultKind, Jitter, MoRef, Retry, UpdateSet};
use tokio::time::Instant;

pub(super) use self::members::mark_not_visible;
use self::{
    course::{CallOutcome, LossKind, NextCall, ViewProgress},
    deliveries::{deliver, settle},
    members::{Built, abandon, adjust, build},
};
use super::{Shared, idle::keep_alive, reread::Reread, state::VcenterIndex};
use crate::mutant::mutant;

/// Interval of keep-alive calls while the view has no machine. vCenter ends a session after 30 idle
/// minutes, and an administrator may shorten that. A login costs more than this call.
const KEEP_ALIVE: Duration = Duration::from_secs(300);

/// Lifetime from which on a view counts as a success, so that its loss begins a new series of
/// pauses. The loss of a younger view lengthens the pauses, however much the view delivered.
const LIVED: Duration = Duration::from_secs(5);

/// Keeps the view of one vCenter. Never ends.
pub(super) async fn run(shared: &Shared, index: VcenterIndex) {
    let backend = &shared.vcenters[index];
    let jitter = Jitter::new(shared.tuning.seed, &format!("{}/view", backend.client.name()));
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), jitter);
    let mut optional_paths_refused = BTreeSet::new();
    let mut was_logged_out = false;
    loop {
        while shared.lock().vcenters[index].linked.is_empty() {
            idle(shared, index).await;
        }
        let (err, what) = match build(shared, index, &mut optional_paths_refused).await {
            Ok(built) => {
                shared.telemetry.view_built(backend.client.name());
                let err = watch(shared, index, &built, &mut backoff).await;
                (
                    err,
                    "lost the vCenter view that reports changes of machines; building it again after the pause",
                )
            }
            Err(err) => (
                err,
                "cannot build the vCenter view that reports changes of machines; retrying after the pause",
            ),
        };
        let is_first = backoff.failures() == 0;
        let pause = backoff.next_pause();
        let is_logged_out = err.retry() == Retry::AfterLogin;
        // An answer that the session is gone shows that vCenter works. The following login need not
        // wait, unless the last login did not help.
        let is_answered = is_logged_out && !was_logged_out;
        was_logged_out = is_logged_out;
        {
            let vcenter = &mut shared.lock().vcenters[index];
            vcenter.is_current = false;
            vcenter.last_call_failed |= !is_answered;
        }
        let pause = match err.retry() {
            _ if is_answered => Duration::ZERO,
            // The login or the objects of the view are lost, and vCenter answers. The first attempt
            // to rebuild need not wait.
            Retry::AfterLogin | Retry::Never if is_first => Duration::ZERO,
            _ if is_first && is_session_bound_loss(&err) => Duration::ZERO,
            retry => retry.pause(pause),
        };
        tracing::warn!(error = %Chain(&err), pause = ?pause, "{what}");
        tokio::time::sleep(pause).await;
    }
}

/// Waits until the links of nodes change. If none changes within [`KEEP_ALIVE`], keeps the session
/// alive and returns.
async fn idle(shared: &Shared, index: VcenterIndex) {
    let backend = &shared.vcenters[index];
    if tokio::time::timeout(KEEP_ALIVE, backend.view.notified()).await.is_ok() {
        return;
    }
    keep_alive(shared, index).await;
}

/// True if the server says that the version, the wait or an object of the session is gone.
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

/// Result of one wait for changes; `None` if nothing changed.
type Delivery = Result<Option<UpdateSet>, CallError>;

/// Waits for changes until the view is lost. Returns the error that caused the loss.
async fn watch(
    shared: &Shared,
    index: VcenterIndex,
    built: &Built,
    backoff: &mut Backoff,
) -> CallError {
    let backend = &shared.vcenters[index];
    let client = &backend.client;
    let jitter = Jitter::new(shared.tuning.seed, &format!("{}/members", client.name()));
    let mut pauses = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), jitter);
    let mut course = ViewProgress::new();
    let mut version = String::new();
    let mut entered: BTreeSet<MoRef> = BTreeSet::new();
    let built_at = Instant::now();
    let mut reread = Reread::new(shared, index, &built.paths);
    loop {
        // Another call may have found that the session has ended. View and filter have ended with
        // it.
        if let Err(err) = client.still_holds(&built.session) {
            return err;
        }
        reread.plan(course.is_whole());
        // The first delivery comes at once or not at all. The wait may not block before all members
        // were delivered, nor after a failure until the next wait succeeds.
        let wait = if course.may_block() { client.poll() } else { Duration::ZERO };
        let waited = {
            let poll = client.wait_for_updates(&built.session, &version, wait);
            tokio::pin!(poll);
            let mut parts = (&mut course, &mut reread, &mut pauses);
            wait_and_change(shared, index, built, poll.as_mut(), &mut parts).await
        };
        let result = match waited {
            Ok(result) => result,
            Err(err) => {
                abandon(shared, index, built, &err).await;
                return err;
            }
        };
        if course.may_block() && built_at.elapsed() >= LIVED {
            backoff.reset();
        }
        let happened = match &result {
            Ok(set) => {
                CallOutcome::Delivered { truncated: set.as_ref().is_some_and(|set| set.truncated) }
            }
            Err(err) => CallOutcome::WaitFailed(LossKind::of(err)),
        };
        let was_whole = course.is_whole();
        let next = course.next(happened, &mut pauses);
        {
            let vcenter = &mut shared.lock().vcenters[index];
            vcenter.is_current = course.is_current() && next != NextCall::Settle;
            if result.is_ok() {
                vcenter.last_call_failed = false;
            }
        }
        if let Ok(Some(set)) = &result {
            shared.telemetry.delivered(client.name(), set);
            deliver(shared, index, set, (!was_whole).then_some(&mut entered));
            version.clone_from(&set.version);
        }
        let err = result.err();
        if matches!(
            err.as_ref().and_then(CallError::fault),
            Some(FaultKind::InvalidCollectorVersion)
        ) && mutant!(shared.policy.active, IgnoreInvalidCollectorVersion)
        {
            std::future::pending::<()>().await;
        }
        match (next, err) {
            (NextCall::Settle, _) => {
                settle(shared, index, &std::mem::take(&mut entered));
                shared.lock().vcenters[index].is_current = true;
            }
            (NextCall::BeginAgain, _) => begin_again(&mut version, &mut entered),
            (NextCall::Pause { wanted, begin_again: again }, Some(err)) => {
                if again {
                    begin_again(&mut version, &mut entered);
                }
                shared.lock().vcenters[index].last_call_failed = true;
                let pause = backoff.next_pause().max(wanted.unwrap_or_default());
                tracing::warn!(error = %Chain(&err), pause = ?pause, "waiting for changes of machines failed; retrying");
                tokio::time::sleep(pause).await;
            }
            (NextCall::Rebuild, Some(err)) => {
                abandon(shared, index, built, &err).await;
                return err;
            }
            (NextCall::WaitOn | NextCall::Pause { .. } | NextCall::Rebuild, _) => {}
        }
    }
}

/// Makes the next wait start from no version. If the filter still exists, the wait then delivers
/// everything again.
fn begin_again(version: &mut String, entered: &mut BTreeSet<MoRef>) {
    version.clear();
    entered.clear();
}

/// Waits for changes. Meanwhile changes the members of the view when needed, and reads incomplete
/// machines again.
///
/// # Errors
///
/// If a change of the members failed in a way that requires a new view.
async fn wait_and_change(
    shared: &Shared,
    index: VcenterIndex,
    built: &Built,
    mut poll: Pin<&mut impl Future<Output = Delivery>>,
    (course, reread, pauses): &mut (&mut ViewProgress, &mut Reread<'_>, &mut Backoff),
) -> Result<Delivery, CallError> {
    let backend = &shared.vcenters[index];
    loop {
        let change = async {
            match course.change_at() {
                Some(at) => tokio::time::sleep_until(at).await,
                None => backend.view.notified().await,
            }
        };
        tokio::select! {
            // Deliveries come first, because the next change of the view may depend on them.
            biased;
            result = &mut poll => return Ok(result),
            () = change => {
                let result = match backend.client.still_holds(&built.session) {
                    Ok(()) => adjust(shared, index, built).await,
                    Err(err) => Err(err),
                };
                let happened = match &result {
                    Ok(()) => CallOutcome::Changed,
                    Err(err) => CallOutcome::ChangeFailed(LossKind::of(err)),
                };
                let next = course.next(happened, pauses);
                reread.plan(course.is_whole());
                let Err(err) = result else { continue };
                tracing::warn!(error = %Chain(&err), next = ?next, "adding machines to the vCenter view, or removing them from it, failed; retrying");
                if next == NextCall::Rebuild {
                    return Err(err);
                }
            }
            () = reread.due() => {
                reread.run().await;
                reread.plan(course.is_whole());
            }
        }
    }
}
