//! The two clocks of a process: the wall clock, and one that also counts while the machine is suspended.
//!
//! The caller supplies both. The wall clock is read anew each time, because it steps: at a resume, at a correction by
//! NTP, by hand. Time since boot never steps, and it counts while the machine sleeps, unlike the clock of the runtime.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Source of the times of a [`Clock`].
pub trait TimeSource: Send + Sync {
    /// The wall time.
    fn now(&self) -> Timestamp;

    /// Time since some moment before the process began; suspended time counts.
    fn since_boot(&self) -> Duration;
}

/// Returns the wall time and the time since boot.
#[derive(Clone)]
pub struct Clock(Arc<dyn TimeSource>);

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

impl Clock {
    /// A clock that reads `source`.
    pub fn new(source: Arc<dyn TimeSource>) -> Self {
        Self(source)
    }

    /// A clock that shows `epoch` now and advances with tokio's clock: virtual time where that clock is paused.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self::new(Arc::new(SteppedTime::starting_at(epoch)))
    }

    /// The wall time.
    pub fn now(&self) -> Timestamp {
        self.0.now()
    }

    /// Time that has passed since `then`; zero if `then` is in the future.
    pub fn since(&self, then: Timestamp) -> Duration {
        Duration::try_from(self.now().duration_since(then)).unwrap_or(Duration::ZERO)
    }

    /// Time since some moment before the process began; suspended time counts.
    pub fn since_boot(&self) -> Duration {
        self.0.since_boot()
    }
}

/// Time that advances with tokio's clock, with a wall clock that can be stepped, of a machine that can be suspended. For runs
/// in virtual time.
#[derive(Debug)]
pub struct SteppedTime {
    epoch: Timestamp,
    started: Instant,
    changes: Mutex<Changes>,
}

/// Differences between the times of a [`SteppedTime`] and tokio's clock.
#[derive(Clone, Copy, Debug, Default)]
struct Changes {
    step: SignedDuration,
    suspended: Duration,
}

impl SteppedTime {
    /// Time that shows `epoch` now.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, started: Instant::now(), changes: Mutex::default() }
    }

    /// Steps the wall clock; the time since boot does not change.
    pub fn step(&self, by: SignedDuration) {
        let mut changes = self.changes.lock().expect("nothing panics under this lock");
        changes.step = changes.step.saturating_add(by);
    }

    /// Suspends the machine: the wall clock and the time since boot go on, and tokio's clock stands still.
    pub fn suspend(&self, lasts: Duration) {
        self.changes.lock().expect("nothing panics under this lock").suspended += lasts;
    }

    fn changes(&self) -> Changes {
        *self.changes.lock().expect("nothing panics under this lock")
    }
}

impl TimeSource for SteppedTime {
    fn now(&self) -> Timestamp {
        let shown = self.epoch.checked_add(self.since_boot());
        shown.and_then(|shown| shown.checked_add(self.changes().step)).unwrap_or(Timestamp::MAX)
    }

    fn since_boot(&self) -> Duration {
        self.started.elapsed() + self.changes().suspended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_step_moves_the_wall_clock_alone_and_a_suspension_both_clocks() {
        let source = Arc::new(SteppedTime::starting_at(Timestamp::UNIX_EPOCH));
        let clock = Clock::new(Arc::clone(&source) as _);
        tokio::time::advance(Duration::from_secs(10)).await;
        source.step(SignedDuration::from_secs(3600));
        assert_eq!(clock.now(), Timestamp::from_second(3610).unwrap());
        assert_eq!(clock.since_boot(), Duration::from_secs(10));
        source.step(SignedDuration::from_secs(-7200));
        assert_eq!(clock.since(Timestamp::UNIX_EPOCH), Duration::ZERO, "it is in the future");
        source.step(SignedDuration::from_secs(3600));
        source.suspend(Duration::from_secs(60));
        assert_eq!(clock.now(), Timestamp::from_second(70).unwrap());
        assert_eq!(clock.since_boot(), Duration::from_secs(70));
    }
}
