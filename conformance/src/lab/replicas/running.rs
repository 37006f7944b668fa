//! A running replica: a task of this process for our provider, or a process for any provider.

use jiff::SignedDuration;
use sim::ledger::Ledger;
use sim::world::Time;

use super::election::Identities;
use crate::lab::Process;
use crate::lab::provider::endpoint::EndpointClient;
use crate::lab::provider::scrape::Scrape;
use crate::lab::provider::{Exit, Replica, label};
use crate::scenario::Caller;

const OURS_ALONE: &str =
    "only a replica in this process supports clock steps and scrapes; this replica is a process";

/// A running replica of a provider.
#[derive(Debug)]
pub(in crate::lab) enum Running {
    /// Any provider, as a process, container or pod.
    Here(Replica),
    /// Any provider, as a process.
    Process(Process),
}

impl Running {
    /// Returns the index of the replica.
    pub(in crate::lab) fn index(&self) -> usize {
        match self {
            Self::Here(replica) => replica.index(),
            Self::Process(process) => process.index(),
        }
    }

    /// True if `holder`, the holder of the lease, is this replica. A process is recognized by the
    /// identity that it has written to the lease since its start.
    pub(in crate::lab) fn is_called(&self, holder: &str, ledger: &Ledger) -> bool {
        match self {
            Self::Here(replica) => replica.identity() == holder,
            Self::Process(process) => {
                let written = Identities::from_records(&ledger.since(process.since()));
                written.label(holder) == Some(label(process.index()).as_str())
            }
        }
    }

    /// Suspends the replica, as by SIGSTOP.
    ///
    /// # Errors
    ///
    /// Fails for a process that has ended, for a container or pod, and if the system rejects the
    /// signal.
    pub(in crate::lab) async fn suspend(&self) -> Result<(), String> {
        match self {
            Self::Here(replica) => replica.suspend(),
            Self::Process(process) => process.suspend().await?,
        }
        Ok(())
    }

    /// Resumes the replica. If it runs in this process, resumes only its tasks; [`Self::renew`]
    /// resumes the renewal of its lease.
    pub(in crate::lab) async fn resume(&self) {
        match self {
            Self::Here(replica) => replica.resume(),
            Self::Process(process) => process.resume().await,
        }
    }

    /// Resumes the renewal of the lease. Does nothing for a process, because [`Self::resume`]
    /// resumes the whole process.
    pub(in crate::lab) fn renew(&self) {
        match self {
            Self::Here(replica) => replica.renew(),
            Self::Process(_) => {}
        }
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
    pub(in crate::lab) fn step_clock(&self, by: SignedDuration) -> Result<(), String> {
        self.ours().map(|replica| replica.step_clock(by))
    }

    /// Checks that the metrics of the replica can be read.
    ///
    /// # Errors
    ///
    /// Fails for a process.
    pub(in crate::lab) fn is_readable(&self) -> Result<(), String> {
        self.ours().map(drop)
    }

    /// Returns the current metrics and health, marked with the time `at` and with `next_seq`, the
    /// number of the ledger's next record. Returns `None` for a process.
    pub(in crate::lab) fn scrape(&self, at: Time, next_seq: u64) -> Option<Scrape> {
        match self {
            Self::Here(replica) => Some(replica.scrape(at, next_seq)),
            Self::Process(_) => None,
        }
    }

    /// Sends a GET request to the HTTPS endpoint of the replica. Returns status and body, or the
    /// reason why no answer came. Also returns the SHA-256 of the served certificate; `None` if no
    /// TLS handshake succeeded.
    ///
    /// # Errors
    ///
    /// Fails for a process whose endpoint is unknown, because neither its manifest nor its flags
    /// have `$(port)`, and for a container or pod.
    pub(in crate::lab) async fn get(
        &self,
        path: &str,
        by: Caller,
    ) -> Result<(Result<(u16, String), String>, Option<[u8; 32]>), String> {
        match self {
            Self::Here(replica) => Ok(replica.get(path, by).await),
            Self::Process(process) => match process.endpoint() {
                Some(address) => Ok(EndpointClient::Tcp(address).get(path, by).await),
                None => Err("the address of the HTTPS endpoint is unknown: the manifest and the \
                             flags of the case lack $(port), or the provider runs in a container \
                             or pod"
                    .to_owned()),
            },
        }
    }

    /// Completes when the replica has ended for any reason.
    ///
    /// Cancel safe.
    pub(in crate::lab) async fn end(&self) {
        match self {
            Self::Here(replica) => replica.end().await,
            Self::Process(process) => process.end().await,
        }
    }

    /// Returns how and when the replica ended, or `None` if it runs. For a replica in this process
    /// the time is `now`, because the lab calls this function shortly after each end.
    pub(in crate::lab) fn ended(&mut self, now: Time) -> Option<(Exit, Time)> {
        match self {
            Self::Here(replica) => Some((replica.ended()?, now)),
            Self::Process(process) => process.ended(),
        }
    }

    /// Asks the replica to stop, waits for its end, and returns how it ended. Kills a process that
    /// still runs after 30 s.
    pub(in crate::lab) async fn stop(self) -> Exit {
        match self {
            Self::Here(replica) => replica.stop().await,
            Self::Process(process) => process.stop().await,
        }
    }

    /// Kills the replica, even if it is suspended, and waits for its end.
    pub(in crate::lab) async fn kill(self) {
        match self {
            Self::Here(replica) => replica.kill().await,
            Self::Process(process) => process.kill().await,
        }
    }
}
