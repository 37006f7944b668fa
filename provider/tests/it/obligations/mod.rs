//! Tests of Supervisor mode, case by case: the whole provider runs between a fake Supervisor and a
//! fake cluster, and the tests judge it by its Nodes, calls and metrics. `docs/supervisor-cases.md`
//! lists the cases with these tests.

mod guard;
mod identity;
mod inputs;
mod labels;
mod memory;
mod metrics;
mod nodes;
mod view;

use std::{sync::Arc, time::Duration};

use http::HeaderValue;
use provider::{
    Config, Deps, InstancesMode, Options, SupervisorLink, SupervisorTuning, Telemetry, TokenSource,
    authenticated, run,
};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::Cluster,
    supervisor::{Refusals, Supervisor, object},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A provider that runs as long as this value exists, and its fake servers.
struct Lab {
    supervisor: Supervisor,
    cluster: Cluster,
    telemetry: Arc<Telemetry>,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn tuning(mode: InstancesMode) -> SupervisorTuning {
    SupervisorTuning { mode, ..SupervisorTuning::default() }
}

/// Refusals of a role that may not watch, if `watch` is true, and may not list, if `list` is true.
fn forbidden(watch: bool, list: bool) -> Refusals {
    let code = |is: bool| is.then_some(403);
    Refusals { watch: code(watch), list: code(list), get: None }
}

/// Name of the machine with number `i`, and of its node.
fn name(i: usize) -> String {
    format!("n{i:04}")
}

fn machine(i: usize) -> Value {
    object(&name(i), &format!("e{i:04}"), &format!("10.0.{}.{}", i / 250, i % 250 + 1))
}

/// A Node that was initialized long ago, with this provider ID and the address 10.9.9.9.
fn old_node(name: &str, provider_id: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "creationTimestamp": "1969-01-01T00:00:00Z"},
        "spec": {"providerID": provider_id},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "10.9.9.9"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

impl Lab {
    /// Starts a provider, and does not wait until its nodes are initialized.
    fn start(supervisor: Supervisor, cluster: Cluster, tuning: SupervisorTuning) -> Self {
        let client = supervisor.client();
        Self::start_with(supervisor, cluster, tuning, client)
    }

    /// Like [`Lab::start`], but with another client of the Supervisor.
    fn start_with(
        supervisor: Supervisor,
        cluster: Cluster,
        tuning: SupervisorTuning,
        client: kube::Client,
    ) -> Self {
        let options = Options { supervisor: Some(tuning), ..Options::default() };
        let link = SupervisorLink { client, namespace: "dev".to_owned() };
        let stop = CancellationToken::new();
        let deps = Deps {
            supervisor: Some(link),
            seed: 7,
            stop: stop.clone(),
            ..Deps::new(cluster.client())
        };
        let telemetry = Arc::clone(&deps.telemetry);
        let running = run(Config::without_vcenters(), options, deps);
        let running = tokio::spawn(async move { running.await.unwrap() });
        Self { supervisor, cluster, telemetry, stop, running }
    }

    /// Starts a provider with `n` machines and nodes, waits until all nodes are initialized, and
    /// forgets the calls so far.
    async fn joined(n: usize, mode: InstancesMode) -> Self {
        let (supervisor, cluster) = (Supervisor::with(n), Cluster::new());
        for i in 0..n {
            cluster.join(&name(i), "");
        }
        let lab = Self::start(supervisor, cluster, tuning(mode));
        lab.until(5 * MINUTE, |lab| (0..n).all(|i| lab.is_initialized(&name(i)))).await;
        sleep(10 * SECOND).await;
        lab.supervisor.take_calls();
        lab.cluster.take_writes();
        lab
    }

    /// Stops the provider and waits for its end.
    async fn stopped(mut self) -> (Supervisor, Cluster) {
        self.stop.cancel();
        (&mut self.running).await.unwrap();
        (self.supervisor.clone(), self.cluster.clone())
    }

    /// Waits until a condition holds; panics after `limit`.
    async fn until(&self, limit: Duration, is_so: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !is_so(self) {
                sleep(SECOND / 10).await;
            }
        };
        tokio::time::timeout(limit, waiting).await.unwrap_or_else(|_| {
            panic!("not within {limit:?}; {} nodes exist", self.cluster.n_nodes())
        });
    }

    fn is_initialized(&self, name: &str) -> bool {
        let node = self.cluster.node(name).unwrap();
        node["spec"]["providerID"].is_string() && !has_taint(&node, "uninitialized")
    }

    fn not_ready(&self, name: &str) {
        self.cluster.set_ready(name, false);
    }

    fn is_there(&self, name: &str) -> bool {
        self.cluster.node(name).is_some()
    }

    /// Returns the addresses of a node that are not empty, without their types.
    fn addresses(&self, name: &str) -> Vec<String> {
        let node = self.cluster.node(name).unwrap();
        let list = node["status"]["addresses"].as_array().cloned().unwrap_or_default();
        let texts = list.iter().filter_map(|it| it["address"].as_str());
        texts.filter(|text| !text.is_empty()).map(str::to_owned).collect()
    }

    /// Returns the numbers of reads, pages of lists, and watches since the fake last forgot its
    /// calls, and makes it forget them.
    fn count(&self) -> [usize; 3] {
        let calls = self.supervisor.take_calls();
        ["GET ", "LIST", "WATCH"].map(|kind| calls.iter().filter(|it| it.starts_with(kind)).count())
    }

    /// True if the metrics contain this line.
    fn measures(&self, line: &str) -> bool {
        self.telemetry.metrics().lines().any(|it| it == line)
    }

    fn is_state(&self, state: &str) -> bool {
        self.measures(&format!("vsphere_supervisor_view_state{{state=\"{state}\"}} 1"))
    }
}

fn has_taint(node: &Value, name: &str) -> bool {
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.iter().any(|it| it["key"] == format!("node.cloudprovider.kubernetes.io/{name}"))
}
