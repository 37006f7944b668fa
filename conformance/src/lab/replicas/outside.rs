//! A provider outside of this process, as the lab uses it. The driver of processes, containers and
//! pods implements it.

use std::fmt;

use futures::future::BoxFuture;
use sim::Sim;

use crate::lab::{Logs, Process};
use crate::scenario::Scenario;

/// A provider whose replicas are processes, containers or pods on the real clock, in one run.
pub(crate) trait Provider: fmt::Debug + Send + Sync {
    /// Starts a replica and waits until it has made its first call, has ended, or the time for its
    /// start has passed. World time stands still meanwhile, because the load time of a program is
    /// not judged. If the replicas elect a leader, a call for a lease counts as first call too,
    /// because a standby makes no other calls.
    ///
    /// # Errors
    /// Fails if the scenario has no replica `index`, or if the replica cannot be started.
    fn start<'a>(
        &'a self,
        sim: &'a Sim,
        scenario: &'a Scenario,
        index: usize,
    ) -> BoxFuture<'a, anyhow::Result<(Process, StartResult)>>;

    /// Returns the seconds of world time per second of the clock.
    fn pace(&self) -> u32;

    /// True if the workload cluster runs on a real API server. A change on that server reaches the
    /// world only after the server's answer.
    fn is_mirrored(&self) -> bool;

    /// Returns the output of all replicas.
    fn logs(&self) -> &Logs;

    /// Returns the bearer tokens in the kubeconfigs of the replicas: for the workload cluster and,
    /// if the world has one, for the Supervisor.
    fn tokens(&self) -> Vec<String>;

    /// Returns the host name under which the provider reaches the vCenter with this name.
    fn server(&self, vcenter: &str) -> String;
}

/// Result of the start of a replica.
#[derive(Debug)]
pub(crate) enum StartResult {
    /// The replica has made its first call.
    Called,
    /// The replica runs but has not made its first call in time; the text names the call and the
    /// timeout.
    Silent(String),
    /// The replica has ended before its first call.
    Ended,
}
