//! Runs a provider in a pod of a cluster. Its API servers are those of the sim on this machine, including Kubernetes; the cluster
//! only runs it.
//!
//! The process on this machine is `kubectl logs --follow`, which passes on the pod's output and ends with it. Pod and Secret are
//! removed in every case; those of a killed driver are found by their labels and removed by the next driver that starts here.

mod address;
mod files;
mod kubectl;
mod objects;
mod pod;
mod status;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use serde_json::Value;
use tokio::process::Command;

use super::behind::{self, LABEL, Start, WHERE};
use super::launch::Launcher;
use super::manifest::Container;
use files::Files;
use kubectl::Kubectl;
pub(super) use pod::{Pod, Wire};

/// A cluster that `kubectl` reaches.
#[derive(Clone, Debug)]
pub struct Cluster {
    kubectl: Kubectl,
    /// Address of this machine for pods, if the manifest has one.
    written: Option<String>,
    /// The same address, once it is known.
    address: Arc<OnceLock<IpAddr>>,
    labels: BTreeMap<&'static str, String>,
}

impl Cluster {
    /// Returns the cluster at this place of a manifest, with this program's environment.
    pub(super) fn new(
        launcher: Launcher,
        environment: BTreeMap<String, String>,
        place: &BTreeMap<&'static str, String>,
    ) -> anyhow::Result<Self> {
        let labels = behind::labels()?;
        Ok(Self {
            kubectl: Kubectl::new(launcher, environment, place),
            written: place.get("address").cloned(),
            address: Arc::default(),
            labels,
        })
    }

    /// Returns the address on which the sim must listen.
    pub(super) fn address(&self) -> anyhow::Result<IpAddr> {
        self.address.get().copied().context("nobody has asked whether the cluster is ready")
    }

    /// Checks that a cluster answers and accepts such a pod, removes the remains of ended drivers, and finds the address of this
    /// machine for pods.
    ///
    /// # Errors
    /// Returns a sentence with a remedy.
    pub(super) async fn ready(&self, container: &Container) -> anyhow::Result<()> {
        self.sweep().await.context(
            "the cluster cannot be used; have kubectl reach it, and correct spec.run.cluster.kubeconfig, context and namespace",
        )?;
        let start = Start {
            container,
            directory: Path::new("/run/provider"),
            replica: Path::new("/run/provider"),
            name: "trial".to_owned(),
            arguments: Vec::new(),
            env: Vec::new(),
            binds: Vec::new(),
        };
        let dry = ["create", "--dry-run=server", "-f", "-"];
        self.send(&start, &Files::default(), &dry).await.context(
            "the cluster does not take pods and secrets; correct spec.run.cluster.namespace or what that allows",
        )?;
        let address = address::of_this_machine(&self.kubectl, self.written.as_deref()).await?;
        self.address.get_or_init(|| address);
        Ok(())
    }

    /// Creates a pod and returns once it runs: the command that prints its log, and the pod.
    ///
    /// # Errors
    /// Fails with a remedy if the pod does not run; it is removed then.
    pub(super) async fn run(
        &self,
        start: &Start<'_>,
        wire: Wire,
    ) -> anyhow::Result<(Command, Pod)> {
        let binds = start.binds.iter().map(|(inside, outside)| (&**inside, &**outside));
        let files = Files::gather([(start.replica, start.replica)].into_iter().chain(binds))?;
        let pod = Pod { kubectl: self.kubectl.clone(), name: start.full_name(), wire };
        let begun = async {
            self.send(start, &files, &["create", "-f", "-"]).await?;
            pod.begins().await
        };
        if let Err(error) = begun.await {
            pod.remove().await;
            return Err(error);
        }
        Ok((pod.log(), pod))
    }

    async fn send(
        &self,
        start: &Start<'_>,
        files: &Files,
        arguments: &[&str],
    ) -> anyhow::Result<()> {
        let objects = objects::objects(start, &self.labels, files);
        self.kubectl.given(&objects.to_string(), arguments).await.map(drop)
    }

    /// Removes the pods and Secrets of drivers that no longer run on this machine.
    async fn sweep(&self) -> anyhow::Result<()> {
        let selector = format!("{LABEL},{WHERE}={}", self.labels[WHERE]);
        let listed =
            self.kubectl.call(&["get", "pods,secrets", "-l", &selector, "-o", "json"]).await?;
        let listed: Value = serde_json::from_str(&listed).context("kubectl get")?;
        let orphans = orphans(&listed);
        if orphans.is_empty() {
            return Ok(());
        }
        let orphans = orphans.iter().map(String::as_str);
        let delete = ["delete", "--now", "--ignore-not-found", "--wait=false"];
        let delete: Vec<&str> = delete.into_iter().chain(orphans).collect();
        self.kubectl.call(&delete).await.map(drop)
    }

    /// Removes everything that this program left, for example after an interruption.
    pub(super) async fn finish(&self) {
        // Nothing is created before the address is known.
        if self.address.get().is_none() {
            return;
        }
        let own: Vec<String> =
            self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let delete = ["delete", "pods,secrets", "-l", &own.join(","), "--now", "--timeout=60s"];
        if let Err(error) = self.kubectl.call(&delete).await {
            tracing::warn!(%error, "pods of this run may be left; the next run removes them");
        }
    }
}

/// Returns the objects of ended drivers, as `kind/name`.
fn orphans(listed: &Value) -> Vec<String> {
    let items = listed["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let orphan = |it: &Value| {
        let (metadata, kind) = (&it["metadata"], it["kind"].as_str()?.to_lowercase());
        let is_gone = behind::is_gone(metadata["labels"][LABEL].as_str()?);
        Some(format!("{kind}/{}", metadata["name"].as_str()?)).filter(|_| is_gone)
    };
    items.iter().filter_map(orphan).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_of_a_driver_that_does_not_run_are_orphans() {
        let item = |kind: &str, owner: String| json!({"kind": kind, "metadata": {"name": "x", "labels": {LABEL: owner}}});
        let listed = json!({"items": [
            item("Pod", behind::owner()),
            item("Pod", "conformance-0".to_owned()),
            item("Secret", "conformance-0".to_owned()),
            item("Secret", "somebody-0".to_owned()),
        ]});
        assert_eq!(orphans(&listed), ["pod/x", "secret/x"]);
    }
}
