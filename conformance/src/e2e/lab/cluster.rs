//! The workload cluster of a lab: kind makes it from a node image, and this module accesses it with
//! its kubeconfig.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde_json::Value;
use sim_world::vcenter::swap_uuid;

use crate::e2e::engine;
use crate::e2e::shell::{Call, call};

/// Comment that marks the iptables rules of [`Cluster::cut`].
const CUT: &str = "vsphere-lab-cut";
/// kind's public node image, without its tag.
const STOCK: &str = "kindest/node";

/// A cluster made by kind.
pub(in crate::e2e) struct Cluster {
    name: String,
    kind: PathBuf,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    client: kube::Client,
}

/// Paths of the programs `kind`, which makes a cluster, and `kubectl`, which accesses it.
#[derive(Clone, Debug)]
pub(in crate::e2e) struct Programs {
    kind: PathBuf,
    kubectl: PathBuf,
}

impl Programs {
    /// Builds the programs from their Go modules, unless they are in the cache, and returns their
    /// paths.
    pub(in crate::e2e) async fn find(project: &Path) -> anyhow::Result<Self> {
        let build = project.join("conformance/peers/build.sh");
        let peer = async |name: &str| -> anyhow::Result<PathBuf> {
            Ok(PathBuf::from(call(&build).arg(name).output_with_progress().await?))
        };
        Ok(Self { kind: peer("kind").await?, kubectl: peer("kubectl").await? })
    }
}

/// Returns the node image: `named` if given, else kind's public one if the engine has it or can
/// pull it, else the one that `kind/node-image/build.sh` builds.
pub(in crate::e2e) async fn node_image(
    project: &Path,
    named: Option<&str>,
) -> anyhow::Result<String> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let version = kubernetes_version(project)?;
    let stock = format!("{STOCK}:{version}");
    let is_there = call("docker").args(["image", "inspect", &stock]).succeeds();
    // A registry that does not answer within a minute counts as absent.
    let is_had = call("docker").args(["manifest", "inspect", &stock]).succeeds();
    let may_be_had = tokio::time::timeout(Duration::from_secs(60), is_had);
    if is_there.await
        || (may_be_had.await.unwrap_or_default()
            && call("docker").args(["pull", "-q", &stock]).succeeds().await)
    {
        return Ok(stock);
    }
    call(project.join("kind/node-image/build.sh")).output_with_progress().await
}

/// Returns the Kubernetes version in `conformance/peers/kubernetes/go.mod`.
fn kubernetes_version(project: &Path) -> anyhow::Result<String> {
    let path = project.join("conformance/peers/kubernetes/go.mod");
    let text = std::fs::read_to_string(&path).with_context(|| {
        format!("cannot read {}; name a checkout of this project with --project", path.display())
    })?;
    let line = text.lines().find_map(|it| it.strip_prefix("require k8s.io/kubernetes "));
    line.map(str::to_owned).ok_or_else(|| {
        anyhow!(
            "{}: no line begins with `require k8s.io/kubernetes`; name a checkout of this project \
             with --project, or restore the file",
            path.display()
        )
    })
}

impl Cluster {
    /// Creates a cluster with kind, and writes its kubeconfig into `directory`.
    pub(in crate::e2e) async fn create(
        name: &str,
        project: &Path,
        programs: Programs,
        image: &str,
        directory: &Path,
    ) -> anyhow::Result<Self> {
        let kubeconfig = directory.join("kubeconfig");
        Call::bound(&programs.kind)?
            .inside(project)
            .args(["create", "cluster", "--name", name, "--image", image, "--retain"])
            .arg("--config")
            .arg(project.join("kind/cluster.yaml"))
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .output()
            .await?;
        Self::open(name, programs, directory).await
    }

    /// Opens an existing cluster, whose kubeconfig is in `directory`.
    pub(in crate::e2e) async fn open(
        name: &str,
        programs: Programs,
        directory: &Path,
    ) -> anyhow::Result<Self> {
        let kubeconfig = directory.join("kubeconfig");
        let read = kube::config::Kubeconfig::read_from(&kubeconfig)
            .with_context(|| format!("{}: cannot read this kubeconfig; if the cluster does not exist, delete the lab with `conformance e2e down` and make it again", kubeconfig.display()))?;
        let config = kube::Config::from_custom_kubeconfig(read, &Default::default()).await?;
        let client = kube::Client::try_from(config)?;
        let Programs { kind, kubectl } = programs;
        Ok(Self { name: name.to_owned(), kind, kubectl, kubeconfig, client })
    }

    /// Loads images of the local engine into the nodes of the cluster.
    pub(in crate::e2e) async fn load(&self, images: &[String]) -> anyhow::Result<()> {
        let load = call(&self.kind).args(["load", "docker-image", "--name", &self.name]);
        load.args(images).output().await.map(drop)
    }

    /// Returns a call of kubectl with this cluster's kubeconfig.
    pub(in crate::e2e) fn kubectl(&self) -> Call {
        call(&self.kubectl).arg("--kubeconfig").arg(&self.kubeconfig)
    }

