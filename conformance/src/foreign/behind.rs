//! The container or pod that a process of this machine represents when the provider runs elsewhere.
//!
//! The process is a client that passes on the provider's output and ends with the provider. Orders go to the provider
//! itself.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use super::cluster::Pod;
use super::container::Running;
use super::manifest::Container;
use crate::whereabouts;

/// Label of every container and pod of a driver; its value identifies the driver.
pub(super) const LABEL: &str = "io.vsphere-lab.driver";
/// Label with the machine of a driver: a process ID has no meaning on another machine.
pub(super) const WHERE: &str = "io.vsphere-lab.driver/where";
/// Prefix of values of [`LABEL`]; the process ID follows.
const OWNER: &str = "conformance-";

/// Returns the value of [`LABEL`] for this process.
pub(super) fn owner() -> String {
    format!("{OWNER}{}", std::process::id())
}

/// Returns both labels of this process.
pub(super) fn labels() -> anyhow::Result<BTreeMap<&'static str, String>> {
    Ok(BTreeMap::from([(LABEL, owner()), (WHERE, whereabouts::here()?)]))
}

/// True if the driver of this label value no longer runs.
pub(super) fn is_gone(owner: &str) -> bool {
    owner.strip_prefix(OWNER).is_some_and(|process| !Path::new("/proc").join(process).exists())
}

/// Parameters of a start; all placeholders are expanded.
#[derive(Debug)]
pub(super) struct Start<'a> {
    pub(super) container: &'a Container,
    /// Directory of the run, at the same path for the provider.
    pub(super) directory: &'a Path,
    /// Directory of this replica, inside the directory of the run.
    pub(super) replica: &'a Path,
    /// Name of the run and replica; valid as a name of a container.
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) binds: Vec<(PathBuf, PathBuf)>,
}

impl Start<'_> {
    /// Returns the name of the container or pod: owner, run and replica.
    pub(super) fn full_name(&self) -> String {
        format!("{}-{}", owner(), self.name).to_lowercase()
    }
}

/// A provider that runs in a container or a pod.
#[derive(Debug)]
pub(super) enum Behind {
    /// A container of the Docker engine.
    Container(Running),
    /// A pod of a cluster.
    Pod(Pod),
}

impl Behind {
    /// Asks the provider to stop, with SIGTERM.
    pub(super) async fn terminate(&self) {
        match self {
            Self::Container(it) => it.terminate().await,
            Self::Pod(it) => it.terminate().await,
        }
    }

    /// Returns the exit status of the provider after the end of the process that represents it. The status of `docker
    /// run` is that of the container.
    ///
    /// Cancel safe.
    pub(super) async fn end(&self, status: ExitStatus) -> io::Result<ExitStatus> {
        match self {
            Self::Container(_) => Ok(status),
            Self::Pod(it) => it.end().await,
        }
    }

    /// Ends the provider in any state, and removes its container or pod.
    pub(super) async fn remove(&self) {
        match self {
            Self::Container(it) => it.remove().await,
            Self::Pod(it) => it.remove().await,
        }
    }
}
