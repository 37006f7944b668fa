//! Requests of simulated kubelets: registers Nodes for an external cloud provider, as kubelets do,
//! posts their status, and removes them.

use serde_json::{Value, json};
use sim_world::vcenter::swap_uuid;

use super::cluster::Cluster;

/// Label and taint of Nodes whose kubelets are simulated.
pub(in crate::e2e) const FLEET: &str = "io.vsphere-lab/fleet";

/// Creates the lease and the Node of a machine with this BIOS UUID.
pub(in crate::e2e) async fn register(
    cluster: &Cluster,
    name: &str,
    uuid: uuid::Uuid,
) -> anyhow::Result<()> {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    for (path, body) in [(leases, lease(name)), ("/api/v1/nodes", node(name, uuid))] {
        let request = http::Request::post(path).body(body.to_string().into_bytes())?;
        cluster.client().request::<Value>(request).await?;
    }
    Ok(())
}

/// Posts the condition Ready with new timestamps and no other change, as a kubelet does every five
/// minutes.
pub(in crate::e2e) async fn report(cluster: &Cluster, name: &str) -> anyhow::Result<()> {
    let heartbeat = json!({"status": {"conditions": [ready()]}}).to_string();
    let request = http::Request::patch(format!("/api/v1/nodes/{name}/status"))
        .header(http::header::CONTENT_TYPE, "application/strategic-merge-patch+json")
        .body(heartbeat.into_bytes())?;
    cluster.client().request::<Value>(request).await?;
    Ok(())
}

/// Removes all Nodes with the label [`FLEET`], and their leases.
pub(in crate::e2e) async fn remove_all(cluster: &Cluster) -> anyhow::Result<()> {
    for path in ["/api/v1/nodes", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"]
    {
        let path = format!("{path}?labelSelector={FLEET}");
        let request = http::Request::delete(path).body(Vec::new())?;
        cluster.client().request::<Value>(request).await?;
    }
    Ok(())
}

/// Returns the time of the system clock.
#[expect(clippy::disallowed_methods, reason = "a real cluster uses the wall clock")]
pub(in crate::e2e) fn time() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Returns the current time with microseconds, in the format of a lease.
pub(in crate::e2e) fn now() -> String {
    time().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

fn lease(name: &str) -> Value {
    let spec = json!({"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now()});
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec,
        "metadata": {"name": name, "namespace": "kube-node-lease", "labels": {FLEET: "true"}}})
}

fn ready() -> Value {
    let time = time().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({"type": "Ready", "status": "True", "reason": "KubeletReady",
        "message": "played by the benchmark", "lastHeartbeatTime": time, "lastTransitionTime": time})
}

/// Returns a Node as a kubelet registers it for an external cloud provider.
fn node(name: &str, uuid: uuid::Uuid) -> Value {
    let taint =
        |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoSchedule"});
    let labels = json!({FLEET: "true", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64"});
    json!({"apiVersion": "v1", "kind": "Node",
    "metadata": {"name": name, "labels": labels},
    "spec": {"taints": [
        taint("node.cloudprovider.kubernetes.io/uninitialized", "true"),
        taint(FLEET, "true"),
    ]},
    "status": {
        "addresses": [{"type": "Hostname", "address": name}],
        "capacity": {"cpu": "2", "memory": "4Gi", "pods": "110"},
        "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"},
        "conditions": [ready()],
        "nodeInfo": {
            "machineID": "", "bootID": "", "kernelVersion": "", "osImage": "",
            "containerRuntimeVersion": "", "kubeletVersion": "v1.36.3", "kubeProxyVersion": "",
            "operatingSystem": "linux", "architecture": "amd64",
            // The guest of a machine on vSphere sees its BIOS UUID with swapped bytes.
            "systemUUID": swap_uuid(uuid).to_string(),
        },
    }})
}
