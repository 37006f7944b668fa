//! The workload cluster of a case as a real etcd and kube-apiserver, behind the same ledger, rules and judges.
//!
//! What a provider asks still passes the sim: its TLS, its credentials, its ledger, its rules. Only the answer is the real
//! server's. A [`mirror`] tells each side what happens on the other: the simulated world stays the truth for kubelets,
//! scenarios and judges, the real server for the provider. There is one server for a run, so that cases are played one after
//! the other, and everything of a case is removed before the next.

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
use backing::Forward;
use client::Client;
use mirror::Mirror;
pub(super) use needs::needs_built_in;

/// What answers for the workload cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ApiServer {
    /// The simulated one: several cases at a time, and every failure.
    #[default]
    Builtin,
    /// A real etcd and kube-apiserver: one case at a time.
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
    /// What has to be said on the command line to have it.
    pub(super) fn option(self) -> String {
        if self == Self::default() { String::new() } else { format!(" --apiserver {self}") }
    }

    /// As reports name it.
    pub(super) fn environment(self) -> String {
        match self {
            Self::Builtin => crate::report::FAKE.to_owned(),
            Self::Real => format!("kube-apiserver {VERSION}"),
        }
    }
}

/// The server of a run. It stops when this is dropped.
#[derive(Debug)]
pub struct Real {
    peer: Peer,
    /// What it has by itself, by path.
    own: OnceCell<BTreeSet<String>>,
}

impl Real {
    /// Starts it, and returns when it is ready.
    ///
    /// # Errors
    /// It is neither there nor can be built; the lines on standard error say why.
    pub(super) fn start() -> anyhow::Result<Self> {
        Ok(Self { peer: Peer::start()?, own: OnceCell::new() })
    }

    /// Lets it answer for the workload cluster of `sim`, and shows it what is there.
    ///
    /// # Errors
    /// It does not answer, or refuses what the world has.
    pub(super) async fn back(&self, sim: &Sim) -> anyhow::Result<Backed> {
        let client = Client::new(&self.peer.server, &self.peer.token)?;
        let own = self.own.get_or_try_init(|| resources::all(&client)).await?;
        // What a case has left that was interrupted.
        resources::clear(&client, own).await?;
        let mirror = Arc::new(Mirror::new(sim.world().clone(), client.clone()));
        mirror.catch_up().await?;
        let tasks = TaskTracker::new();
        let forward = Forward::new(client.clone(), Arc::clone(&mirror), tasks.clone());
        sim.back_cluster(Arc::new(forward));
        let stop = CancellationToken::new();
        let (followed, until) = (Arc::clone(&mirror), stop.clone());
        tasks.spawn(async move { followed.follow(until).await });
        Ok(Backed { mirror, client, own: own.clone(), stop: stop.drop_guard(), tasks })
    }
}

/// The cluster of one case.
#[derive(Debug)]
pub(crate) struct Backed {
    mirror: Arc<Mirror>,
    client: Client,
    own: BTreeSet<String>,
    /// Stops what follows the world.
    stop: DropGuard,
    /// That, and writes that a caller did not wait for.
    tasks: TaskTracker,
}

impl Backed {
    /// Returns when the real server shows what the world does.
    ///
    /// # Errors
    /// It does not answer, or refuses what the world has.
    pub(crate) async fn catch_up(&self) -> anyhow::Result<()> {
        self.mirror.catch_up().await
    }

    /// Ends it, and removes everything of the case from the real server.
    ///
    /// # Errors
    /// What was mirrored is not what happened: the case says nothing.
    pub(crate) async fn end(&self) -> anyhow::Result<()> {
        self.stop.token().cancel();
        self.tasks.close();
        self.tasks.wait().await;
        let mirrored = self.mirror.verdict();
        resources::clear(&self.client, &self.own).await?;
        mirrored
    }
}
