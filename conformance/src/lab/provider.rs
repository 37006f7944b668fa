//! Our provider as a replica in this process.

use std::fmt;
use std::sync::Arc;

use ::provider::{Config, Deps, LeaderElection, Options, Transport, UnknownKeys, from_service};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sim::Sim;
use sim::world::objects::{self, GroupResource, Key, PatchKind};
use sim::world::{Command, PROVIDER_USER, REGION_CATEGORY, ZONE_CATEGORY};
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

/// Namespace of the Secret with the credentials.
const SECRETS: &str = "kube-system";

/// A command that creates or changes the Secret with the credentials of every vCenter.
pub(super) fn secret(sim: &Sim, name: &str, password: Option<&str>) -> Command {
    let key = Key::new(GroupResource::core("secrets"), SECRETS, name);
    let mut data = serde_json::Map::new();
    for (vcenter, _) in sim.vcenters() {
        let known = sim.password(vcenter, PROVIDER_USER).expect("every vCenter has the account");
        let password = password.unwrap_or(known.expose());
        for (key, value) in [("username", PROVIDER_USER), ("password", password)] {
            let value = STANDARD.encode(value);
            data.insert(format!("{vcenter}.{key}"), value.into());
        }
    }
    let exists = sim.world().read(|world| world.cluster.get(&key).is_some());
    let command = if exists {
        objects::Command::patch(key, PatchKind::Merge, serde_json::json!({ "data": data }))
    } else {
        let object = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": SECRETS},
            "data": data,
        });
        objects::Command::create(GroupResource::core("secrets"), SECRETS, object)
    };
    Command::Cluster(command)
}

/// The configuration that a cluster's administrator would write for this world.
fn config(sim: &Sim, scenario: &Scenario) -> Config {
    let setup = &scenario.provider;
    let mut text = String::from("global:\n  insecureFlag: true\n");
    if let Some(name) = &setup.secret {
        text.push_str(&format!("  secretName: {name}\n  secretNamespace: {SECRETS}\n"));
    }
    text.push_str("vcenter:\n");
    for (name, _) in sim.vcenters() {
        let password = sim.password(name, PROVIDER_USER).expect("every vCenter has the account");
        text.push_str(&format!("  {name}:\n    server: {name}\n    datacenters: [DC0]\n"));
        if setup.secret.is_none() {
            let password = password.expose();
            text.push_str(&format!("    user: {PROVIDER_USER}\n    password: {password}\n"));
        }
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
        skip_node_deletion: setup.skip_deletion,
        mutant: stage.mutant,
        ..Options::default()
    }
}
