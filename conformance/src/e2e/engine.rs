//! The Docker engine: whether there is one, and what a laboratory leaves in it.

use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, bail};

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

/// The names of the containers that are nodes of a cluster.
///
/// # Errors
/// The engine refused.
pub(super) async fn nodes(cluster: &str) -> anyhow::Result<Vec<String>> {
    let filter = format!("label={KIND}={cluster}");
    let format = "{{.Names}}";
    let found = call("docker").args(["ps", "--filter", &filter, "--format", format]).output();
    Ok(found.await?.lines().map(str::to_owned).collect())
}

/// Removes every container and volume of a laboratory and its cluster, whatever made them and however it ended, and the network
/// when nobody uses it.
///
/// # Errors
/// The engine refused.
pub(super) async fn sweep(name: &str, cluster: &str, lock: &File) -> anyhow::Result<usize> {
    let mut count = 0;
    loop {
        let mut found = labelled(LABEL, name).await?;
        found.extend(labelled(KIND, cluster).await?);
        if found.is_empty() {
            break;
        }
        call("docker").args(["rm", "-f", "-v"]).args(&found).output().await?;
        count += found.len();
    }
    // kind's network stays as long as another cluster uses it, or is about to.
    if lock.try_lock().is_ok() {
        let others = call("docker").args(["ps", "-aq", "--filter", "network=kind"]).output().await;
        if others.is_ok_and(|it| it.is_empty()) {
            let _ = call("docker").args(["network", "rm", "kind"]).output().await;
        }
        lock.unlock()?;
    }
    Ok(count)
}

/// What is held, shared, by whoever makes a cluster, and alone by whoever removes its network.
///
/// # Errors
/// No file can be made there.
pub(super) fn network_lock(cache: &Path) -> anyhow::Result<File> {
    let path = cache.join("network.lock");
    let open = || {
        std::fs::create_dir_all(cache)?;
        File::options().create(true).append(true).open(&path)
    };
    open().with_context(|| path.display().to_string())
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
