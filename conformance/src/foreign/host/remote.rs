//! The container or pod of a provider that is not a process of this computer.
//!
//! A client process on this computer (`docker run`, or `kubectl logs`) stands for the provider: it
//! passes on the provider's output and ends with the provider. Requests to stop go to the container
//! or pod, not to the client process.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use super::container::Running;
use super::processor_wait::ProviderProcesses;
use crate::foreign::cluster::Pod;
use crate::foreign::manifest::Container;
use crate::foreign::process_identity;

/// Label of every object (container, Pod, Secret) that a `conformance` process creates for a
/// provider. Its value contains the process ID of that `conformance` process.
pub(in crate::foreign) const LABEL: &str = "io.vsphere-lab.driver";
/// Label of the same objects with the boot and PID namespace of that `conformance` process, because
/// a process ID has no meaning elsewhere.
pub(in crate::foreign) const WHERE: &str = "io.vsphere-lab.driver/where";
/// Prefix of the values of [`LABEL`]; the process ID follows.
const OWNER: &str = "conformance-";

/// Returns the value of [`LABEL`] for this process.
pub(in crate::foreign) fn owner() -> String {
    format!("{OWNER}{}", std::process::id())
}

/// Returns the labels [`LABEL`] and [`WHERE`] with the values for this process.
pub(in crate::foreign) fn labels() -> anyhow::Result<BTreeMap<&'static str, String>> {
    Ok(BTreeMap::from([(LABEL, owner()), (WHERE, process_identity::boot_and_namespace()?)]))
}

/// True if `owner`, a value of [`LABEL`], contains a process ID with which no process runs now. The
/// value of [`WHERE`] must be that of this process. False if `owner` has another form.
pub(in crate::foreign) fn is_gone(owner: &str) -> bool {
    owner.strip_prefix(OWNER).is_some_and(|process| !Path::new("/proc").join(process).exists())
}

/// Parameters for the start of a container or pod. The placeholders of `arguments`, `env` and
/// `binds` are expanded; `container` is as in the manifest.
#[derive(Debug)]
pub(in crate::foreign) struct Start<'a> {
    pub(in crate::foreign) container: &'a Container,
    /// Directory of the run; it has the same path in the container or pod.
    pub(in crate::foreign) directory: &'a Path,
    /// Directory of this replica, inside the directory of the run.
    pub(in crate::foreign) replica: &'a Path,
    /// Name of run and replica, such as `NODE-004-0-0` (check, case, replica); valid as part of the
    /// name of a container.
    pub(in crate::foreign) name: String,
    pub(in crate::foreign) arguments: Vec<String>,
    pub(in crate::foreign) env: Vec<(String, String)>,
    /// Mounts of the manifest: the path for the provider, and the path on this computer.
    pub(in crate::foreign) binds: Vec<(PathBuf, PathBuf)>,
}

impl Start<'_> {
    /// Returns the name of the container or pod: owner, run and replica, in lower case.
    pub(in crate::foreign) fn full_name(&self) -> String {
        format!("{}-{}", owner(), self.name).to_lowercase()
    }
}

/// A provider that runs in a container or a pod.
#[derive(Clone, Debug)]
pub(in crate::foreign) enum RemoteProvider {
    /// A container of the Docker engine.
    Container(Running),
    /// A pod of a cluster.
    Pod(Pod),
}

impl RemoteProvider {
    /// Returns the provider's processes, by the ID of its container or pod. Returns `None` if the
    /// container or pod does not exist or has ended.
    ///
    /// Cancel safe.
    pub(in crate::foreign) async fn processes(&self) -> Option<ProviderProcesses> {
        let id = match self {
            Self::Container(it) => it.id().await,
            Self::Pod(it) => it.uid().await,
        };
        id.filter(|id| !id.is_empty()).map(ProviderProcesses::Group)
    }

    /// Sends SIGTERM to the provider.
    pub(in crate::foreign) async fn terminate(&self) {
        match self {
            Self::Container(it) => it.terminate().await,
            Self::Pod(it) => it.terminate().await,
        }
    }

    /// Returns the exit status of the provider after its client process has ended with `status`.
    /// For a container, returns `status` itself, because `docker run` exits as the container does.
    ///
    /// Cancel safe.
    pub(in crate::foreign) async fn end(&self, status: ExitStatus) -> io::Result<ExitStatus> {
        match self {
            Self::Container(_) => Ok(status),
            Self::Pod(it) => it.end().await,
        }
    }

    /// Ends the provider if it still runs, and removes its container or pod.
    pub(in crate::foreign) async fn remove(&self) {
        match self {
            Self::Container(it) => it.remove().await,
            Self::Pod(it) => it.remove().await,
        }
    }
}
