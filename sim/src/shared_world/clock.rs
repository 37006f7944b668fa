//! The clock that world time follows.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use sim_world::Time;
use tokio::time::Instant;

use kube_sim_api::Signal;

/// Clock of a world, which maps tokio's clock to world time.
///
/// tokio's clock shows virtual time if the runtime is paused, real time otherwise. World time
/// passes at a whole multiple of the speed of tokio's clock, the pace (1 by default). At pace 0
/// world time stands still. Clones share one clock.
#[derive(Clone, Debug)]
pub struct Clock {
    stretch: Arc<Mutex<Stretch>>,
    paced: Signal,
    epoch: Timestamp,
}

/// A period of constant pace.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    begin: Instant,
    /// World time at the beginning of the period.
    at: Duration,
    /// Seconds of world time per second of tokio's clock.
    pace: u32,
}

impl Stretch {
    fn now(&self) -> Duration {
        self.at + self.begin.elapsed() * self.pace
    }
}

impl Clock {
    /// Returns a clock whose world time is zero now; `epoch` is the timestamp of this moment.
    ///
    /// Must be called inside a tokio runtime.
    pub fn starting_at(epoch: Timestamp) -> Self {
        let stretch = Stretch { begin: Instant::now(), at: Duration::ZERO, pace: 1 };
        Self { stretch: Arc::new(Mutex::new(stretch)), paced: Signal::default(), epoch }
    }

    /// Advances the clock by `age`, the world time at which a restored world continues.
    pub(crate) fn resumed_after(self, age: Duration) -> Self {
        self.stretch.lock().at += age;
        self
    }

    /// Sets the seconds of world time per second of tokio's clock; 0 stops world time.
    pub(crate) fn set_pace(&self, pace: u32) {
        {
            let mut stretch = self.stretch.lock();
            *stretch = Stretch { begin: Instant::now(), at: stretch.now(), pace };
        }
        self.paced.send();
    }

    /// Waits until world time is `at` or later.
    ///
    /// Cancel safe.
    pub async fn sleep_until(&self, at: Time) {
        let mut paced = self.paced.changes();
        while self.now() < at {
            let instant = self.instant(at);
            let there = async {
                match instant {
                    Some(instant) => tokio::time::sleep_until(instant).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = there => {}
                () = paced.changed() => {}
            }
        }
    }

    /// Returns the current world time.
    pub fn now(&self) -> Time {
        Time::after_start(self.stretch.lock().now())
    }

    /// First instant of tokio's clock, since the last change of the pace, at which world time is
    /// `at` or later. `None` while world time stands still.
    pub fn instant(&self, at: Time) -> Option<Instant> {
        let Stretch { begin, at: from, pace } = *self.stretch.lock();
        let wait = at.since_start().saturating_sub(from);
        let outside = wait.checked_div(pace)?;
        // Rounds up, so that a task that wakes at the instant finds world time at `at` or later.
        let rest = if outside * pace < wait { Duration::from_nanos(1) } else { Duration::ZERO };
        Some(begin + outside + rest)
    }

    /// Timestamp at which world time is zero.
    pub fn epoch(&self) -> Timestamp {
        self.epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn world_time_passes_at_its_pace_and_never_goes_back() {
        let clock = Clock::starting_at(crate::VIRTUAL_EPOCH);
        let begin = Instant::now();
        tokio::time::advance(s(2)).await;
        assert_eq!(clock.now().since_start(), s(2));
        clock.set_pace(10);
        tokio::time::advance(s(3)).await;
        assert_eq!(clock.now().since_start(), s(32));
        assert_eq!(clock.instant(Time::after_start(s(52))), Some(begin + s(7)));
        clock.set_pace(0);
        tokio::time::advance(s(100)).await;
        assert_eq!(clock.now().since_start(), s(32));
        assert_eq!(clock.instant(Time::after_start(s(52))), None);
        clock.set_pace(1);
        assert_eq!(clock.instant(Time::after_start(s(52))), Some(begin + s(125)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_has_reached_a_world_time_at_the_instant_computed_for_it() {
        let clock = Clock::starting_at(crate::VIRTUAL_EPOCH);
        clock.set_pace(7);
        for nanos in [1, 6, 7, 8, 999_999_999] {
            let at = Time::after_start(clock.now().since_start() + Duration::from_nanos(nanos));
            let instant = clock.instant(at).unwrap();
            tokio::time::advance(instant.duration_since(Instant::now())).await;
            assert!(clock.now() >= at, "{nanos} ns");
        }
    }
}
