//! Handles SIGTERM, SIGINT and SIGHUP. The first signal stops the provider in order. A signal that
//! comes 1 s or more after the first one stops the provider at once.

use std::time::Duration;

use anyhow::Context as _;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};

/// Time after the first signal in which further signals count as the first one again: `timeout` and
/// a terminal's Ctrl-C send one signal to the process and one to its group, at the same moment.
const ONE_MOMENT: Duration = Duration::from_secs(1);

/// Action that a signal asks the provider for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalAction {
    /// Stop in order: finish writes, release the lease, log out.
    Stop,
    /// End at once.
    Abort,
}

/// The signals that end the process.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` if the parent process, such as `nohup`, made this process ignore SIGHUP. Go programs
    /// then ignore SIGHUP too.
    hangup: Option<Signal>,
    moment: Moment,
}

impl Signals {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())
                .context("cannot receive the signal SIGTERM")?,
            interrupt: signal(SignalKind::interrupt())
                .context("cannot receive the signal SIGINT")?,
            hangup: if is_hangup_ignored() {
                None
            } else {
                Some(signal(SignalKind::hangup()).context("cannot receive the signal SIGHUP")?)
            },
            moment: Moment::default(),
        })
    }

    /// Waits for the next signal that does not count as the first one again, and returns the action
    /// that it asks for.
    ///
    /// Cancel safe.
    pub(super) async fn next(&mut self) -> SignalAction {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
                Some(_) = async { self.hangup.as_mut()?.recv().await } => {}
            }
            if let Some(request) = self.moment.meaning(Instant::now()) {
                return request;
            }
        }
    }
}

/// True if the process was started with SIGHUP ignored; false if the kernel does not say.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The lowest bit is signal 1, SIGHUP.
    ignored.is_some_and(|mask| mask & 1 == 1)
}

/// Instant of the first signal.
#[derive(Debug, Default)]
struct Moment(Option<Instant>);

impl Moment {
    /// Returns the action that a signal at `now` asks for; `None` if the signal counts as the first
    /// one again. Stores `now` for the first signal.
    fn meaning(&mut self, now: Instant) -> Option<SignalAction> {
        match self.0 {
            None => {
                self.0 = Some(now);
                Some(SignalAction::Stop)
            }
            Some(first) if now.duration_since(first) < ONE_MOMENT => None,
            Some(_) => Some(SignalAction::Abort),
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
            ("the first", 0, Some(SignalAction::Stop)),
            ("sent with it", 0, None),
            ("a moment later", 999, None),
            ("a second later", 1000, Some(SignalAction::Abort)),
        ] {
            assert_eq!(moment.meaning(start + Duration::from_millis(after)), want, "{name}");
        }
    }
}
