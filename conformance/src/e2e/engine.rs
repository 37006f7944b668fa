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
    let found =
        call("docker").args(["ps", "-aq", "--no-trunc", "--filter", &filter]).output().await?;
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
        remove(&found).await?;
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

/// Removes containers. One that is killed while the runc inside it has frozen a container of its own cannot end where the kernel's
/// groups are of version 1: what is frozen there does not notice that it was killed.
async fn remove(containers: &[String]) -> anyhow::Result<()> {
    let remove = || call("docker").args(["rm", "-f", "-v"]).args(containers).output();
    let Err(first) = remove().await else { return Ok(()) };
    let groups = Path::new("/sys/fs/cgroup/freezer");
    let n = containers.iter().map(|it| thaw(groups, it)).sum::<usize>();
    // Another may have removed one meanwhile, or it has ended by now.
    remove().await.map(drop).with_context(|| format!("{first:#}; {n} groups were thawed"))
}

/// Thaws whatever of a container is frozen below this directory; how much that was.
fn thaw(directory: &Path, container: &str) -> usize {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let is_its = directory.to_string_lossy().contains(container);
    let state = directory.join("freezer.state");
    let is_frozen = is_its && std::fs::read_to_string(&state).is_ok_and(|it| it.trim() == "FROZEN");
    let thawed = is_frozen && std::fs::write(&state, "THAWED").is_ok();
    let below = entries.flatten().map(|it| it.path()).filter(|it| it.is_dir());
    usize::from(thawed) + below.map(|it| thaw(&it, container)).sum::<usize>()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_frozen_of_a_container_is_thawed_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, state: &str| {
            let directory = root.path().join(path);
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("freezer.state"), format!("{state}\n")).unwrap();
            directory.join("freezer.state")
        };
        let (own, inner) = (put("docker/c1", "THAWED"), put("docker/c1/pods/x.scope", "FROZEN"));
        let other = put("docker/c2/pods/y.scope", "FROZEN");
        assert_eq!(thaw(root.path(), "c1"), 1);
        let state = |path: &Path| std::fs::read_to_string(path).unwrap().trim().to_owned();
        assert_eq!([state(&own), state(&inner), state(&other)], ["THAWED", "THAWED", "FROZEN"]);
    }
}
