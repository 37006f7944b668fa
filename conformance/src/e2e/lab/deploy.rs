//! Deploys our provider from its manifests, or another one with the same workload, with the
//! configuration of a lab.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::peer::{self, Program};
use super::simulator::{Access, Credentials, Simulator};
use crate::e2e::until;
use crate::lab::LEASE;
use crate::scenario::Backend;

/// Name of the provider's image in the published manifests.
const PUBLISHED: &str = concat!("vsphere-lab/provider:", env!("CARGO_PKG_VERSION"));
/// Namespace of the provider's objects.
pub(in crate::e2e) const NAMESPACE: &str = "kube-system";
/// Name of the provider's DaemonSet.
pub(in crate::e2e) const WORKLOAD: &str = "vsphere-cloud-controller-manager";

/// Description of a provider to deploy.
#[derive(Clone, Debug, Default)]
pub(in crate::e2e) struct Deployment {
    /// Image of the provider.
    pub(in crate::e2e) image: String,
    /// Flags in addition to those of the manifest.
    pub(in crate::e2e) flags: Vec<String>,
    /// True to add a standby replica. The standby has its own DaemonSet, because both replicas run
    /// on the control plane's node and each needs its own port.
    pub(in crate::e2e) second: bool,
    /// Provider of another vendor to deploy; `None` to deploy ours.
    pub(in crate::e2e) program: Option<Program>,
}

/// A replica: its DaemonSet, and the port by which its process is found.
#[derive(Clone, Copy, Debug)]
struct Replica {
    workload: &'static str,
    port: u16,
}

const FIRST: Replica = Replica { workload: WORKLOAD, port: 10258 };
/// The standby. Its port is not next to 10258, because 10257 and 10259 belong to the controller
/// manager and the scheduler.
const SECOND: Replica =
    Replica { workload: "vsphere-cloud-controller-manager-second", port: 10268 };

impl Deployment {
    /// Deploys the provider and waits until it runs.
    ///
    /// # Errors
    /// Fails if a manifest or a file of the simulator cannot be read or used, if the cluster
    /// rejects a manifest, or if a replica is not ready after two minutes.
    pub(in crate::e2e) async fn deploy(
        &self,
        cluster: &Cluster,
        project: &Path,
        simulator: &Simulator,
        backend: Backend,
    ) -> anyhow::Result<()> {
        cluster.apply(&configuration(simulator, backend)?).await?;
        let text = manifests(project, backend)?;
        // Leaves out the manifests' own configuration, in place of which the lab's was applied
        // above.
        let text = without_configuration(&text.replace(PUBLISHED, &self.image));
        // Applies the workload with its flags at once, because a pod without them would begin to
        // work.
        let (workload, rest) = apart(&text)?;
        let mut parts = vec![rest];
        for replica in self.replicas() {
            parts.push(self.adjusted(cluster, *replica, &workload, simulator, backend).await?);
        }
        if self.program.is_some() {
            parts.push(peer::binding().to_string());
        }
        cluster.apply(&parts.join("\n---\n")).await?;
        self.runs(cluster, Duration::from_secs(120)).await
    }

    fn replicas(&self) -> &'static [Replica] {
        if self.second { &[FIRST, SECOND] } else { &[FIRST] }
    }

    /// Returns the workload of a replica with its flags and, for a Supervisor, with the simulator's
    /// address for the Supervisor's host name.
    async fn adjusted(
        &self,
        cluster: &Cluster,
        replica: Replica,
        workload: &str,
        simulator: &Simulator,
        backend: Backend,
    ) -> anyhow::Result<String> {
        let mut patch: Vec<Value> = self.program.map_or_else(Vec::new, |it| it.patch(replica.port));
        for flag in &self.flags {
            patch.push(json!({
                "op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": flag,
            }));
        }
        let pods = "/spec/template/spec";
        if backend == Backend::Supervisor {
            let alias = json!([{"ip": simulator.address, "hostnames": ["supervisor.default.svc"]}]);
            patch.push(json!({"op": "add", "path": format!("{pods}/hostAliases"), "value": alias}));
        }
        let patch = serde_json::to_string(&patch)?;
        let kubectl = cluster.kubectl().args(["patch", "--local", "-f", "-", "--type=json"]);
        kubectl
            .args(["-p", &patch, "-o", "yaml"])
            .with_input(&replica.workload_from(workload))
            .await
    }

    /// Waits until every replica runs and is ready, up to `within` for each.
    ///
    /// # Errors
    /// Fails if a replica is not ready in time.
    pub(in crate::e2e) async fn runs(
        &self,
        cluster: &Cluster,
        within: Duration,
    ) -> anyhow::Result<()> {
        let timeout = format!("--timeout={}s", within.as_secs());
        for replica in self.replicas() {
            let status = ["rollout", "status", "daemonset", replica.workload, &timeout];
            cluster.kubectl().args(["-n", NAMESPACE]).args(status).output().await?;
        }
        Ok(())
    }
}

