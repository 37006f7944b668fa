//! The Docker engine: finds or starts it, and removes the containers and networks of a lab.

use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, bail};

use super::shell::call;
use crate::scenario::InputError;

/// Label of the containers that this stage starts; its value is the name of the lab.
pub(super) const LABEL: &str = "io.vsphere-lab";
/// Label that kind gives the containers of its nodes; its value is the name of the cluster.
const KIND: &str = "io.x-k8s.kind.cluster";

/// Checks that a Docker engine answers; starts one if none answers and `start` is true.
///
/// # Errors
/// Fails if `docker` is not installed, if no engine answers and `start` is false, or if the start
/// fails.
pub(super) async fn ready(project: &Path, start: bool) -> anyhow::Result<()> {
    if let Err(error) = call("docker").arg("--version").output().await {
        let remedy =
            "install Docker in a folder of PATH, for example with `apt-get install docker.io`";
        return Err(InputError::new(format!("{error:#}")).remedy(remedy).into());
    }
    // Unlike `docker info`, `docker ps` prints nothing but the reason if no engine answers.
    let Err(error) = call("docker").args(["ps", "-q"]).output().await else { return Ok(()) };
    if !start {
        let none = InputError::new(format!("no Docker engine answers this user: {error:#}"));
        let remedy = "start Docker, give this user access to its socket (group docker), or add --start-engine to start dockerd (as root)";
        return Err(none.remedy(remedy).into());
    }
    call(project.join("kind/engine.sh")).arg("up").output_with_progress().await.map(drop)
}

/// Returns the IDs of the containers whose label `label` has the value `name`, running or not.
async fn labelled(label: &str, name: &str) -> anyhow::Result<Vec<String>> {
    let filter = format!("label={label}={name}");
    let found =
        call("docker").args(["ps", "-aq", "--no-trunc", "--filter", &filter]).output().await?;
    Ok(found.split_whitespace().map(str::to_owned).collect())
}

/// Returns the names of the running containers that are nodes of a cluster.
///
/// # Errors
/// Fails if the Docker engine reports an error.
pub(super) async fn nodes(cluster: &str) -> anyhow::Result<Vec<String>> {
    let filter = format!("label={KIND}={cluster}");
    let format = "{{.Names}}";
    let found = call("docker").args(["ps", "--filter", &filter, "--format", format]).output();
    Ok(found.await?.lines().map(str::to_owned).collect())
}

/// Removes every container of a lab and of the lab's cluster with the container's anonymous
/// volumes, including containers of a killed run. Also removes kind's network if no cluster uses it
/// and no other process holds `lock`. Returns the number of removed containers.
///
/// # Errors
/// Fails if the Docker engine reports an error about a container, or if `lock` cannot be unlocked.
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
    // kind's network stays while another cluster uses it, or while a process that holds the lock
    // makes one.
    if lock.try_lock().is_ok() {
        let others = call("docker").args(["ps", "-aq", "--filter", "network=kind"]).output().await;
        if others.is_ok_and(|it| it.is_empty()) {
            let _ = call("docker").args(["network", "rm", "kind"]).output().await;
        }
        lock.unlock()?;
    }
    Ok(count)
}

/// Removes containers. With control groups of version 1, a node's container cannot end if it is
/// killed while runc inside it has frozen one of its inner containers, because frozen processes do
/// not react to the signal. So this function thaws frozen groups and tries again.
async fn remove(containers: &[String]) -> anyhow::Result<()> {
    let remove = || call("docker").args(["rm", "-f", "-v"]).args(containers).output();
    let Err(first) = remove().await else { return Ok(()) };
    let groups = Path::new("/sys/fs/cgroup/freezer");
    let n = containers.iter().map(|it| thaw(groups, it)).sum::<usize>();
    // Tries again even without thawed groups: another process may have removed a container
    // meanwhile.
    remove().await.map(drop).with_context(|| {
        format!(
            "the second try to remove the containers failed, too; the first one: {first:#}; \
             frozen control groups thawed between them: {n}"
        )
    })
}

/// Thaws every frozen control group of a container in this directory and below it. Returns the
/// number of thawed groups.
fn thaw(directory: &Path, container: &str) -> usize {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let is_its = directory.to_string_lossy().contains(container);
    let state = directory.join("freezer.state");
    let is_frozen = is_its && std::fs::read_to_string(&state).is_ok_and(|it| it.trim() == "FROZEN");
    let thawed = is_frozen && std::fs::write(&state, "THAWED").is_ok();
    let below = entries.flatten().map(|it| it.path()).filter(|it| it.is_dir());
    usize::from(thawed) + below.map(|it| thaw(&it, container)).sum::<usize>()
}

/// Opens the lock file for kind's network. A process holds the lock shared while it makes a
/// cluster, and exclusively while it removes the network.
///
/// # Errors
/// Fails if the file cannot be created.
pub(super) fn network_lock(cache: &Path) -> anyhow::Result<File> {
    let path = cache.join("network.lock");
    let open = || {
        std::fs::create_dir_all(cache)?;
        File::options().create(true).append(true).open(&path)
    };
    open().with_context(|| {
        format!("cannot open the lock file {}; check its permissions", path.display())
    })
}

/// Returns the address of a container on kind's network.
///
/// # Errors
/// Fails if the container does not exist or is not on that network.
pub(super) async fn address(container: &str) -> anyhow::Result<String> {
    let format = "{{(index .NetworkSettings.Networks \"kind\").IPAddress}}";
    let address = call("docker").args(["inspect", "-f", format, container]).output().await?;
    if address.is_empty() {
        bail!(
            "the container {container} has no address on the Docker network `kind`; delete the \
             lab with `conformance e2e down` and make it again"
        );
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frozen_cgroups_of_a_container_are_thawed_and_others_stay_frozen() {
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
