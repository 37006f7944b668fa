//! Wall time without a wall clock: an epoch that was handed in, plus what tokio's clock has counted since.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Tells the wall time. Under tokio's paused clock this is virtual time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Timestamp,
    started: Instant,
}

impl Clock {
    /// A clock that shows `epoch` now. Must be called inside a tokio runtime with time.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, started: Instant::now() }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }

    /// The time at an instant.
    pub fn at(&self, instant: Instant) -> Timestamp {
        let elapsed = instant.saturating_duration_since(self.started);
        self.epoch.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// How long ago `then` was; zero when it is in the future.
    pub fn since(&self, then: Timestamp) -> Duration {
        Duration::try_from(self.now().duration_since(then)).unwrap_or(Duration::ZERO)
    }
}
