//! Nodes whose kubelets are played: registered as kubelets register them, and kept alive by their leases.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use serde_json::{Value, json};
use sim_world::vcenter::swap_uuid;
use tokio_util::task::AbortOnDropHandle;

use super::plan::Plan;
use crate::e2e::cluster::Cluster;
use crate::judge::{NodeFacts, facts};

/// What all of them are labelled with.
pub(super) const LABEL: &str = "io.vsphere-lab/fleet";
/// A lease is renewed so often; nodes are NotReady after 50 s without.
const RENEWAL: Duration = Duration::from_secs(15);
/// Requests at a time.
const AT_ONCE: usize = 16;

/// A fleet that is there. It falls silent when it is dropped.
#[derive(Debug)]
pub(super) struct Fleet {
    nodes: Vec<(String, uuid::Uuid)>,
    _renewals: AbortOnDropHandle<()>,
}

/// Keeps the cluster's own pods away from fleets: their machines run nothing.
pub(super) async fn avoid(cluster: &Cluster) -> anyhow::Result<()> {
    let term = json!({"matchExpressions": [{"key": LABEL, "operator": "DoesNotExist"}]});
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
    /// Who they are. Nothing is registered yet.
    pub(super) fn new(plan: &Plan, cluster: &Cluster) -> anyhow::Result<Self> {
        let world = plan.topology().build(Timestamp::UNIX_EPOCH, 0);
        let vcenter = world.vcenter("vc0").context("a world has a vCenter")?;
        let mut nodes = Vec::new();
        for (_, entity, machine) in vcenter.inventory.machines() {
            let uuid = machine.config.uuid.context("a machine has a UUID")?;
            nodes.push((entity.name.clone(), uuid));
        }
        let names: Arc<[String]> = nodes.iter().map(|(name, _)| name.clone()).collect();
        let client = cluster.client();
        // Ends with the fleet.
        let renewals = AbortOnDropHandle::new(tokio::task::spawn(renew(client, names)));
        Ok(Self { nodes, _renewals: renewals })
    }

    /// All register at once.
    pub(super) async fn register(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let post = |path: &'static str, body: Value| {
            let client = cluster.client();
            async move {
                let request = http::Request::post(path).body(body.to_string().into_bytes())?;
                client.request::<Value>(request).await?;
                anyhow::Ok(())
            }
        };
        let register = |(name, uuid): (String, uuid::Uuid)| async move {
            let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
            post(leases, lease(&name)).await?;
            post("/api/v1/nodes", node(&name, uuid)).await
        };
        let all = stream::iter(self.nodes.clone()).map(register).buffer_unordered(AT_ONCE);
        all.try_collect::<()>().await
    }

    /// Those that a provider has not initialized yet.
    pub(super) async fn waiting(&self, cluster: &Cluster) -> anyhow::Result<Vec<String>> {
        let list = cluster.get(&format!("/api/v1/nodes?labelSelector={LABEL}")).await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let is_done = |node: &NodeFacts| !node.uninitialized && node.provider_id.is_some();
        let done: std::collections::BTreeSet<_> = items
            .iter()
            .filter(|node| is_done(&facts(node)))
            .filter_map(|node| node["metadata"]["name"].as_str())
            .collect();
        let names = self.nodes.iter().map(|(name, _)| name.as_str());
        Ok(names.filter(|name| !done.contains(name)).map(str::to_owned).collect())
    }

    /// They are gone.
    pub(super) async fn remove(cluster: &Cluster) -> anyhow::Result<()> {
        for path in
            ["/api/v1/nodes", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"]
        {
            let path = format!("{path}?labelSelector={LABEL}");
            let request = http::Request::delete(path).body(Vec::new())?;
            cluster.client().request::<Value>(request).await?;
        }
        Ok(())
    }
}

/// Renews the leases of all, spread evenly over the interval.
async fn renew(client: kube::Client, names: Arc<[String]>) {
    let count = u32::try_from(names.len()).unwrap_or(u32::MAX).max(1);
    let mut ticks = tokio::time::interval(RENEWAL / count);
    loop {
        for name in names.iter() {
            ticks.tick().await;
            let path =
                format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}");
            let body = json!({"spec": {"renewTime": now()}}).to_string();
            let request = http::Request::patch(path)
                .header("Content-Type", "application/merge-patch+json")
                .body(body.into_bytes());
            // One that is not there yet, or not any more, is no failure.
            if let Ok(request) = request {
                let _ = client.request::<Value>(request).await;
            }
        }
    }
}

/// With microseconds, as the API has it. Wall clock: this talks to a real cluster.
fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

fn lease(name: &str) -> Value {
    let spec = json!({"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now()});
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec,
        "metadata": {"name": name, "namespace": "kube-node-lease", "labels": {LABEL: "true"}}})
}

/// A Node as a kubelet with an external cloud provider registers it.
fn node(name: &str, uuid: uuid::Uuid) -> Value {
    let time = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let taint =
        |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoSchedule"});
    let labels = json!({LABEL: "true", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64"});
    let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady",
        "message": "played by the benchmark", "lastHeartbeatTime": time, "lastTransitionTime": time});
    json!({"apiVersion": "v1", "kind": "Node",
    "metadata": {"name": name, "labels": labels},
    "spec": {"taints": [
        taint("node.cloudprovider.kubernetes.io/uninitialized", "true"),
        taint(LABEL, "true"),
    ]},
    "status": {
        "addresses": [{"type": "Hostname", "address": name}],
        "capacity": {"cpu": "2", "memory": "4Gi", "pods": "110"},
        "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"},
        "conditions": [ready],
        "nodeInfo": {
            "machineID": "", "bootID": "", "kernelVersion": "", "osImage": "",
            "containerRuntimeVersion": "", "kubeletVersion": "v1.36.3", "kubeProxyVersion": "",
            "operatingSystem": "linux", "architecture": "amd64",
            // What the guest of a machine on vSphere shows of its BIOS UUID.
            "systemUUID": swap_uuid(uuid).to_string(),
        },
    }})
}
