//! State machine of one view: decides from the outcome of each call which call comes next. Pure.
//!
//! Two calls keep a view: the wait for changes (`WaitForUpdatesEx`) and the change of its members
//! (`ModifyListView`). Either can fail without the loss of the view, and a failure must not drop
//! unfinished work. A failed wait starts again from the last version or from none. A failed change
//! of members is repeated after a pause.

use std::time::Duration;

use provider_vcenter::{Backoff, CallError, FaultKind, Retry};
use tokio::time::Instant;

/// Maximum number of consecutive failures of the same call that a view survives. After the next
/// one, the view is rebuilt.
const MAX_FAILURES: u32 = 2;
/// Longest pause that the client grants if a server asks for one.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Loss that a failed call means for the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The session or the view no longer exists on the server, or the same call would fail again.
    Final,
    /// The server no longer accepts the collector version, or has ended the wait. The filter may
    /// still exist.
    Version,
    /// Nothing is lost. Holds the minimum pause that the server asks for, if any.
    Passing(Option<Duration>),
}

impl Loss {
    /// Returns the loss that this error means.
    pub(super) fn of(err: &CallError) -> Self {
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
pub(super) enum Happened {
    /// The wait ended with a delivery, or without a change. `truncated` is true if more updates are
    /// pending.
    Delivered { truncated: bool },
    /// The wait failed.
    WaitFailed(Loss),
    /// All due changes of the members succeeded.
    Changed,
    /// A call that changes the members failed.
    ChangeFailed(Loss),
}

/// Next step after an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Wait again, from the last version.
    WaitOn,
    /// The first delivery is complete: apply its end, then wait again.
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
pub(super) struct Course {
    /// True if the server has delivered all members once since the filter was created or the
    /// version was dropped.
    is_whole: bool,
    /// True if more updates were pending after the last delivery.
    is_truncated: bool,
    /// Number of failed waits in a row.
    n_wait_failures: u32,
    /// Number of failed changes of members in a row.
    n_change_failures: u32,
    /// Time of the next try to change the members, after a failure.
    change_at: Option<Instant>,
}

impl Course {
    /// Returns the course of a new view.
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

    /// Returns the time at which a failed change of members is tried again.
    pub(super) fn change_at(&self) -> Option<Instant> {
        self.change_at
    }

    /// Applies an outcome and returns the next step. `backoff` supplies the pause before another
    /// try to change the members.
    pub(super) fn next(&mut self, happened: Happened, backoff: &mut Backoff) -> Next {
        match happened {
            Happened::Delivered { truncated } => {
                self.n_wait_failures = 0;
                self.is_truncated = truncated;
                if truncated || self.is_whole {
                    return Next::WaitOn;
                }
                self.is_whole = true;
                Next::Settle
            }
            Happened::WaitFailed(loss) => {
                self.n_wait_failures += 1;
                let begin_again = loss == Loss::Version || self.is_truncated;
                match loss {
                    Loss::Final => return Next::Rebuild,
                    _ if self.n_wait_failures > MAX_FAILURES => return Next::Rebuild,
                    _ => {}
                }
                if begin_again {
                    (self.is_whole, self.is_truncated) = (false, false);
                }
                match loss {
                    Loss::Passing(wanted) => Next::Pause { wanted, begin_again },
                    Loss::Version | Loss::Final => Next::BeginAgain,
                }
            }
            Happened::Changed => {
                (self.n_change_failures, self.change_at) = (0, None);
                backoff.reset();
                Next::WaitOn
            }
            Happened::ChangeFailed(loss) => {
                self.n_change_failures += 1;
                match loss {
                    Loss::Passing(wanted) if self.n_change_failures <= MAX_FAILURES => {
                        let pause = backoff.fail();
                        self.change_at =
                            Some(Instant::now() + pause.max(wanted.unwrap_or_default()));
                        Next::WaitOn
                    }
                    _ => Next::Rebuild,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use provider_vcenter::Jitter;

    use super::*;

    const PASSING: Loss = Loss::Passing(None);
    const WHOLE: Happened = Happened::Delivered { truncated: false };
    const CUT: Happened = Happened::Delivered { truncated: true };
    const WAIT: Happened = Happened::WaitFailed(PASSING);
    const CHANGE: Happened = Happened::ChangeFailed(PASSING);
    const PAUSE: Next = Next::Pause { wanted: None, begin_again: false };
    const PAUSE_AGAIN: Next = Next::Pause { wanted: None, begin_again: true };

    fn backoff() -> Backoff {
        let seconds = Duration::from_secs;
        Backoff::new(seconds(1), seconds(60), Jitter::new(1, "course"))
    }

    #[tokio::test(start_paused = true)]
    async fn each_outcome_leads_to_one_next_step() {
        let wanted = Duration::from_secs(7);
        let busy = Loss::Passing(Some(wanted));
        for (name, outcomes, want, is_current) in [
            ("first delivery", vec![WHOLE], Next::Settle, true),
            ("first page of the first delivery", vec![CUT], Next::WaitOn, false),
            ("last page of the first delivery", vec![CUT, WHOLE], Next::Settle, true),
            ("a change", vec![WHOLE, WHOLE], Next::WaitOn, true),
            ("a cut change", vec![WHOLE, CUT], Next::WaitOn, true),
            ("a failed wait", vec![WHOLE, WAIT], PAUSE, false),
            ("a failed wait amid pages", vec![WHOLE, CUT, WAIT], PAUSE_AGAIN, false),
            ("a wait after a failed one", vec![WHOLE, WAIT, WHOLE], Next::WaitOn, true),
            ("whole again after pages were lost", vec![CUT, WAIT, WHOLE], Next::Settle, true),
            (
                "a pause that the server asks for",
                vec![WHOLE, Happened::WaitFailed(busy)],
                Next::Pause { wanted: Some(wanted), begin_again: false },
                false,
            ),
            ("three failed waits", vec![WHOLE, WAIT, WAIT, WAIT], Next::Rebuild, false),
            (
                "a lost version",
                vec![WHOLE, Happened::WaitFailed(Loss::Version)],
                Next::BeginAgain,
                false,
            ),
            (
                "a lost session",
                vec![WHOLE, Happened::WaitFailed(Loss::Final)],
                Next::Rebuild,
                false,
            ),
            ("changed members", vec![WHOLE, Happened::Changed], Next::WaitOn, true),
            ("members not changed", vec![WHOLE, CHANGE], Next::WaitOn, true),
            ("members not changed twice", vec![WHOLE, CHANGE, CHANGE], Next::WaitOn, true),
            (
                "members not changed thrice",
                vec![WHOLE, CHANGE, CHANGE, CHANGE],
                Next::Rebuild,
                true,
            ),
            (
                "members changed in between",
                vec![WHOLE, CHANGE, CHANGE, Happened::Changed, CHANGE],
                Next::WaitOn,
                true,
            ),
            (
                "members not changed, the session is gone",
                vec![WHOLE, Happened::ChangeFailed(Loss::Final)],
                Next::Rebuild,
                true,
            ),
        ] {
            let (mut course, mut backoff) = (Course::new(), backoff());
            let next = outcomes.into_iter().map(|it| course.next(it, &mut backoff)).last();
            assert_eq!((next, course.is_current()), (Some(want), is_current), "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_change_of_members_is_retried_and_a_successful_one_is_not() {
        let (mut course, mut backoff) = (Course::new(), backoff());
        course.next(WHOLE, &mut backoff);
        assert_eq!(course.change_at(), None);
        course.next(CHANGE, &mut backoff);
        let at = course.change_at().expect("it failed");
        assert!(at > Instant::now() && at <= Instant::now() + Duration::from_secs(2), "{at:?}");
        // A delivery in between leaves the retry scheduled.
        course.next(WHOLE, &mut backoff);
        assert_eq!(course.change_at(), Some(at));
        course.next(Happened::Changed, &mut backoff);
        assert_eq!(course.change_at(), None);
        let wanted = Duration::from_secs(9);
        course.next(Happened::ChangeFailed(Loss::Passing(Some(wanted))), &mut backoff);
        assert_eq!(course.change_at(), Some(Instant::now() + wanted));
        // A server that asks for a pause of zero does not shorten the back-off.
        let at_once = Loss::Passing(Some(Duration::ZERO));
        course.next(Happened::ChangeFailed(at_once), &mut backoff);
        let at = course.change_at().expect("it failed");
        assert!(at >= Instant::now() + Duration::from_secs(2), "{at:?}");
    }
}