    /// Returns the path of the program kubectl.
    pub(in crate::e2e) fn kubectl_path(&self) -> &Path {
        &self.kubectl
    }

    /// Applies manifests in YAML or JSON with kubectl.
    pub(in crate::e2e) async fn apply(&self, manifests: &str) -> anyhow::Result<()> {
        self.kubectl().args(["apply", "-f", "-"]).with_input(manifests).await.map(drop)
    }

    /// Returns the API server's answer to a GET of this path.
    pub(in crate::e2e) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let request = http::Request::get(path).body(Vec::new())?;
        Ok(self.client.request(request).await?)
    }

    /// Returns a client of this cluster.
    pub(in crate::e2e) fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Runs a shell command line in the container of the control plane's node and returns its
    /// output.
    pub(in crate::e2e) async fn on_control_plane(&self, line: &str) -> anyhow::Result<String> {
        let machine = format!("{}-control-plane", self.name);
        call("docker").args(["exec", &machine, "sh", "-c", line]).output().await
    }

    /// Cuts all nodes and their pods off from the address `from`. The nodes' containers silently
    /// drop packets from nodes and pods to this address, and packets from this address to the
    /// nodes.
    pub(in crate::e2e) async fn cut(&self, from: &str) -> anyhow::Result<()> {
        let rule = |chain: &str, side: &str| {
            format!("iptables -I {chain} {side} {from} -m comment --comment {CUT} -j DROP")
        };
        let rules = [rule("INPUT", "-s"), rule("OUTPUT", "-d"), rule("FORWARD", "-d")].join(" && ");
        self.on_machines(&rules).await
    }

    /// Removes every rule of [`Self::cut`].
    pub(in crate::e2e) async fn mend(&self) -> anyhow::Result<()> {
        let rules = format!("iptables -S | sed -n '/{CUT}/s/^-A/iptables -D/p' | sh -e");
        self.on_machines(&rules).await
    }

    /// Continues etcd and kubelets that an interrupted scenario may have stopped, mends the
    /// network, and waits until every Node exists.
    ///
    /// # Errors
    /// Fails if a Node is still missing after two minutes, or if a step fails.
    pub(in crate::e2e) async fn recover(&self) -> anyhow::Result<()> {
        self.on_machines("pkill -CONT -x etcd; systemctl start kubelet").await?;
        self.mend().await?;
        let n = engine::nodes(&self.name).await?.len();
        let all = async || Ok(self.nodes().await.is_ok_and(|it| it.len() >= n).then_some(()));
        if crate::e2e::until(Duration::from_secs(120), all).await?.is_none() {
            bail!(
                "the API server of the kind cluster does not list all its Nodes after 120 s; \
                 delete the lab with `conformance e2e down` and make it again"
            );
        }
        Ok(())
    }

    /// True if the control plane's node can connect to this address and port within 5 s.
    pub(in crate::e2e) async fn reaches(&self, address: &str, port: u16) -> bool {
        let connect = format!("timeout 5 bash -c '</dev/tcp/{address}/{port}'");
        self.on_control_plane(&connect).await.is_ok()
    }

    async fn on_machines(&self, line: &str) -> anyhow::Result<()> {
        for machine in engine::nodes(&self.name).await? {
            call("docker").args(["exec", &machine, "sh", "-c", line]).output().await?;
        }
        Ok(())
    }

    /// Returns the Nodes of the cluster.
    pub(in crate::e2e) async fn nodes(&self) -> anyhow::Result<Vec<Value>> {
        let list = self.get("/api/v1/nodes").await?;
        let items = list["items"].as_array().cloned();
        Ok(items.unwrap_or_default())
    }

    /// Returns the machines of the real nodes, with the addresses of the nodes on kind's network.
    pub(in crate::e2e) async fn machines(&self) -> anyhow::Result<Vec<Machine>> {
        let mut machines = Vec::new();
        for node in self.nodes().await? {
            let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let text = node["status"]["nodeInfo"]["systemUUID"].as_str().unwrap_or_default();
            let shown = text.parse().with_context(|| {
                format!(
                    "node {name}: status.nodeInfo.systemUUID, which the kubelet reports, is not a \
                     UUID: {text:?}"
                )
            })?;
            let address = engine::address(&name).await?;
            // If the firmware has no UUID, the kubelet reports the machine ID, which has no dashes
            // and whose byte order is not swapped.
            let uuid = if text.contains('-') { swap_uuid(shown) } else { shown };
            machines.push(Machine { name, uuid, address });
        }
        Ok(machines)
    }
}

/// Data of a node for its machine in the simulator. A real node is a container of the Docker
/// engine; a node with a simulated kubelet has no container.
#[derive(Clone, Debug)]
pub(in crate::e2e) struct Machine {
    /// Name of the machine, the Node and the container.
    pub(in crate::e2e) name: String,
    /// BIOS UUID in vCenter's byte order; the kubelet reports it in the guest's byte order.
    pub(in crate::e2e) uuid: uuid::Uuid,
    /// Address of the guest; for a real node, its address on kind's network.
    pub(in crate::e2e) address: String,
}
