//! State machine of one view: decides from the outcome of each call which call comes next. Pure.
//!
//! Two calls keep a view: the wait for changes (`WaitForUpdatesEx`) and the change of its members
//! (`ModifyListView`). Either can fail without the loss of the view, and a failure must not drop
//! unfinished work. A failed wait starts again from the last version or from none. The provider
//! repeats a failed change of members after a pause.

use std::time::Duration;

use provider_vcenter::{Backoff, CallError, FaultKind, Retry};
use tokio::time::Instant;

/// Maximum number of consecutive failures of the same call that a view survives. After the next
/// one, the provider rebuilds the view.
const MAX_FAILURES: u32 = 2;
/// Longest pause that the client grants if a server asks for one.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Loss that a failed call means for the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossKind {
    /// The session or the view no longer exists on the server, or the same call would fail again.
    Final,
    /// The server no longer accepts the collector version, or has ended the wait. The filter may
    /// still exist.
    Version,
    /// Nothing is lost. Holds the minimum pause that the server asks for, if any.
    Passing(Option<Duration>),
}

impl From<&CallError> for LossKind {
    /// Returns the loss that this error means.
    fn from(err: &CallError) -> Self {
        match err.retry() {
            Retry::AfterLogin | Retry::Never => Self::Final,
            _ if is_version_lost(err) => Self::Version,
            Retry::After(wait) | Retry::AtLeast(wait) => Self::Passing(Some(wait.min(MAX_PAUSE))),
            Retry::WithBackoff => Self::Passing(None),
        }
    }
}

fn is_version_lost(err: &CallError) -> bool {
    matches!(err.fault(), Some(FaultKind::InvalidCollectorVersion | FaultKind::RequestCanceled))
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallOutcome {
    /// The wait ended with a delivery, or without a change. `truncated` is true if more updates are
    /// pending.
    Delivered { truncated: bool },
    /// The wait failed.
    WaitFailed(LossKind),
    /// All due changes of the members succeeded.
    Changed,
    /// A call that changes the members failed.
    ChangeFailed(LossKind),
}

/// Next step after an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextCall {
    /// Wait again from the last version, or let the running wait continue.
    WaitOn,
    /// The first delivery from no version is complete: mark the members that it lacks as not
    /// visible, then wait again.
    Settle,
    /// Wait from no version, so that the server delivers everything again.
    BeginAgain,
    /// Pause, at least as long as `wanted`. Then wait from no version if `begin_again` is set, else
    /// from the last one.
    Pause { wanted: Option<Duration>, begin_again: bool },
    /// Build a new view.
    Rebuild,
}

/// Progress of one view.
#[derive(Debug)]
pub(super) struct ViewProgress {
    /// True if the server has delivered all members once since the filter was created or the
    /// version was dropped.
    is_whole: bool,
    /// True if more updates were pending after the last delivery.
    is_truncated: bool,
    /// Number of failed waits in a row.
    n_wait_failures: u32,
    /// Number of failed changes of members in a row.
    n_change_failures: u32,
    /// Time of the next try to change the members after a failure; `None` if the last change did
    /// not fail.
    change_at: Option<Instant>,
}

impl ViewProgress {
    /// Returns the progress of a new view.
    pub(super) fn new() -> Self {
        Self {
            is_whole: false,
            is_truncated: false,
            n_wait_failures: 0,
            n_change_failures: 0,
            change_at: None,
        }
    }

    /// True if the server has delivered all members once, since the filter was created or the
    /// version was dropped.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// True if the next wait may block on the server: all members were delivered, and the last wait
    /// did not fail.
    pub(super) fn may_block(&self) -> bool {
        self.is_whole && self.n_wait_failures == 0
    }

    /// True if the backend may answer from the view: all members were delivered, and the last wait
    /// did not fail.
    pub(super) fn is_current(&self) -> bool {
        self.is_whole && self.n_wait_failures == 0
    }

    /// Returns the time at which a failed change of members is tried again; `None` if the last
    /// change did not fail.
    pub(super) fn change_at(&self) -> Option<Instant> {
        self.change_at
    }

