//! Whether this machine kept up: how late a task wakes that only sleeps.
//!
//! On a starved machine a provider is late for reasons that are not its own. A failure of such a moment says nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// What a failure can be blamed on, in time of the world: bounds are ten seconds of it and more.
const TOO_LATE: Duration = Duration::from_secs(2);
const BEAT: Duration = Duration::from_millis(20);

/// Moments at which the machine was late. It beats until it is dropped.
#[derive(Debug)]
pub(super) struct Pulse {
    late: Arc<Mutex<Vec<(Instant, Duration)>>>,
    _stop: DropGuard,
}

impl Pulse {
    /// Begins to beat.
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

    /// The longest delay since `begin`, if one was too long for a world that lives so many seconds in one.
    pub(super) fn worst_since(&self, begin: Instant, pace: u32) -> Option<Duration> {
        let late = self.late.lock().expect("no holder panics");
        let worst = late.iter().filter(|(at, _)| *at >= begin).map(|(_, delay)| *delay).max()?;
        (worst * pace > TOO_LATE).then_some(worst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_delay_counts_by_what_the_world_lived_meanwhile() {
        let tasks = TaskTracker::new();
        let pulse = Pulse::begin(&tasks);
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
