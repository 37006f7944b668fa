//! Whether this machine kept up: how late a task wakes that only sleeps.
//!
//! On a starved machine a provider is late for reasons that are not its own. A failure of such a moment says nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// What a failure can be blamed on.
const TOO_LATE: Duration = Duration::from_millis(200);
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
                if delay > TOO_LATE {
                    to.lock().expect("no holder panics").push((Instant::now(), delay));
                }
            }
        }));
        Self { late, _stop: stop.drop_guard() }
    }

    /// The longest delay since `begin`, if one was too long.
    pub(super) fn worst_since(&self, begin: Instant) -> Option<Duration> {
        let late = self.late.lock().expect("no holder panics");
        late.iter().filter(|(at, _)| *at >= begin).map(|(_, delay)| *delay).max()
    }
}
