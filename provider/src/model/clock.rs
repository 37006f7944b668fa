//! The two clocks of a process: the wall clock, and one that also counts while the host is
//! suspended.
//!
//! The caller supplies both. The code reads the wall clock anew each time, because it steps: at a
//! resume, when NTP corrects it, or when a person sets it. The time since boot never steps, and
//! unlike tokio's clock it also counts while the host sleeps.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Source of the times of a [`Clock`].
pub trait TimeSource: Send + Sync {
    /// Returns the current wall time.
    fn now(&self) -> Timestamp;

    /// Time since a fixed moment, such as the boot of the host, including the time that the host
    /// was suspended.
    fn since_boot(&self) -> Duration;
}

/// Clock of a process: shows the wall time and the time since boot of its [`TimeSource`].
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

    /// A clock that shows `epoch` now and advances with tokio's clock, so it shows virtual time
    /// while that clock is paused.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self::new(Arc::new(SteppedTime::starting_at(epoch)))
    }

    /// Returns the current wall time.
    pub fn now(&self) -> Timestamp {
        self.0.now()
    }

    /// Time that has passed since `then` on the wall clock; zero if `then` is in the future.
    pub fn since(&self, then: Timestamp) -> Duration {
        Duration::try_from(self.now().duration_since(then)).unwrap_or(Duration::ZERO)
    }

    /// Time since a fixed moment, such as the boot of the host, including the time that the host
    /// was suspended.
    pub fn since_boot(&self) -> Duration {
        self.0.since_boot()
    }
}

/// A [`TimeSource`] for runs in virtual time: follows tokio's clock, and lets the caller step the
/// wall clock and suspend the host.
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
    /// A source whose wall clock shows `epoch` now.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, started: Instant::now(), changes: Mutex::default() }
    }

    /// Steps the wall clock; the time since boot does not change.
    pub fn step(&self, by: SignedDuration) {
        let mut changes = self.changes.lock().expect("nothing panics under this lock");
        changes.step = changes.step.saturating_add(by);
    }

    /// Simulates that the host was suspended for `lasts`: advances the wall clock and the time
    /// since boot by it, and leaves tokio's clock unchanged.
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
    async fn a_step_moves_the_wall_clock_alone_and_a_suspension_moves_both_clocks() {
        let source = Arc::new(SteppedTime::starting_at(Timestamp::UNIX_EPOCH));
        let clock = Clock::new(Arc::clone(&source) as _);
        tokio::time::advance(Duration::from_secs(10)).await;
        source.step(SignedDuration::from_secs(3600));
        assert_eq!(clock.now(), Timestamp::from_second(3610).unwrap());
        assert_eq!(clock.since_boot(), Duration::from_secs(10));
        source.step(SignedDuration::from_secs(-7200));
        assert_eq!(clock.since(Timestamp::UNIX_EPOCH), Duration::ZERO, "the epoch is ahead");
        source.step(SignedDuration::from_secs(3600));
        source.suspend(Duration::from_secs(60));
        assert_eq!(clock.now(), Timestamp::from_second(70).unwrap());
        assert_eq!(clock.since_boot(), Duration::from_secs(70));
    }
}
