//! Runs a provider in a pod of a cluster. The cluster only runs the program: the provider uses the
//! vCenter, Supervisor and Kubernetes API servers of the sim on this computer.
//!
//! The client process on this computer is `kubectl logs --follow`, which passes on the pod's output
//! and ends with the pod. This program removes Pod and Secret when the replica ends, also after an
//! error or an interruption. If this program is killed, both stay until the next `conformance`
//! process that uses this cluster finds them by their labels and removes them. That process must
//! run in the same boot and PID namespace.

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

use super::host::launch::Launcher;
use super::host::remote::{self, LABEL, Start, WHERE};
use super::manifest::Container;
use files::Files;
use kubectl::Kubectl;
pub(super) use pod::{Pod, SimHandles};

/// A cluster in whose pods providers run; this program uses it through `kubectl`.
#[derive(Clone, Debug)]
pub struct Cluster {
    kubectl: Kubectl,
    /// Address at which pods reach this computer, if the manifest has it.
    written: Option<String>,
    /// Address at which pods reach this computer, once [`Cluster::ready`] has found it.
    address: Arc<OnceLock<IpAddr>>,
    labels: BTreeMap<&'static str, String>,
}

impl Cluster {
    /// Returns the cluster that `place` selects: the keys `kubeconfig`, `context`, `namespace` and
    /// `address` of the manifest. `environment` becomes that of `kubectl`.
    pub(super) fn new(
        launcher: Launcher,
        environment: BTreeMap<String, String>,
        place: &BTreeMap<&'static str, String>,
    ) -> anyhow::Result<Self> {
        let labels = remote::labels()?;
        Ok(Self {
            kubectl: Kubectl::new(launcher, environment, place),
            written: place.get("address").cloned(),
            address: Arc::default(),
            labels,
        })
    }

    /// Returns the address on which the sim must listen, so that pods reach it.
    ///
    /// # Errors
    /// Fails before [`Self::ready`] has found the address.
    pub(super) fn address(&self) -> anyhow::Result<IpAddr> {
        self.address.get().copied().context(
            "the driver has not found the address of this computer yet; report this bug of \
             conformance",
        )
    }

    /// Prepares the cluster for a run: removes the objects that `conformance` processes of this
    /// boot and PID namespace have left, checks that the cluster accepts a pod for `container`, and
    /// finds the address at which pods reach this computer.
    ///
    /// # Errors
    /// Fails with a remedy if one of these steps fails.
    pub(super) async fn ready(&self, container: &Container) -> anyhow::Result<()> {
        self.sweep().await.context(
            "the cluster cannot be used; make sure that kubectl reaches it and may list and delete pods and Secrets there, or correct spec.run.cluster.kubeconfig, context and namespace",
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
            "the cluster rejects the provider's Pod or Secret; correct spec.run.cluster.namespace, or allow both objects in this namespace",
        )?;
        let address = address::of_this_machine(&self.kubectl, self.written.as_deref()).await?;
        self.address.get_or_init(|| address);
        Ok(())
    }

    /// Creates a pod with its Secret, and waits until the pod runs or has ended. Returns the
    /// command that prints the pod's log, and the pod.
    ///
    /// # Errors
    /// Fails if a file cannot be read, if the cluster rejects an object, or if the pod cannot run.
    /// Before it fails, removes the pod and its Secret if it has tried to create them.
    pub(super) async fn run(
        &self,
        start: &Start<'_>,
        wire: SimHandles,
    ) -> anyhow::Result<(Command, Pod)> {
        let binds = start.binds.iter().map(|(inside, outside)| (&**inside, &**outside));
        let files = Files::gather([(start.replica, start.replica)].into_iter().chain(binds))?;
        let pod = Pod { kubectl: self.kubectl.clone(), name: start.full_name(), wire };
        let begun = async {
            self.send(start, &files, &["create", "-f", "-"]).await?;
            pod.wait_until_running().await
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
        self.kubectl.call_with_input(&objects.to_string(), arguments).await.map(drop)
    }

    /// Removes the pods and Secrets of `conformance` processes that have ended in this boot and PID
    /// namespace.
    async fn sweep(&self) -> anyhow::Result<()> {
        let selector = format!("{LABEL},{WHERE}={}", self.labels[WHERE]);
        let listed =
            self.kubectl.call(&["get", "pods,secrets", "-l", &selector, "-o", "json"]).await?;
        let listed: Value = serde_json::from_str(&listed).context(
            "the output of kubectl get is not JSON; check which program kubectl in PATH is",
        )?;
        let orphans = orphans(&listed);
        if orphans.is_empty() {
            return Ok(());
        }
        let orphans = orphans.iter().map(String::as_str);
        let delete = ["delete", "--now", "--ignore-not-found", "--wait=false"];
        let delete: Vec<&str> = delete.into_iter().chain(orphans).collect();
        self.kubectl.call(&delete).await.map(drop)
    }

    /// Removes all pods and Secrets of this program that still exist, for example after an
    /// interruption.
    pub(super) async fn finish(&self) {
        // This program creates no object before it has found the address.
        if self.address.get().is_none() {
            return;
        }
        let own: Vec<String> =
            self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let delete = ["delete", "pods,secrets", "-l", &own.join(","), "--now", "--timeout=60s"];
        if let Err(error) = self.kubectl.call(&delete).await {
            tracing::warn!(%error, "cannot remove the pods and Secrets of this run; the next run \
                                    on this computer removes them");
        }
    }
}

/// Returns those of the listed objects whose `conformance` process has ended, as `kind/name`.
fn orphans(listed: &Value) -> Vec<String> {
    let items = listed["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let orphan = |it: &Value| {
        let (metadata, kind) = (&it["metadata"], it["kind"].as_str()?.to_lowercase());
        let is_gone = remote::is_gone(metadata["labels"][LABEL].as_str()?);
        Some(format!("{kind}/{}", metadata["name"].as_str()?)).filter(|_| is_gone)
    };
    items.iter().filter_map(orphan).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_of_a_conformance_process_that_has_ended_are_orphans() {
        let item = |kind: &str, owner: String| json!({"kind": kind, "metadata": {"name": "x", "labels": {LABEL: owner}}});
        let listed = json!({"items": [
            item("Pod", remote::owner()),
            item("Pod", "conformance-0".to_owned()),
            item("Secret", "conformance-0".to_owned()),
            item("Secret", "somebody-0".to_owned()),
        ]});
        assert_eq!(orphans(&listed), ["pod/x", "secret/x"]);
    }
}
