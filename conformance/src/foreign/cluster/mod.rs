//! A provider in a pod of a cluster. What it talks to, Kubernetes too, is the sim on this machine; the cluster only runs it.
//!
//! What runs here is `kubectl logs --follow`, which ends as the pod does and passes on what it writes. Pod and Secret are removed
//! on every way out; those whose driver was killed are found by their labels and removed by the next that starts here.

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

/// A cluster, as `kubectl` finds it.
#[derive(Clone, Debug)]
pub struct Cluster {
    kubectl: Kubectl,
    /// This machine as pods see it, if the manifest says it.
    written: Option<String>,
    /// The same once it is known.
    address: Arc<OnceLock<IpAddr>>,
    labels: BTreeMap<&'static str, String>,
}

impl Cluster {
    /// The one that this place of a manifest leads to, with this program's environment.
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

    /// Where the sim has to listen.
    pub(super) fn address(&self) -> anyhow::Result<IpAddr> {
        self.address.get().copied().context("nobody has asked whether the cluster is ready")
    }

    /// Makes sure that a cluster answers and takes such a pod, removes what drivers that are gone left in it, and finds out where
    /// its pods reach this machine.
    ///
    /// # Errors
    /// A sentence with a remedy.
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

    /// Makes a pod, and returns when it runs: what writes its log, and itself.
    ///
    /// # Errors
    /// Why it does not run, with a remedy; nothing is left of it then.
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

    /// Removes what drivers left that do not run any more on this machine.
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

    /// Removes whatever this program has left, after an interruption for one.
    pub(super) async fn finish(&self) {
        // Nothing is made before that is known.
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

/// What belongs to nobody any more, as kubectl names it.
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
    fn orphans_are_those_whose_driver_does_not_run() {
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
