//! Measures whether this computer kept up, by the delay of a task that only sleeps, and decides
//! which verdicts count if it did not.
//!
//! On an overloaded computer a provider is late without a fault of its own, so most failures at
//! that time prove nothing.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::catalogue::Class;
use crate::judge::verdict::{Reason, Verdict};

/// A delay of this computer, in real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// Time by which a timer of this process fired late.
    OfTimer(Duration),
    /// Time for which a process of the provider waited for a processor within 10 s of world time.
    OfProvider(Duration),
}

impl Delay {
    /// Returns the longer of the two delays if it exceeds 2 s of world time, else `None`.
    pub(in crate::foreign) fn worst(
        timers: Duration,
        provider: Duration,
        pace: u32,
    ) -> Option<Self> {
        let worst = timers.max(provider);
        let which = if worst == timers { Self::OfTimer } else { Self::OfProvider };
        (worst * pace > TOO_LATE).then(|| which(worst))
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfTimer(late) => {
                write!(f, "timers of this computer fired up to {} ms late", late.as_millis())
            }
            Self::OfProvider(waited) => write!(
                f,
                "the provider's process waited {} ms for a processor within 10 s of world time",
                waited.as_millis()
            ),
        }
    }
}

/// Delay in world time above which a verdict may not count; see [`doubted`]. It is short beside the
/// bounds of checks, of which the usual ones are ten seconds of world time or more.
const TOO_LATE: Duration = Duration::from_secs(2);
/// Duration of each sleep of the measuring task. The task records each delay that is longer.
const BEAT: Duration = Duration::from_millis(20);

/// Moments at which this computer was late, and the delays, as a task measures them. Dropping this
/// value ends the task.
#[derive(Debug)]
pub(in crate::foreign) struct DelayMeter {
    late: Arc<Mutex<Vec<(Instant, Duration)>>>,
    _stop: DropGuard,
}

impl DelayMeter {
    /// Starts the measuring task.
    pub(in crate::foreign) fn begin(tasks: &TaskTracker) -> Self {
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

    /// Returns the longest delay since `begin`, in real time.
    pub(in crate::foreign) fn worst_since(&self, begin: Instant) -> Duration {
        let late = self.late.lock().expect("no holder panics");
        let since = late.iter().filter(|(at, _)| *at >= begin);
        since.map(|(_, delay)| *delay).max().unwrap_or_default()
    }
}

/// True if a failure is final because it breaks a safety promise or a safety invariant. A delay of
/// this computer does not force a provider to do harm, but it can make an action late, also in a
/// check of a safety promise.
pub(in crate::foreign) fn is_final(class: Class, why: &Reason) -> bool {
    (class == Class::Safety && !why.is_late)
        || why.invariant.is_some_and(|it| it.class() == Class::Safety)
}

/// Returns the harness error that replaces a verdict reached while this computer was `late`, or
/// `None` if the verdict counts.
///
/// A final failure counts, and so does a pass of a check that requires an action. A pass of a check
/// that requires restraint does not count, because a provider without processor time does little.
/// All other verdicts do not count either.
pub(in crate::foreign) fn doubted(class: Class, verdict: &Verdict, late: Delay) -> Option<Verdict> {
    let counts = match verdict {
        Verdict::Fail(why) => is_final(class, why),
        Verdict::Pass => !class.holds_if_idle(),
        _ => false,
    };
    let words = || format!("{late}, so this verdict does not count: {verdict}");
    (!counts).then(|| Verdict::harness_error(words()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::world::Time;

    use crate::judge::Invariant;
    use crate::judge::verdict::AboutMoment as _;

    #[test]
    fn a_late_machine_voids_safety_passes_and_keeps_safety_failures() {
        let late = Delay::OfTimer(Duration::from_millis(900));
        let unsafe_ = Reason { invariant: Some(Invariant::NoWrongDeletion), ..Reason::default() };
        let untidy = Reason { invariant: Some(Invariant::FewSessions), ..Reason::default() };
        let table = [
            (Class::Safety, Verdict::fail("deleted"), true),
            (
                Class::Safety,
                Verdict::Fail(
                    "initialized late".to_owned().late(Time::after_start(Duration::ZERO)),
                ),
                false,
            ),
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
        let worst = |begin, pace| Delay::worst(pulse.worst_since(begin), Duration::ZERO, pace);
        assert_eq!(worst(begin, 1), None);
        assert_eq!(worst(begin, 10), Some(Delay::OfTimer(Duration::from_millis(500))));
        assert_eq!(worst(Instant::now() + BEAT, 10), None);
        drop(pulse);
        tasks.close();
        tasks.wait().await;
    }

    #[test]
    fn the_longer_delay_is_named_if_it_is_longer_than_two_seconds_of_world_time() {
        let ms = Duration::from_millis;
        assert_eq!(Delay::worst(ms(1_900), ms(2_000), 1), None);
        assert_eq!(Delay::worst(ms(300), ms(2_001), 1), Some(Delay::OfProvider(ms(2_001))));
        let said = Delay::worst(ms(300), ms(250), 10).map(|it| it.to_string());
        assert_eq!(said.as_deref(), Some("timers of this computer fired up to 300 ms late"));
    }
}
