//! The clock that world time follows.

use std::time::Duration;

use jiff::Timestamp;
use sim_world::Time;
use tokio::time::Instant;

/// Maps the runtime's clock to world time.
///
/// Follows tokio's clock, so a paused runtime is virtual time and a running one is real time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    offset: Duration,
    epoch: Timestamp,
}

impl Clock {
    /// A clock whose zero is this moment, which the world calls `epoch`.
    ///
    /// Must be called inside a tokio runtime.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { start: Instant::now(), offset: Duration::ZERO, epoch }
    }

    /// The same clock for a world that has already lived for `age`.
    pub fn resumed_after(self, age: Duration) -> Self {
        Self { offset: age, ..self }
    }

    /// Now, in world time.
    pub fn now(&self) -> Time {
        Time::after_start(self.start.elapsed() + self.offset)
    }

    /// The runtime's instant at which world time is `at`.
    pub fn instant(&self, at: Time) -> Instant {
        self.start + at.since_start().saturating_sub(self.offset)
    }

    /// The wall-clock reading at the world's beginning.
    pub fn epoch(&self) -> Timestamp {
        self.epoch
    }
}