/// Removes every replica, waits up to a minute until the pods are gone, and removes the Lease and
/// the rights of peers.
pub(in crate::e2e) async fn remove(cluster: &Cluster) -> anyhow::Result<()> {
    let kubectl = || cluster.kubectl().args(["-n", NAMESPACE, "delete", "--ignore-not-found"]);
    let both = ["daemonset", FIRST.workload, SECOND.workload];
    kubectl().args(both).args(["--cascade=foreground", "--timeout=60s"]).output().await?;
    kubectl().args(["lease", LEASE.1]).output().await?;
    kubectl().args(["clusterrolebinding", peer::BINDING]).output().await.map(drop)
}

/// Returns the last twelve log lines of every replica.
pub(in crate::e2e) async fn last_words(cluster: &Cluster) -> String {
    let mut text = String::new();
    for replica in [FIRST, SECOND] {
        let workload = format!("daemonset/{}", replica.workload);
        let logs = ["-n", NAMESPACE, "logs", "--tail=12", &workload];
        text.push_str(&cluster.kubectl().args(logs).output().await.unwrap_or_default());
    }
    text
}

/// Returns the holder of the Lease, or an empty string if the Lease has none. Fails if the Lease
/// does not exist.
pub(in crate::e2e) async fn holder(cluster: &Cluster) -> anyhow::Result<String> {
    let (namespace, name) = LEASE;
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
    let lease = cluster.get(&path).await?;
    Ok(lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned())
}

/// Waits up to `within` until the Lease has another holder than `first`. True if it gets one, false
/// after the time is over.
pub(in crate::e2e) async fn is_handed_on(
    cluster: &Cluster,
    first: &str,
    within: Duration,
) -> anyhow::Result<bool> {
    let other = async || {
        let now = holder(cluster).await?;
        Ok((!now.is_empty() && now != first).then_some(()))
    };
    Ok(until(within, other).await?.is_some())
}

/// Returns the process ID of the leader in the container of the control plane's node. The log of a
/// replica shows whether it leads. The Lease does not, because its holder is named after the host,
/// which all replicas share.
///
/// # Errors
/// Fails if no replica leads within a minute.
pub(in crate::e2e) async fn leader(cluster: &Cluster) -> anyhow::Result<u32> {
    let found = until(Duration::from_secs(60), async || {
        for replica in [FIRST, SECOND] {
            let workload = format!("daemonset/{}", replica.workload);
            let logs = cluster.kubectl().args(["-n", NAMESPACE, "logs", &workload]);
            let Ok(log) = logs.output().await else { continue };
            if !LEADS.iter().any(|it| log.contains(it)) {
                continue;
            }
            // The brackets keep the pattern from matching the command line of its own shell.
            let (head, tail) = (replica.port / 10, replica.port % 10);
            let find = format!("pgrep -f 'secure-port={head}[{tail}]'");
            let Ok(process) = cluster.on_control_plane(&find).await else { continue };
            return Ok(process.lines().next().and_then(|it| it.parse().ok()));
        }
        Ok(None)
    });
    found.await?.with_context(|| {
        format!(
            "found no leading replica within a minute; read the logs of the DaemonSets {} and {} in namespace {NAMESPACE}",
            FIRST.workload, SECOND.workload
        )
    })
}

/// Log texts with which providers report that they begin to lead: ours, and that of client-go,
/// which begins with a lower-case or a capital letter.
const LEADS: [&str; 2] = [": leading ", "uccessfully acquired lease"];

impl Replica {
    /// Returns the workload of the manifests with the name and port of this replica.
    fn workload_from(self, workload: &str) -> String {
        let port = |replica: Self| replica.port.to_string();
        workload.replace(FIRST.workload, self.workload).replace(&port(FIRST), &port(self))
    }
}

/// Splits the manifests into the workload, which is the only DaemonSet, and all other objects.
fn apart(manifests: &str) -> anyhow::Result<(String, String)> {
    let (workloads, rest): (Vec<&str>, Vec<&str>) =
        manifests.split("\n---\n").partition(|it| it.contains("\nkind: DaemonSet\n"));
    let [workload] = workloads[..] else {
        bail!(
            "the manifests in provider/deploy contain {} DaemonSets instead of one; name a \
             checkout of the version of this program with --project",
            workloads.len()
        )
    };
    Ok((workload.to_owned(), rest.join("\n---\n")))
}

