//! A running replica: our provider in this process, or a process of its own.

use jiff::SignedDuration;
use sim::world::Time;

use super::endpoint::Caller;
use super::provider::{Exit, Replica};
use super::scrape::Scrape;
use crate::foreign::Process;

const OURS_ALONE: &str = "only a provider in this process can be suspended, have its clock stepped, be scraped, or be asked over HTTPS";

/// A running replica.
#[derive(Debug)]
pub(super) enum Running {
    /// Our provider, in this process.
    Here(Replica),
    /// Any provider, as a process.
    Process(Process),
}

impl Running {
    /// Returns the index of the replica.
    pub(super) fn index(&self) -> usize {
        match self {
            Self::Here(replica) => replica.index(),
            Self::Process(process) => process.index(),
        }
    }

    /// True if a lease names this replica as its holder. Always false for a process, whose name is
    /// not known.
    pub(super) fn is_called(&self, holder: &str) -> bool {
        match self {
            Self::Here(replica) => replica.identity() == holder,
            Self::Process(_) => false,
        }
    }

    /// Suspends the replica, as by SIGSTOP.
    ///
    /// # Errors
    ///
    /// Fails for a process.
    pub(super) fn suspend(&self) -> Result<(), String> {
        self.ours().map(Replica::suspend)
    }

    /// Resumes the tasks of the replica or, with `renew`, the renewal of its lease.
    ///
    /// # Errors
    ///
    /// Fails for a process.
    pub(super) fn resume(&self, renew: bool) -> Result<(), String> {
        self.ours().map(|replica| if renew { replica.renew() } else { replica.resume() })
    }

    fn ours(&self) -> Result<&Replica, String> {
        match self {
            Self::Here(replica) => Ok(replica),
            Self::Process(_) => Err(OURS_ALONE.to_owned()),
        }
    }

    /// Steps the wall clock of the replica.
    ///
    /// # Errors
    ///
    /// Fails for a process.
    pub(super) fn step_clock(&self, by: SignedDuration) -> Result<(), String> {
        self.ours().map(|replica| replica.step_clock(by))
    }

    /// Checks that the metrics of the replica can be read.
    ///
    /// # Errors
    ///
    /// Fails for a process.
    pub(super) fn is_readable(&self) -> Result<(), String> {
        self.ours().map(drop)
    }

    /// Returns metrics and health at this moment, before this record of the ledger. `None` for a
    /// process.
    pub(super) fn scrape(&self, at: Time, next_seq: u64) -> Option<Scrape> {
        match self {
            Self::Here(replica) => Some(replica.scrape(at, next_seq)),
            Self::Process(_) => None,
        }
    }

    /// Asks the HTTPS endpoint of the replica. Returns status and body, and the SHA-256 of the served certificate.
    ///
    /// # Errors
    ///
    /// Fails for a process.
    pub(super) async fn get(
        &self,
        path: &str,
        by: Caller,
    ) -> Result<(Result<(u16, String), String>, Option<[u8; 32]>), String> {
        Ok(self.ours()?.get(path, by).await)
    }

    /// Completes when the replica has ended for any reason.
    ///
    /// Cancel safe.
    pub(super) async fn end(&self) {
        match self {
            Self::Here(replica) => replica.end().await,
            Self::Process(process) => process.end().await,
        }
    }

    /// Returns how the replica ended, or `None` if it runs.
    pub(super) fn ended(&mut self) -> Option<Exit> {
        match self {
            Self::Here(replica) => replica.ended(),
            Self::Process(process) => process.ended(),
        }
    }

    /// Asks the replica to stop and waits for its end.
    pub(super) async fn stop(self) -> Exit {
        match self {
            Self::Here(replica) => replica.stop().await,
            Self::Process(process) => process.stop().await,
        }
    }

    /// Ends the replica in any state.
    pub(super) async fn kill(self) {
        match self {
            Self::Here(replica) => replica.kill().await,
            Self::Process(process) => process.kill().await,
        }
    }
}
