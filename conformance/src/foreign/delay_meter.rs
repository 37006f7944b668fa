//! Measures whether this computer kept up, by the delay of a task that only sleeps.
//!
//! On an overloaded computer a provider is late without a fault of its own, so most failures at
//! that time prove nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::catalogue::Class;
use crate::verdict::{Reason, Verdict};

/// Delay in world time above which a verdict may not count; see [`doubted`]. It is short beside the
/// bounds of checks, of which the usual ones are ten seconds of world time or more.
const TOO_LATE: Duration = Duration::from_secs(2);
/// Duration of each sleep of the measuring task. The task records each delay that is longer.
const BEAT: Duration = Duration::from_millis(20);

/// Moments at which this computer was late, and the delays, as a task measures them. Dropping this
/// value ends the task.
#[derive(Debug)]
pub(super) struct DelayMeter {
    late: Arc<Mutex<Vec<(Instant, Duration)>>>,
    _stop: DropGuard,
}

impl DelayMeter {
    /// Starts the measuring task.
    pub(super) fn begin(tasks: &TaskTracker) -> Self {
        let late = Arc::<Mutex<Vec<(Instant, Duration)>>>::default();
        let stop = CancellationToken::new();
        let (to, stopped) = (Arc::clone(&late), stop.clone());
        tasks.spawn(stopped.run_until_cancelled_owned(async move {
            loop {
                let wanted = Instant::now() + BEAT;
                tokio::time::sleep_until(wanted).await;
                let delay = wanted.elapsed();
                if delay > BEAT {
                    to.lock().expect("no holder panics").push((Instant::now(), delay));
                }
            }
        }));
        Self { late, _stop: stop.drop_guard() }
    }

    /// Returns the longest delay since `begin`, in real time, if it exceeded 2 s of world time;
    /// else `None`. `pace` is the number of seconds of world time per second of the clock.
    pub(super) fn worst_since(&self, begin: Instant, pace: u32) -> Option<Duration> {
        let late = self.late.lock().expect("no holder panics");
        let worst = late.iter().filter(|(at, _)| *at >= begin).map(|(_, delay)| *delay).max()?;
        (worst * pace > TOO_LATE).then_some(worst)
    }
}

/// True if a failure is final because it breaks a safety promise or a safety invariant. A delay of
/// this computer does not force a provider to do harm.
pub(super) fn is_final(class: Class, why: &Reason) -> bool {
    class == Class::Safety || why.invariant.is_some_and(|it| it.class() == Class::Safety)
}

/// Returns the harness error that replaces a verdict reached while this computer was `late`, or
/// `None` if the verdict counts.
///
/// A final failure counts, and so does a pass of a check that requires an action. A pass of a check
/// that requires restraint does not count, because a provider without processor time does little.
/// All other verdicts do not count either.
pub(super) fn doubted(class: Class, verdict: &Verdict, late: Duration) -> Option<Verdict> {
    let counts = match verdict {
        Verdict::Fail(why) => is_final(class, why),
        Verdict::Pass => !class.holds_if_idle(),
        _ => false,
    };
    let late = late.as_millis();
    let words = || {
        format!(
            "timers of this computer fired up to {late} ms late, so this verdict does not count: {verdict}"
        )
    };
    (!counts).then(|| Verdict::harness_error(words()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Invariant;

    #[test]
    fn a_late_machine_voids_safety_passes_and_keeps_safety_failures() {
        let late = Duration::from_millis(900);
        let unsafe_ = Reason { invariant: Some(Invariant::NoWrongDeletion), ..Reason::default() };
        let untidy = Reason { invariant: Some(Invariant::FewSessions), ..Reason::default() };
        let table = [
            (Class::Safety, Verdict::fail("deleted"), true),
            (Class::Liveness, Verdict::Fail(unsafe_), true),
            (Class::Liveness, Verdict::Fail(untidy), false),
            (Class::Liveness, Verdict::fail("too late"), false),
            (Class::Liveness, Verdict::Pass, true),
            (Class::Contract, Verdict::Pass, true),
            (Class::Safety, Verdict::Pass, false),
            (Class::Efficiency, Verdict::Pass, false),
            (Class::Hygiene, Verdict::Pass, false),
            (Class::Safety, Verdict::inconclusive("idle"), false),
        ];
        for (class, verdict, counts) in table {
            let left = doubted(class, &verdict, late);
            assert_eq!(left.is_none(), counts, "{class}: {verdict}");
            assert!(left.is_none_or(|it| matches!(it, Verdict::HarnessError(_))));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_counts_by_the_time_that_passed_in_the_world() {
        let tasks = TaskTracker::new();
        let pulse = DelayMeter::begin(&tasks);
        let begin = Instant::now();
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_millis(520)).await;
        tokio::task::yield_now().await;
        assert_eq!(pulse.worst_since(begin, 1), None);
        assert_eq!(pulse.worst_since(begin, 10), Some(Duration::from_millis(500)));
        assert_eq!(pulse.worst_since(Instant::now() + BEAT, 10), None);
        drop(pulse);
        tasks.close();
        tasks.wait().await;
    }
}