    /// Applies an outcome and returns the next step. `backoff` supplies the pause before another
    /// try to change the members; a successful change resets it.
    pub(super) fn next(&mut self, happened: CallOutcome, backoff: &mut Backoff) -> NextCall {
        match happened {
            CallOutcome::Delivered { truncated } => {
                self.n_wait_failures = 0;
                self.is_truncated = truncated;
                if truncated || self.is_whole {
                    return NextCall::WaitOn;
                }
                self.is_whole = true;
                NextCall::Settle
            }
            CallOutcome::WaitFailed(loss) => {
                self.n_wait_failures += 1;
                let begin_again = loss == LossKind::Version || self.is_truncated;
                match loss {
                    LossKind::Final => return NextCall::Rebuild,
                    _ if self.n_wait_failures > MAX_FAILURES => return NextCall::Rebuild,
                    _ => {}
                }
                if begin_again {
                    (self.is_whole, self.is_truncated) = (false, false);
                }
                match loss {
                    LossKind::Passing(wanted) => NextCall::Pause { wanted, begin_again },
                    LossKind::Version | LossKind::Final => NextCall::BeginAgain,
                }
            }
            CallOutcome::Changed => {
                (self.n_change_failures, self.change_at) = (0, None);
                backoff.reset();
                NextCall::WaitOn
            }
            CallOutcome::ChangeFailed(loss) => {
                self.n_change_failures += 1;
                match loss {
                    LossKind::Passing(wanted) if self.n_change_failures <= MAX_FAILURES => {
                        let pause = backoff.next_pause();
                        self.change_at =
                            Some(Instant::now() + pause.max(wanted.unwrap_or_default()));
                        NextCall::WaitOn
                    }
                    _ => NextCall::Rebuild,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use provider_vcenter::Jitter;

    use super::*;

    const PASSING: LossKind = LossKind::Passing(None);
    const WHOLE: CallOutcome = CallOutcome::Delivered { truncated: false };
    const CUT: CallOutcome = CallOutcome::Delivered { truncated: true };
    const WAIT: CallOutcome = CallOutcome::WaitFailed(PASSING);
    const CHANGE: CallOutcome = CallOutcome::ChangeFailed(PASSING);
    const PAUSE: NextCall = NextCall::Pause { wanted: None, begin_again: false };
    const PAUSE_AGAIN: NextCall = NextCall::Pause { wanted: None, begin_again: true };

    fn backoff() -> Backoff {
        let seconds = Duration::from_secs;
        Backoff::new(seconds(1), seconds(60), Jitter::new(1, "course"))
    }

    #[tokio::test(start_paused = true)]
    async fn each_outcome_leads_to_one_next_step() {
        let wanted = Duration::from_secs(7);
        let busy = LossKind::Passing(Some(wanted));
        for (name, outcomes, want, is_current) in [
            ("first delivery", vec![WHOLE], NextCall::Settle, true),
            ("first page of the first delivery", vec![CUT], NextCall::WaitOn, false),
            ("last page of the first delivery", vec![CUT, WHOLE], NextCall::Settle, true),
            ("a change", vec![WHOLE, WHOLE], NextCall::WaitOn, true),
            ("a cut change", vec![WHOLE, CUT], NextCall::WaitOn, true),
            ("a failed wait", vec![WHOLE, WAIT], PAUSE, false),
            ("a failed wait amid pages", vec![WHOLE, CUT, WAIT], PAUSE_AGAIN, false),
            ("a wait after a failed one", vec![WHOLE, WAIT, WHOLE], NextCall::WaitOn, true),
            ("whole again after pages were lost", vec![CUT, WAIT, WHOLE], NextCall::Settle, true),
            (
                "a pause that the server asks for",
                vec![WHOLE, CallOutcome::WaitFailed(busy)],
                NextCall::Pause { wanted: Some(wanted), begin_again: false },
                false,
            ),
            ("three failed waits", vec![WHOLE, WAIT, WAIT, WAIT], NextCall::Rebuild, false),
            (
                "a lost version",
                vec![WHOLE, CallOutcome::WaitFailed(LossKind::Version)],
                NextCall::BeginAgain,
                false,
            ),
            (
                "a lost session",
                vec![WHOLE, CallOutcome::WaitFailed(LossKind::Final)],
                NextCall::Rebuild,
                false,
            ),
            ("changed members", vec![WHOLE, CallOutcome::Changed], NextCall::WaitOn, true),
            ("members not changed", vec![WHOLE, CHANGE], NextCall::WaitOn, true),
            ("members not changed twice", vec![WHOLE, CHANGE, CHANGE], NextCall::WaitOn, true),
            (
                "members not changed thrice",
                vec![WHOLE, CHANGE, CHANGE, CHANGE],
                NextCall::Rebuild,
                true,
            ),
            (
                "members changed in between",
                vec![WHOLE, CHANGE, CHANGE, CallOutcome::Changed, CHANGE],
                NextCall::WaitOn,
                true,
            ),
            (
                "members not changed, the session is gone",
                vec![WHOLE, CallOutcome::ChangeFailed(LossKind::Final)],
                NextCall::Rebuild,
                true,
            ),
        ] {
            let (mut course, mut backoff) = (ViewProgress::new(), backoff());
            let next = outcomes.into_iter().map(|it| course.next(it, &mut backoff)).last();
            assert_eq!((next, course.is_current()), (Some(want), is_current), "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_change_of_members_is_retried_and_a_successful_one_is_not() {
        let (mut course, mut backoff) = (ViewProgress::new(), backoff());
        course.next(WHOLE, &mut backoff);
        assert_eq!(course.change_at(), None);
        course.next(CHANGE, &mut backoff);
        let at = course.change_at().expect("it failed");
        assert!(at > Instant::now() && at <= Instant::now() + Duration::from_secs(2), "{at:?}");
        // A delivery in between leaves the retry scheduled.
        course.next(WHOLE, &mut backoff);
        assert_eq!(course.change_at(), Some(at));
        course.next(CallOutcome::Changed, &mut backoff);
        assert_eq!(course.change_at(), None);
        let wanted = Duration::from_secs(9);
        course.next(CallOutcome::ChangeFailed(LossKind::Passing(Some(wanted))), &mut backoff);
        assert_eq!(course.change_at(), Some(Instant::now() + wanted));
        // A server that asks for a pause of zero does not shorten the back-off.
        let at_once = LossKind::Passing(Some(Duration::ZERO));
        course.next(CallOutcome::ChangeFailed(at_once), &mut backoff);
        let at = course.change_at().expect("it failed");
        assert!(at >= Instant::now() + Duration::from_secs(2), "{at:?}");
    }
}