/// Reads the published manifests for this backend.
fn manifests(project: &Path, backend: Backend) -> anyhow::Result<String> {
    let file = match backend {
        Backend::VCenter => "vcenter.yaml",
        Backend::Supervisor => "supervisor.yaml",
    };
    let path: PathBuf = project.join("provider/deploy").join(file);
    let text = std::fs::read_to_string(&path).with_context(|| {
        format!("cannot read {}; name a checkout of this project with --project", path.display())
    })?;
    if !text.contains(PUBLISHED) {
        bail!(
            "{}: the file does not contain the image {PUBLISHED}; restore the file, or name with --project a checkout of the same version as this program",
            path.display()
        );
    }
    Ok(text)
}

fn without_configuration(manifests: &str) -> String {
    let is_placeholder = |document: &&str| {
        document.contains("\nkind: ConfigMap\n") || document.contains("\nkind: Secret\n")
    };
    manifests.split("\n---\n").filter(|it| !is_placeholder(it)).collect::<Vec<_>>().join("\n---\n")
}

/// Returns the provider's ConfigMaps and Secret with the lab's configuration, under the names in
/// the published manifests.
fn configuration(simulator: &Simulator, backend: Backend) -> anyhow::Result<String> {
    let items = match backend {
        Backend::VCenter => of_vcenter(&simulator.access()?),
        Backend::Supervisor => of_supervisor(&simulator.credentials()?),
    };
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
}

/// Writes another password of the provider to its Secret.
pub(in crate::e2e) async fn new_password(
    cluster: &Cluster,
    simulator: &Simulator,
    password: &str,
) -> anyhow::Result<()> {
    let access = Access { password: password.to_owned(), ..simulator.access()? };
    cluster.apply(&of_vcenter(&access)[1].to_string()).await
}

/// Writes the provider's Secret again, with the token that the Supervisor accepts now.
pub(in crate::e2e) async fn new_token(
    cluster: &Cluster,
    simulator: &Simulator,
) -> anyhow::Result<()> {
    cluster.apply(&of_supervisor(&simulator.credentials()?)[1].to_string()).await
}

fn of_vcenter(access: &Access) -> Value {
    let Access { host, port, user, password, authority } = access;
    let config = format!(
        "global:\n  port: {port}\n  caFile: /etc/cloud/ca.pem\n  secretName: vsphere-cloud-secret\n  \
         secretNamespace: {NAMESPACE}\nvcenter:\n  lab:\n    server: {host}\n    datacenters: [DC0]\n\
         labels:\n  region: k8s-region\n  zone: k8s-zone\n"
    );
    let files = json!({"vsphere.conf": config, "ca.pem": authority, "cloud.json": peer::cloud_json(access)});
    let mut secret = serde_json::Map::new();
    secret.insert(format!("{host}.username"), user.as_str().into());
    secret.insert(format!("{host}.password"), password.as_str().into());
    json!([
        object("ConfigMap", "vsphere-cloud-config", "data", files),
        object("Secret", "vsphere-cloud-secret", "stringData", secret.into()),
    ])
}

fn of_supervisor(credentials: &Credentials) -> Value {
    let Credentials { token, authority, namespace, owner } = credentials;
    let files = json!({"token": token, "ca.crt": authority, "namespace": namespace});
    json!([
        object("ConfigMap", "vsphere-cloud-config", "data", json!({"vsphere.conf": ""})),
        object("Secret", "cloud-provider-creds", "stringData", files),
        object("ConfigMap", "ccm-owner-reference", "data", json!({"owner-reference": owner})),
    ])
}

fn object(kind: &str, name: &str, field: &str, value: Value) -> Value {
    let meta = json!({"name": name, "namespace": NAMESPACE});
    json!({"apiVersion": "v1", "kind": kind, "metadata": meta, field: value})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_manifests_split_into_one_workload_and_its_rights() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        if package.join("Cargo.toml.orig").exists() {
            return; // An unpacked package: it contains no manifests.
        }
        let project = package.parent().unwrap();
        for backend in Backend::ALL {
            let text = without_configuration(&manifests(project, backend).unwrap());
            assert!(!text.contains("kind: Secret") && !text.contains("kind: ConfigMap"), "{text}");
            let (workload, rest) = apart(&text).unwrap();
            assert!(workload.contains(PUBLISHED) && rest.contains("kind: ClusterRole"), "{rest}");
            let second = SECOND.workload_from(&workload);
            assert!(second.contains("--secure-port=10268"), "{second}");
            assert!(!second.contains("10258"), "both replicas would use the same port");
        }
    }
}
