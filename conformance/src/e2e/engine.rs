//! The Docker engine: whether there is one, and what a laboratory leaves in it.

use std::path::Path;

use anyhow::bail;

use super::shell::call;
use super::usage::Usage;

/// Everything that is started here carries this label, with the laboratory's name.
pub(super) const LABEL: &str = "io.vsphere-lab";
/// The label that kind gives its nodes.
const KIND: &str = "io.x-k8s.kind.cluster";

/// Makes sure that an engine answers; one that has to be started is started only if `start` says so.
///
/// # Errors
/// None answers; the remedy is named.
pub(super) async fn ready(project: &Path, start: bool) -> anyhow::Result<()> {
    if !call("docker").arg("--version").succeeds().await {
        return Err(Usage::error(
            "there is no docker in PATH; install Docker, or `apt-get install docker.io`",
        ));
    }
    if call("docker").arg("info").succeeds().await {
        return Ok(());
    }
    if !start {
        return Err(Usage::error(
            "no Docker engine answers; start Docker, or add --start-engine to have dockerd started (as root)",
        ));
    }
    call(project.join("kind/engine.sh")).arg("up").told().await.map(drop)
}

/// Containers with this label, running or not.
async fn labelled(label: &str, name: &str) -> anyhow::Result<Vec<String>> {
    let filter = format!("label={label}={name}");
    let found = call("docker").args(["ps", "-aq", "--filter", &filter]).output().await?;
    Ok(found.split_whitespace().map(str::to_owned).collect())
}

/// Removes every container, volume and network of a laboratory, whatever made them and however it ended.
///
/// # Errors
/// The engine refused.
pub(super) async fn sweep(name: &str) -> anyhow::Result<usize> {
    let mut found = labelled(LABEL, name).await?;
    found.extend(labelled(KIND, name).await?);
    if !found.is_empty() {
        call("docker").args(["rm", "-f", "-v"]).args(&found).output().await?;
    }
    // kind's network stays as long as another cluster uses it.
    let others = call("docker").args(["ps", "-aq", "--filter", "network=kind"]).output().await?;
    if others.is_empty() {
        let _ = call("docker").args(["network", "rm", "kind"]).output().await;
    }
    Ok(found.len())
}

/// The address of a container on kind's network.
///
/// # Errors
/// It is not on that network.
pub(super) async fn address(container: &str) -> anyhow::Result<String> {
    let format = "{{(index .NetworkSettings.Networks \"kind\").IPAddress}}";
    let address = call("docker").args(["inspect", "-f", format, container]).output().await?;
    if address.is_empty() {
        bail!("{container} has no address on the network `kind`");
    }
    Ok(address)
}
