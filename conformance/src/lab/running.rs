//! A replica that runs: ours in this process, or a process of its own.

use jiff::SignedDuration;
use sim::world::Time;

use super::provider::{Exit, Replica};
use super::scrape::Scrape;
use crate::foreign::Process;

const OURS_ALONE: &str =
    "only a provider in this process can be suspended, have its clock stepped, or be scraped";

/// A running replica.
#[derive(Debug)]
pub(super) enum Running {
    /// Ours, in this process.
    Here(Replica),
    /// Anybody's, as a process.
    Process(Process),
}

impl Running {
    /// Which replica it is.
    pub(super) fn index(&self) -> usize {
        match self {
            Self::Here(replica) => replica.index(),
            Self::Process(process) => process.index(),
        }
    }

    /// Whether it calls itself so in a lease. How a process calls itself nobody knows.
    pub(super) fn is_called(&self, holder: &str) -> bool {
        match self {
            Self::Here(replica) => replica.identity() == holder,
            Self::Process(_) => false,
        }
    }

    /// Stops it where it is, as by SIGSTOP.
    ///
    /// # Errors
    ///
    /// Why this replica cannot be stopped so.
    pub(super) fn suspend(&self) -> Result<(), String> {
        self.ours().map(Replica::suspend)
    }

    /// Lets its tasks go on, and with `renew` the renewal of its lease.
    ///
    /// # Errors
    ///
    /// Why this replica cannot be stopped so.
    pub(super) fn resume(&self, renew: bool) -> Result<(), String> {
        self.ours().map(|replica| if renew { replica.renew() } else { replica.resume() })
    }

    fn ours(&self) -> Result<&Replica, String> {
        match self {
            Self::Here(replica) => Ok(replica),
            Self::Process(_) => Err(OURS_ALONE.to_owned()),
        }
    }

    /// Steps its wall clock.
    ///
    /// # Errors
    ///
    /// Why the clock of this replica cannot be stepped.
    pub(super) fn step_clock(&self, by: SignedDuration) -> Result<(), String> {
        self.ours().map(|replica| replica.step_clock(by))
    }

    /// Says that the endpoint of this replica can be read.
    ///
    /// # Errors
    ///
    /// Why it cannot be read.
    pub(super) fn is_readable(&self) -> Result<(), String> {
        self.ours().map(drop)
    }

    /// Metrics and health at this moment, before this record of the ledger. `None` for processes.
    pub(super) fn scrape(&self, at: Time, next_seq: u64) -> Option<Scrape> {
        match self {
            Self::Here(replica) => Some(replica.scrape(at, next_seq)),
            Self::Process(_) => None,
        }
    }

    /// Completes when it has ended, however that came about.
    ///
    /// Cancel safe.
    pub(super) async fn end(&self) {
        match self {
            Self::Here(replica) => replica.end().await,
            Self::Process(process) => process.end().await,
        }
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<Exit> {
        match self {
            Self::Here(replica) => replica.ended(),
            Self::Process(process) => process.ended(),
        }
    }

    /// Tells it to stop and waits.
    pub(super) async fn stop(self) -> Exit {
        match self {
            Self::Here(replica) => replica.stop().await,
            Self::Process(process) => process.stop().await,
        }
    }

    /// Ends it, whatever it is doing.
    pub(super) async fn kill(self) {
        match self {
            Self::Here(replica) => replica.kill().await,
            Self::Process(process) => process.kill().await,
        }
    }
}
