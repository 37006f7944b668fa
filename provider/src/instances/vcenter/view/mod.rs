//! Keeps the machines of joined nodes in one list view with one filter, and waits for changes.
//!
//! While the wait blocks, another call adds joined machines to the view and removes parted ones; the collector then
//! delivers them to the same wait. After the loss of a session, a restart or a lost collector version, the view is
//! rebuilt: one login, one view, one filter, one delivery. Until then the old state stays, and the backend concludes no
//! absence from it.
//!
//! [`course`] decides what each outcome means; this file makes the calls.

mod course;
mod deliveries;
mod members;

use std::{collections::BTreeSet, pin::Pin, time::Duration};

use provider_vcenter::{Backoff, CallError, Chain, FaultKind, Jitter, MoRef, Retry, UpdateSet};
use tokio::time::Instant;

pub(super) use self::members::left;
use self::{
    course::{Course, Happened, Loss, Next},
    deliveries::{deliver, settle},
    members::{Built, abandon, adjust, build},
};
use super::{Shared, idle::keep_alive, reread::Reread, state::VcenterIndex};
use crate::mutant::mutant;

/// Interval of keep-alive calls while no machine is watched. vCenter ends a session after 30 idle minutes; an
/// administrator may shorten that, and a login costs more than this call.
const KEEP_ALIVE: Duration = Duration::from_secs(300);

/// Lifetime from which on a view counts as a success: its loss begins a new series of pauses. A view that is lost
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
        let is_first = backoff.failures() == 0;
        let pause = backoff.fail();
        let is_logged_out = err.retry() == Retry::AfterLogin;
        // vCenter has answered if it says that the session is gone. The login that follows need not wait, unless the
        // last one did not help.
        let is_answered = is_logged_out && !was_logged_out;
        was_logged_out = is_logged_out;
        {
            let vcenter = &mut shared.lock().vcenters[index];
            vcenter.fresh = false;
            vcenter.troubled |= !is_answered;
        }
        let pause = match err.retry() {
            _ if is_answered => Duration::ZERO,
            // The loss is on our side of the wire; the first attempt to rebuild need not wait.
            Retry::AfterLogin | Retry::Never if is_first => Duration::ZERO,
            _ if is_first && is_session_bound_loss(&err) => Duration::ZERO,
            retry => retry.pause(pause),
        };
        tracing::warn!(error = %Chain(&err), pause = ?pause, "the view is lost; building it anew");
        tokio::time::sleep(pause).await;
    }
}

/// Waits for a machine to watch; after [`KEEP_ALIVE`] without one, keeps the session alive.
async fn idle(shared: &Shared, index: VcenterIndex) {
    let backend = &shared.vcenters[index];
    if tokio::time::timeout(KEEP_ALIVE, backend.view.notified()).await.is_ok() {
        return;
    }
    keep_alive(shared, index).await;
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

/// The outcome of one wait for changes.
type Delivery = Result<Option<UpdateSet>, CallError>;

/// Waits for changes until the view is lost; returns the error that it was lost with.
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
    let mut course = Course::new();
    let mut version = String::new();
    let mut entered: BTreeSet<MoRef> = BTreeSet::new();
    let built_at = Instant::now();
    let mut reread = Reread::new(shared, index, &built.paths);
    loop {
        // Another call may have learned that the session has ended; view and filter have ended with it.
        if let Err(err) = client.still_holds(&built.session) {
            return err;
        }
        reread.plan(course.is_whole());
        // The first delivery comes at once or not at all. The wait may not block before everything was delivered, nor
        // before it is known whether the view survived a failure.
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
                Happened::Delivered { truncated: set.as_ref().is_some_and(|set| set.truncated) }
            }
            Err(err) => Happened::WaitFailed(Loss::of(err)),
        };
        let was_whole = course.is_whole();
        let next = course.next(happened, &mut pauses);
        {
            let vcenter = &mut shared.lock().vcenters[index];
            vcenter.fresh = course.is_current() && next != Next::Settle;
            if result.is_ok() {
                vcenter.troubled = false;
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
            (Next::Settle, _) => {
                settle(shared, index, &std::mem::take(&mut entered));
                shared.lock().vcenters[index].fresh = true;
            }
            (Next::BeginAgain, _) => begin_again(&mut version, &mut entered),
            (Next::Pause { wanted, begin_again: again }, Some(err)) => {
                if again {
                    begin_again(&mut version, &mut entered);
                }
                shared.lock().vcenters[index].troubled = true;
                let pause = backoff.fail().max(wanted.unwrap_or_default());
                tracing::warn!(error = %Chain(&err), pause = ?pause, "waiting for changes of the view failed; retrying");
                tokio::time::sleep(pause).await;
            }
            (Next::Rebuild, Some(err)) => {
                abandon(shared, index, built, &err).await;
                return err;
            }
            (Next::WaitOn | Next::Pause { .. } | Next::Rebuild, _) => {}
        }
    }
}

/// Restarts the wait from no version. The filter may still exist, and one call then delivers everything again.
fn begin_again(version: &mut String, entered: &mut BTreeSet<MoRef>) {
    version.clear();
    entered.clear();
}

/// Waits for changes; meanwhile changes the members of the view, and reads incomplete machines again.
///
/// # Errors
///
/// If the members could not be changed and the view must be rebuilt for that.
async fn wait_and_change(
    shared: &Shared,
    index: VcenterIndex,
    built: &Built,
    mut poll: Pin<&mut impl Future<Output = Delivery>>,
    (course, reread, pauses): &mut (&mut Course, &mut Reread<'_>, &mut Backoff),
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
            // Deliveries first: the next change of the view may depend on them.
            biased;
            result = &mut poll => return Ok(result),
            () = change => {
                let result = match backend.client.still_holds(&built.session) {
                    Ok(()) => adjust(shared, index, built).await,
                    Err(err) => Err(err),
                };
                let happened = match &result {
                    Ok(()) => Happened::Changed,
                    Err(err) => Happened::ChangeFailed(Loss::of(err)),
                };
                let next = course.next(happened, pauses);
                reread.plan(course.is_whole());
                let Err(err) = result else { continue };
                tracing::warn!(error = %Chain(&err), next = ?next, "changing the members of the view failed; retrying");
                if next == Next::Rebuild {
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
