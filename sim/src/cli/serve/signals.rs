//! SIGTERM and SIGINT: the first signal shuts a sim down cleanly. A signal that comes at least a
//! second later ends it at once.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use crate::cli::CliError;

/// Time after the first signal in which further signals are ignored. `timeout` and Ctrl-C in a
/// terminal may send one signal to the process and one to its group at the same moment.
const ONE_MOMENT: Duration = Duration::from_secs(1);

/// Receiver of the signals that end the process.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    moment: Moment,
}

impl Signals {
    pub(super) fn new() -> Result<Self, CliError> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| CliError::failed(format!("cannot receive signals: {error}"), ""))
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            moment: Moment::default(),
        })
    }

    /// Waits for the next signal. Ignores signals within [`ONE_MOMENT`] after the first.
    ///
    /// Cancel safe.
    pub(super) async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            if self.moment.is_new(Instant::now()) {
                return;
            }
        }
    }
}

/// Time of the first signal; `None` before it.
#[derive(Debug, Default)]
struct Moment(Option<Instant>);

impl Moment {
    /// True if a signal that arrives at `now` is the first, or comes at least [`ONE_MOMENT`] after
    /// the first. Stores the time of the first.
    fn is_new(&mut self, now: Instant) -> bool {
        match self.0 {
            Some(first) => now.duration_since(first) >= ONE_MOMENT,
            None => {
                self.0 = Some(now);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn signals_within_a_second_of_the_first_count_as_one() {
        let (mut moment, start) = (Moment::default(), Instant::now());
        for (name, after, want) in [
            ("the first", 0, true),
            ("at the same moment", 0, false),
            ("within a second", 999, false),
            ("after a second", 1000, true),
            ("a third signal", 1001, true),
        ] {
            assert_eq!(moment.is_new(start + Duration::from_millis(after)), want, "{name}");
        }
    }
}
