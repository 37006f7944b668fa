//! Waits for changes of one view that is built, and meanwhile changes its members.

use std::{collections::BTreeSet, time::Duration};

use provider_vcenter::{Backoff, CallError, Chain, FaultKind, Jitter, MoRef, UpdateSet};
use tokio::time::Instant;

use super::{
    course::{CallOutcome, LossKind, NextCall, ViewProgress},
    deliveries::{deliver, settle},
    members::{ServerView, abandon, adjust},
    reread::Reread,
};
use crate::{
    instances::vcenter::{Shared, state::VcenterIndex},
    mutant::mutant,
};

/// Lifetime from which on a view counts as a success, so that its loss begins a new series of
/// pauses. The loss of a younger view lengthens the pauses, however much the view delivered.
const LIVED: Duration = Duration::from_secs(5);

/// Result of one wait for changes; `None` if nothing changed.
type Delivery = Result<Option<UpdateSet>, CallError>;

/// The watch of one view.
pub(super) struct ViewWatch<'a> {
    shared: &'a Shared,
    index: VcenterIndex,
    built: &'a ServerView,
    course: ViewProgress,
    /// Pauses before another try to change the members.
    pauses: Backoff,
    reread: Reread<'a>,
    /// Collector version of the last delivery; empty, as on the wire, before the first one.
    version: String,
    /// Machines that entered the view since the first wait without a version; empty once the view
    /// is whole.
    entered: BTreeSet<MoRef>,
}

impl<'a> ViewWatch<'a> {
    /// Makes the watch without sending a call.
    pub(super) fn new(shared: &'a Shared, index: VcenterIndex, built: &'a ServerView) -> Self {
        let name = shared.vcenters[index].client.name();
        let jitter = Jitter::new(shared.tuning.seed, &format!("{name}/members"));
        Self {
            shared,
            index,
            built,
            course: ViewProgress::new(),
            pauses: Backoff::new(Duration::from_secs(1), Duration::from_secs(60), jitter),
            reread: Reread::new(shared, index, &built.paths),
            version: String::new(),
            entered: BTreeSet::new(),
        }
    }

    /// Waits for changes until the view is lost, and returns the error that caused the loss. Takes
    /// the pauses after failed waits from `backoff`, and resets `backoff` once the view is at least
    /// [`LIVED`] old and its last wait did not fail.
    pub(super) async fn run(mut self, backoff: &mut Backoff) -> CallError {
        let (shared, index, built) = (self.shared, self.index, self.built);
        let built_at = Instant::now();
        loop {
            // Another call may have found that the session has ended. View and filter have ended
            // with it.
            if let Err(err) = shared.vcenters[index].client.still_holds(&built.session) {
                return err;
            }
            self.reread.plan(self.course.is_whole());
            let result = match self.wait_and_change().await {
                Ok(result) => result,
                Err(err) => {
                    abandon(shared, index, built, &err).await;
                    return err;
                }
            };
            if self.course.may_block() && built_at.elapsed() >= LIVED {
                backoff.reset();
            }
            let next = self.apply(&result).await;
            match (next, result.err()) {
                (NextCall::Settle, _) => {
                    settle(shared, index, &std::mem::take(&mut self.entered));
                    shared.lock().vcenters[index].is_current = true;
                }
                (NextCall::BeginAgain, _) => self.begin_again(),
                (NextCall::Pause { wanted, begin_again }, Some(err)) => {
                    if begin_again {
                        self.begin_again();
                    }
                    shared.lock().vcenters[index].last_call_failed = true;
                    let pause = backoff.next_pause().max(wanted.unwrap_or_default());
                    tracing::warn!(error = %Chain(&err), pause = ?pause, "waiting for changes of machines at vCenter failed; retrying");
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

    /// Waits for changes. Meanwhile changes the members of the view when needed, and reads
    /// incomplete machines again.
    ///
    /// # Errors
    ///
    /// If a change of the members failed in a way that requires a new view.
    async fn wait_and_change(&mut self) -> Result<Delivery, CallError> {
        let Self { shared, index, built, course, pauses, reread, version, entered: _ } = self;
        let backend = &shared.vcenters[*index];
        let client = &backend.client;
        // The first delivery comes at once or not at all. The wait may not block before all members
        // were delivered, nor after a failure until the next wait succeeds.
        let wait = if course.may_block() { client.poll() } else { Duration::ZERO };
        let poll = client.wait_for_updates(&built.session, version, wait);
        tokio::pin!(poll);
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
                    let result = match client.still_holds(&built.session) {
                        Ok(()) => adjust(shared, *index, built).await,
                        Err(err) => Err(err),
                    };
                    let outcome = match &result {
                        Ok(()) => CallOutcome::Changed,
                        Err(err) => CallOutcome::ChangeFailed(LossKind::from(err)),
                    };
                    let next = course.next(outcome, pauses);
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

    /// Applies the result of a wait to the progress of the view, to the state, and to this watch.
    /// Returns the next step.
    async fn apply(&mut self, result: &Delivery) -> NextCall {
        let (shared, index) = (self.shared, self.index);
        let outcome = match result {
            Ok(set) => {
                CallOutcome::Delivered { truncated: set.as_ref().is_some_and(|set| set.truncated) }
            }
            Err(err) => CallOutcome::WaitFailed(LossKind::from(err)),
        };
        let was_whole = self.course.is_whole();
        let next = self.course.next(outcome, &mut self.pauses);
        {
            let vcenter = &mut shared.lock().vcenters[index];
            vcenter.is_current = self.course.is_current() && next != NextCall::Settle;
            if result.is_ok() {
                vcenter.last_call_failed = false;
            }
        }
        if let Ok(Some(set)) = result {
            shared.telemetry.delivered(shared.vcenters[index].client.name(), set);
            deliver(shared, index, set, (!was_whole).then_some(&mut self.entered));
            self.version.clone_from(&set.version);
        }
        if matches!(
            result.as_ref().err().and_then(CallError::fault),
            Some(FaultKind::InvalidCollectorVersion)
        ) && mutant!(shared.policy.active, IgnoreInvalidCollectorVersion)
        {
            std::future::pending::<()>().await;
        }
        next
    }

    /// Makes the next wait start from no version. If the filter still exists, the wait then
    /// delivers everything again.
    fn begin_again(&mut self) {
        self.version.clear();
        self.entered.clear();
    }
}
