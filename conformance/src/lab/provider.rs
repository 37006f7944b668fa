//! Our provider as a replica in this process.

use std::fmt;
use std::sync::Arc;

use ::provider::{Config, Deps, LeaderElection, Options, Transport, UnknownKeys, from_service};
use sim::Sim;
use sim::world::{PROVIDER_USER, REGION_CATEGORY, ZONE_CATEGORY};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Stage;
use crate::scenario::Scenario;

pub use ::provider::Mutant as Mutants;

/// How a replica ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It was told to stop and did.
    Stopped,
    /// It was killed.
    Killed,
    /// It gave up.
    Failed(String),
    /// It panicked: a defect.
    Panicked,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::Killed => f.write_str("killed"),
            Self::Failed(why) => write!(f, "failed: {why}"),
            Self::Panicked => f.write_str("panicked"),
        }
    }
}

/// A running replica.
#[derive(Debug)]
pub struct Replica {
    index: usize,
    stop: CancellationToken,
    task: JoinHandle<Exit>,
}

impl Replica {
    /// Starts a replica in the current runtime.
    pub(super) fn start(sim: &Sim, scenario: &Scenario, stage: &Stage, index: usize) -> Self {
        let label = if index == 0 { "provider".to_owned() } else { format!("provider-{index}") };
        let stop = CancellationToken::new();
        let config = config(sim, scenario);
        let options = options(scenario, stage);
        let vcenters: Vec<(String, Transport)> = sim
            .vcenters()
            .map(|(name, server)| (name.to_owned(), from_service(server.service(&label))))
            .collect();
        let connect = move |wanted: &::provider::VcenterConfig| {
            vcenters
                .iter()
                .find(|(name, _)| *name == wanted.endpoint.host)
                .map(|(_, transport)| transport.clone())
                .ok_or_else(|| format!("no vCenter {}", wanted.endpoint.host))
        };
        let kube = kube::Client::new(sim.cluster().service(&label), "default");
        let now = sim.world().now().timestamp(sim.world().clock().epoch());
        let deps = Deps {
            connect: Arc::new(connect),
            seed: stage.seed ^ (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            identity: format!("{label}-{}", sim.world().now().since_start().as_millis()),
            epoch: now,
            stop: stop.clone(),
            ..Deps::new(kube)
        };
        let task = tokio::task::spawn(async move {
            match ::provider::run(config, options, deps).await {
                Ok(()) => Exit::Stopped,
                Err(error) => Exit::Failed(error.to_string()),
            }
        });
        Self { index, stop, task }
    }

    /// Which replica it is.
    pub fn index(&self) -> usize {
        self.index
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<Exit> {
        self.task.is_finished().then(|| {
            futures::FutureExt::now_or_never(&mut self.task)
                .and_then(Result::ok)
                .unwrap_or(Exit::Panicked)
        })
    }

    /// Tells it to stop and waits.
    pub(super) async fn stop(self) -> Exit {
        self.stop.cancel();
        self.task.await.unwrap_or(Exit::Panicked)
    }

    /// Ends it at its next await, whatever it is doing.
    pub(super) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// The configuration that a cluster's administrator would write for this world.
fn config(sim: &Sim, scenario: &Scenario) -> Config {
    let setup = &scenario.provider;
    let mut text = String::from("global:\n  insecureFlag: true\nvcenter:\n");
    for (name, _) in sim.vcenters() {
        let password = sim.password(name, PROVIDER_USER).expect("every vCenter has the account");
        text.push_str(&format!(
            "  {name}:\n    server: {name}\n    user: {PROVIDER_USER}\n    password: {}\n    datacenters: [DC0]\n",
            password.expose()
        ));
        if !setup.families.is_empty() {
            text.push_str(&format!("    ipFamily: [{}]\n", setup.families.join(", ")));
        }
    }
    if setup.zones {
        text.push_str(&format!("labels:\n  region: {REGION_CATEGORY}\n  zone: {ZONE_CATEGORY}\n"));
    }
    if !setup.nodes.is_empty() {
        text.push_str("nodes:\n");
        for (key, value) in &setup.nodes {
            text.push_str(&format!("  {key}: {value}\n"));
        }
    }
    let (config, _warnings) = Config::parse("vsphere.conf", &text, UnknownKeys::Refuse)
        .expect("the lab writes configurations that the provider accepts");
    config
}

fn options(scenario: &Scenario, stage: &Stage) -> Options {
    let setup = &scenario.provider;
    let elects = setup.leader_election || setup.replicas > 1;
    Options {
        leader_election: elects.then(LeaderElection::default),
        concurrent_node_syncs: setup.workers,
        kube_api_qps: f64::from(setup.kube_qps),
        mutant: stage.mutant,
        ..Options::default()
    }
}
