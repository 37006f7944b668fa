//! A fleet of Nodes without real kubelets. This module registers the Nodes as kubelets do, and
//! keeps them Ready by renewing their leases.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::plan::Plan;
use crate::e2e::lab::cluster::Cluster;
use crate::e2e::lab::kubelet::{self, FLEET};
use crate::judge::{NodeFacts, facts};

/// Interval at which each lease is renewed; a Node is NotReady after 50 s without renewal.
const RENEWAL: Duration = Duration::from_secs(15);
/// Number of parallel requests.
const AT_ONCE: usize = 16;

/// A fleet of Nodes with simulated kubelets. Dropping it ends the renewal of the leases.
#[derive(Debug)]
pub(super) struct Fleet {
    nodes: Vec<(String, uuid::Uuid)>,
    _renewals: AbortOnDropHandle<()>,
}

/// Keeps the pods of the DaemonSets in `kube-system` off the fleet, because the simulated kubelets
/// run no pods.
pub(super) async fn avoid(cluster: &Cluster) -> anyhow::Result<()> {
    let term = json!({"matchExpressions": [{"key": FLEET, "operator": "DoesNotExist"}]});
    let affinity = json!({"nodeAffinity":
        {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
    let patch = json!({"spec": {"template": {"spec": {"affinity": affinity}}}}).to_string();
    let list = ["-n", "kube-system", "get", "daemonsets", "-o", "name"];
    for name in cluster.kubectl().args(list).output().await?.lines() {
        let kubectl = cluster.kubectl().args(["-n", "kube-system", "patch", name, "-p", &patch]);
        kubectl.output().await?;
    }
    Ok(())
}

impl Fleet {
    /// Takes the names and UUIDs of the Nodes from the plan, and starts to renew leases. Does not
    /// register the Nodes yet.
    pub(super) fn new(plan: &Plan, cluster: &Cluster) -> anyhow::Result<Self> {
        let world = plan.topology().build(Timestamp::UNIX_EPOCH, 0);
        let vcenter = world.vcenter("vc0").context(
            "the simulated world of the benchmark has no vCenter vc0; report this bug of \
             conformance",
        )?;
        let mut nodes = Vec::new();
        for (_, entity, machine) in vcenter.inventory.machines() {
            let uuid = machine.config.uuid.with_context(|| {
                format!(
                    "the simulated machine {} has no UUID; report this bug of conformance",
                    entity.name
                )
            })?;
            nodes.push((entity.name.clone(), uuid));
        }
        let names: Arc<[String]> = nodes.iter().map(|(name, _)| name.clone()).collect();
        let client = cluster.client();
        // Dropping the fleet ends the renewals.
        let renewals = AbortOnDropHandle::new(tokio::task::spawn(renew(client, names)));
        Ok(Self { nodes, _renewals: renewals })
    }

    /// Registers all Nodes, and then posts each status once. The status is a change of the Node:
    /// some controllers of the cluster look at a Node only when it changes, and what they write
    /// depends on the number of Nodes.
    pub(super) async fn register(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let register = |(name, uuid): (String, uuid::Uuid)| async move {
            kubelet::register(cluster, &name, uuid).await
        };
        let all = stream::iter(self.nodes.clone()).map(register).buffer_unordered(AT_ONCE);
        all.try_collect::<()>().await?;
        let report =
            |(name, _): (String, uuid::Uuid)| async move { kubelet::report(cluster, &name).await };
        let all = stream::iter(self.nodes.clone()).map(report).buffer_unordered(AT_ONCE);
        all.try_collect::<()>().await
    }

    /// Returns the current resource versions of the fleet's Nodes.
    pub(super) async fn versions(cluster: &Cluster) -> anyhow::Result<BTreeSet<String>> {
        let nodes = cluster.nodes().await?;
        let of_fleet = nodes.iter().filter(|it| it["metadata"]["labels"].get(FLEET).is_some());
        let version = |it: &Value| it["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        Ok(of_fleet.filter_map(version).collect())
    }

    /// Returns the names of the Nodes that a provider has not initialized yet, including the real
    /// ones.
    pub(super) async fn waiting(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
        let is_waiting = |node: &NodeFacts| node.uninitialized || node.provider_id.is_none();
        let nodes = cluster.nodes().await?;
        let waiting = nodes.iter().filter(|node| is_waiting(&facts(node)));
        Ok(waiting.filter_map(|it| Some(it["metadata"]["name"].as_str()?.to_owned())).collect())
    }
}

/// Renews all leases again and again, evenly spread over [`RENEWAL`].
async fn renew(client: kube::Client, names: Arc<[String]>) {
    let count = u32::try_from(names.len()).unwrap_or(u32::MAX).max(1);
    let mut ticks = tokio::time::interval(RENEWAL / count);
    loop {
        for name in names.iter() {
            ticks.tick().await;
            let path =
                format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}");
            let body = json!({"spec": {"renewTime": kubelet::now()}}).to_string();
            let request = http::Request::patch(path)
                .header("Content-Type", "application/merge-patch+json")
                .body(body.into_bytes());
            // Ignores an error, because the lease may not exist yet or no longer.
            if let Ok(request) = request {
                let _ = client.request::<Value>(request).await;
            }
        }
    }
}
