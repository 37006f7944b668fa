//! Our provider, deployed from its manifests with the configuration of a laboratory.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::json;

use super::cluster::Cluster;
use super::vcenter::Access;

/// The image as the manifests name it.
const PUBLISHED: &str = "vsphere-lab/provider:latest";
const NAMESPACE: &str = "kube-system";
/// Name of the DaemonSet.
pub(super) const WORKLOAD: &str = "vsphere-cloud-controller-manager";

/// Deploys it and waits until it runs.
///
/// # Errors
/// The cluster refused something, or it does not run after two minutes.
pub(super) async fn provider(
    cluster: &Cluster,
    project: &Path,
    image: &str,
    access: &Access,
) -> anyhow::Result<()> {
    let path = project.join("provider/deploy/vcenter.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    if !text.contains(PUBLISHED) {
        bail!("{}: no image {PUBLISHED}", path.display());
    }
    cluster.apply(&text.replace(PUBLISHED, image)).await?;
    cluster.apply(&configuration(access)).await?;
    // Pods that came before their configuration have the placeholder's.
    let restart =
        cluster.kubectl().args(["-n", NAMESPACE, "rollout", "restart", "daemonset", WORKLOAD]);
    restart.output().await?;
    runs(cluster, Duration::from_secs(120)).await
}

/// Waits until every replica runs and is ready.
pub(super) async fn runs(cluster: &Cluster, within: Duration) -> anyhow::Result<()> {
    let timeout = format!("--timeout={}s", within.as_secs());
    let status =
        cluster.kubectl().args(["-n", NAMESPACE, "rollout", "status", "daemonset", WORKLOAD]);
    status.arg(timeout).output().await.map(drop)
}

/// ConfigMap and Secret with the names of the manifests.
fn configuration(access: &Access) -> String {
    let Access { host, port, user, password, authority } = access;
    let config = format!(
        "global:\n  port: {port}\n  caFile: /etc/cloud/ca.pem\n  secretName: vsphere-cloud-secret\n  \
         secretNamespace: {NAMESPACE}\nvcenter:\n  lab:\n    server: {host}\n    datacenters: [DC0]\n\
         labels:\n  region: k8s-region\n  zone: k8s-zone\n"
    );
    let mut secret = serde_json::Map::new();
    secret.insert(format!("{host}.username"), user.as_str().into());
    secret.insert(format!("{host}.password"), password.as_str().into());
    let meta = |name: &str| json!({"name": name, "namespace": NAMESPACE});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("vsphere-cloud-config"),
         "data": {"vsphere.conf": config, "ca.pem": authority}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": meta("vsphere-cloud-secret"),
         "stringData": secret},
    ]});
    list.to_string()
}
