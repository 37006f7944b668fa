//! Runs the workload cluster of a case on a real etcd and kube-apiserver, "the real server", with
//! the same ledger, rules and judges as the built-in API server.
//!
//! A provider's request still passes the sim: its TLS, credentials, ledger and rules. Only the
//! answer comes from the real server. A [`mirror`] carries changes between the two sides: kubelets,
//! scenarios and judges use the simulated world, the provider uses the real server. One server
//! serves a whole run. So the driver plays the cases one after the other, and removes the mirrored
//! objects of a case, except namespaces, before the next.

mod backing;
mod client;
mod merge;
mod mirror;
mod needs;
mod resources;
mod uids;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use clap::ValueEnum;
use sim::Sim;
use tokio::sync::OnceCell;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::kubernetes::VERSION;
use crate::kubernetes::peer::Peer;
use backing::Forwarder;
use client::Client;
use mirror::Mirror;
pub(super) use needs::needs_built_in;

/// API server of the workload cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ApiServer {
    /// The simulated API server: several cases run at a time, and fault rules of every kind work.
    #[default]
    Builtin,
    /// A real etcd and kube-apiserver: one case runs at a time, and cases that need the simulated
    /// server are skipped.
    Real,
}

impl fmt::Display for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin => f.write_str("builtin"),
            Self::Real => f.write_str("real"),
        }
    }
}

impl ApiServer {
    /// Returns the command-line option that selects this server, with a leading blank; empty for
    /// the default.
    pub(super) fn option(self) -> String {
        if self == Self::default() { String::new() } else { format!(" --apiserver {self}") }
    }

    /// Returns the name of this API server in reports.
    pub(super) fn environment(self) -> String {
        match self {
            Self::Builtin => crate::suite::report::FAKE.to_owned(),
            Self::Real => format!("kube-apiserver {VERSION}"),
        }
    }
}

/// The real etcd and kube-apiserver of a run. Both stop when this value is dropped.
#[derive(Debug)]
pub struct RealApiServer {
    peer: Peer,
    /// Paths of the mirrored objects that the server creates by itself; empty until the first case
    /// reads them.
    own: OnceCell<BTreeSet<String>>,
}

impl RealApiServer {
    /// Starts the server and returns when it is ready.
    ///
    /// # Errors
    /// Fails if the programs are missing or do not start. `KUBEBUILDER_ASSETS` names their folder;
    /// without this variable they are built. Standard error has the reason.
    pub(super) fn start() -> anyhow::Result<Self> {
        Ok(Self { peer: Peer::start()?, own: OnceCell::new() })
    }

    /// Makes the real server answer requests to the workload cluster of `sim`, removes the objects
    /// that an interrupted case has left, and copies the objects of the world to the server.
    ///
    /// # Errors
    /// Fails if the server does not answer, if it rejects a request, if one side rejects an object
    /// of the other, or if the copies of an object do not agree after several attempts.
    pub(super) async fn serve_cluster(&self, sim: &Sim) -> anyhow::Result<MirroredCluster> {
        let client = Client::new(&self.peer.server, &self.peer.token)?;
        let own = self.own.get_or_try_init(|| resources::all(&client)).await?;
        // Removes objects that an interrupted case has left.
        resources::clear(&client, own).await?;
        let mirror = Arc::new(Mirror::new(sim.world().clone(), client.clone()));
        mirror.catch_up().await?;
        let tasks = TaskTracker::new();
        let forward = Forwarder::new(client.clone(), Arc::clone(&mirror), tasks.clone());
        sim.back_cluster(Arc::new(forward));
        let stop = CancellationToken::new();
        let (followed, until) = (Arc::clone(&mirror), stop.clone());
        tasks.spawn(async move { followed.follow(until).await });
        Ok(MirroredCluster { mirror, client, own: own.clone(), stop: stop.drop_guard(), tasks })
    }
}

/// The workload cluster of one case on the real server.
#[derive(Debug)]
pub(crate) struct MirroredCluster {
    mirror: Arc<Mirror>,
    client: Client,
    own: BTreeSet<String>,
    /// Stops the task that carries the world's changes to the real server.
    stop: DropGuard,
    /// Tracks that task and the tasks of writes, which continue after their caller has
    /// disconnected.
    tasks: TaskTracker,
}

impl MirroredCluster {
    /// Carries all changes of the world to the real server, and returns when the server has them.
    ///
    /// # Errors
    /// Fails if the server does not answer, if one side rejects an object of the other, or if the
    /// copies of an object do not agree after several attempts.
    pub(crate) async fn catch_up(&self) -> anyhow::Result<()> {
        self.mirror.catch_up().await
    }

    /// Ends the mirror and removes the case's mirrored objects, except namespaces, from the real
    /// server.
    ///
    /// # Errors
    /// Fails if the mirror had an error: the two sides may then have differed, so the case proves
    /// nothing. Also fails if the objects cannot be removed.
    pub(crate) async fn end(&self) -> anyhow::Result<()> {
        self.stop.token().cancel();
        self.tasks.close();
        self.tasks.wait().await;
        let mirrored = self.mirror.verdict();
        resources::clear(&self.client, &self.own).await?;
        mirrored
    }
}
