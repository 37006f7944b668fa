//! Providers of other vendors, "peers", that replace ours in a lab. They use our workload with
//! their own image, flags and configuration files.
//!
//! A peer has all rights in the cluster. Its vendor's manifests would define the rights that it
//! needs, but this stage does not test these manifests.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::deploy::NAMESPACE;
use super::simulator::Access;
use crate::e2e::shell::call;
use crate::scenario::{Backend, InputError};

/// Providers of other vendors that the benchmark and the scenarios support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::e2e) enum Program {
    /// A cloud controller manager of Kubernetes' Go framework (`k8s.io/cloud-provider`) with a
    /// small client of vCenter (`conformance/peers/vsphere-ccm`).
    StockCcm,
    /// Upstream's provider (`cloud-provider-vsphere`) with vCenter.
    UpstreamVcenter,
    /// Upstream's provider (`cloud-provider-vsphere`) with a Supervisor.
    UpstreamParavirtual,
}

impl Program {
    const ALL: [Self; 3] = [Self::StockCcm, Self::UpstreamVcenter, Self::UpstreamParavirtual];

    /// Returns the name in `--peer`.
    pub(in crate::e2e) const fn name(self) -> &'static str {
        match self {
            Self::StockCcm => "stock-ccm",
            Self::UpstreamVcenter => "upstream-vcenter",
            Self::UpstreamParavirtual => "upstream-paravirtual",
        }
    }

    /// Returns the backend of the provider.
    pub(in crate::e2e) const fn backend(self) -> Backend {
        match self {
            Self::StockCcm | Self::UpstreamVcenter => Backend::VCenter,
            Self::UpstreamParavirtual => Backend::Supervisor,
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::StockCcm => &["--cloud-provider=govmomi", "--cloud-config=/etc/cloud/cloud.json"],
            Self::UpstreamVcenter => {
                &["--cloud-provider=vsphere", "--cloud-config=/etc/cloud/vsphere.conf"]
            }
            Self::UpstreamParavirtual => &[
                "--cloud-provider=vsphere-paravirtual",
                "--cloud-config=/config/vsphere.conf",
                "--cluster-name=workload",
                // The other controllers need address ranges, and this stage does not test Services.
                "--controllers=cloud-node,cloud-node-lifecycle",
            ],
        }
    }

    /// Returns the JSON patch that gives our workload the arguments of this provider. The patch
    /// also removes the probes, because the provider serves neither `/livez` nor `/readyz`. The
    /// patch does not set the image.
    pub(in crate::e2e) fn patch(self, port: u16) -> Vec<Value> {
        let container = "/spec/template/spec/containers/0";
        let mut arguments: Vec<String> =
            self.arguments().iter().map(|it| (*it).to_owned()).collect();
        arguments.push(format!("--secure-port={port}"));
        arguments.extend(["--authentication-skip-lookup", "--v=2"].map(str::to_owned));
        vec![
            json!({"op": "replace", "path": format!("{container}/args"), "value": arguments}),
            json!({"op": "remove", "path": format!("{container}/livenessProbe")}),
            json!({"op": "remove", "path": format!("{container}/readinessProbe")}),
        ]
    }
}

/// A provider of another vendor, and where it is.
#[derive(Clone, Debug)]
pub(in crate::e2e) struct Peer {
    pub(in crate::e2e) program: Program,
    /// Path of a static binary, or name of an image of the engine.
    place: String,
}

/// Parses the value `NAME=PATH|IMAGE` of `--peer`.
pub(in crate::e2e) fn peer(text: &str) -> Result<Peer, String> {
    let known = Program::ALL.map(Program::name).join(", ");
    let (name, place) = text.split_once('=').ok_or("write NAME=PATH or NAME=IMAGE")?;
    let program = Program::ALL.into_iter().find(|it| it.name() == name);
    let program =
        program.ok_or_else(|| format!("unknown peer {name:?}: expected one of {known}"))?;
    if place.is_empty() {
        return Err("write NAME=PATH or NAME=IMAGE".to_owned());
    }
    Ok(Peer { program, place: place.to_owned() })
}

impl Peer {
    /// Returns the stock CCM; builds it from its Go module if it is not in the cache.
    pub(in crate::e2e) async fn stock_ccm(project: &Path) -> anyhow::Result<Self> {
        let build = call(project.join("conformance/peers/build.sh"));
        let place = build.arg("vsphere-ccm").output_with_progress().await?;
        Ok(Self { program: Program::StockCcm, place })
    }

    /// Checks that the peer exists. Returns true if its place is a file, and false if it is an
    /// image of the engine.
    ///
    /// # Errors
    /// Fails if the place is neither.
    pub(in crate::e2e) async fn check(&self) -> anyhow::Result<bool> {
        let is_file = self.place.contains('/') && Path::new(&self.place).is_file();
        let is_there =
            is_file || call("docker").args(["image", "inspect", &self.place]).succeeds().await;
        if is_there {
            return Ok(is_file);
        }
        let (name, place) = (self.program.name(), &self.place);
        let problem = "neither a file (whose path needs a slash) nor an image of the Docker engine";
        let missing = InputError::in_flag("--peer", format!("{name}={place}"), problem);
        Err(missing.remedy("build or pull it").into())
    }

    /// Builds the image if the place is a file, loads it into the nodes of the cluster, and returns
    /// its name.
    pub(in crate::e2e) async fn image(&self, cluster: &Cluster) -> anyhow::Result<String> {
        let image = if self.check().await? { self.built().await? } else { self.place.clone() };
        cluster.load(std::slice::from_ref(&image)).await?;
        Ok(image)
    }

    /// Builds an image that contains only the program, which must be static, and returns its name.
    async fn built(&self) -> anyhow::Result<String> {
        let folder = tempfile::tempdir()?;
        std::fs::copy(&self.place, folder.path().join("provider")).with_context(|| {
            format!(
                "cannot copy the program {} into a temporary folder, to build an image from it; \
                 check that it is readable",
                self.place
            )
        })?;
        let recipe =
            "FROM scratch\nCOPY provider /provider\nUSER 65532:65532\nENTRYPOINT [\"/provider\"]\n";
        std::fs::write(folder.path().join("Dockerfile"), recipe)?;
        let image = format!("vsphere-lab/peer-{}:local", self.program.name());
        let build = call("docker").args(["build", "-q", "-t", &image]).arg(folder.path());
        build.output().await?;
        Ok(image)
    }
}

/// Returns the configuration file of the stock CCM.
pub(in crate::e2e) fn cloud_json(access: &Access) -> String {
    let Access { host, port, user, password, .. } = access;
    let url = format!("https://{host}:{port}/sdk");
    json!({"url": url, "user": user, "password": password, "ca": "/etc/cloud/ca.pem"}).to_string()
}

/// Name of the ClusterRoleBinding of a peer.
pub(in crate::e2e) const BINDING: &str = "e2e-peer";

/// Returns the ClusterRoleBinding that gives the provider's service account all rights.
pub(in crate::e2e) fn binding() -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": BINDING},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "cloud-controller-manager", "namespace": NAMESPACE}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_without_a_known_name_or_a_path_is_refused() {
        assert_eq!(peer("stock-ccm=/bin/x").unwrap().program, Program::StockCcm);
        for (text, says) in [
            ("stock-ccm", "NAME=PATH"),
            ("stock-ccm=", "NAME=PATH"),
            ("stok-ccm=/bin/x", "expected one of stock-ccm, upstream-vcenter"),
        ] {
            let error = peer(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
