//! What a process of this machine stands for when the provider is elsewhere: a container or a pod.
//!
//! The process is a client that ends as the provider does and passes on what it writes. Orders go to the provider itself.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use super::cluster::Pod;
use super::container::Running;
use super::manifest::Container;
use crate::whereabouts;

/// Every container and pod of a driver carries this label; its value names the driver.
pub(super) const LABEL: &str = "io.vsphere-lab.driver";
/// The machine on which a driver runs: its process ID means nothing on another.
pub(super) const WHERE: &str = "io.vsphere-lab.driver/where";
/// How values of drivers begin; the process ID follows.
const OWNER: &str = "conformance-";

/// This process as an owner.
pub(super) fn owner() -> String {
    format!("{OWNER}{}", std::process::id())
}

/// Both labels of this process.
pub(super) fn labels() -> anyhow::Result<BTreeMap<&'static str, String>> {
    Ok(BTreeMap::from([(LABEL, owner()), (WHERE, whereabouts::here()?)]))
}

/// Whether a driver of this name does not run any more.
pub(super) fn is_gone(owner: &str) -> bool {
    owner.strip_prefix(OWNER).is_some_and(|process| !Path::new("/proc").join(process).exists())
}

/// What is only known when it starts; everything is expanded.
#[derive(Debug)]
pub(super) struct Start<'a> {
    pub(super) container: &'a Container,
    /// The directory of the run, seen by the provider at the same path.
    pub(super) directory: &'a Path,
    /// The directory in it that belongs to this replica.
    pub(super) replica: &'a Path,
    /// Which replica of which run; a name for an engine.
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) binds: Vec<(PathBuf, PathBuf)>,
}

impl Start<'_> {
    /// What it is called where others are: by owner, run and replica.
    pub(super) fn full_name(&self) -> String {
        format!("{}-{}", owner(), self.name).to_lowercase()
    }
}

/// A provider that is elsewhere.
#[derive(Debug)]
pub(super) enum Behind {
    /// In a container.
    Container(Running),
    /// In a pod.
    Pod(Pod),
}

impl Behind {
    /// Tells it to stop.
    pub(super) async fn terminate(&self) {
        match self {
            Self::Container(it) => it.terminate().await,
            Self::Pod(it) => it.terminate().await,
        }
    }

    /// How it ended, once the process that stands for it has: that of a container ends with its status.
    ///
    /// Cancel safe.
    pub(super) async fn end(&self, status: ExitStatus) -> io::Result<ExitStatus> {
        match self {
            Self::Container(_) => Ok(status),
            Self::Pod(it) => it.end().await,
        }
    }

    /// Ends and removes it, whatever it is doing.
    pub(super) async fn remove(&self) {
        match self {
            Self::Container(it) => it.remove().await,
            Self::Pod(it) => it.remove().await,
        }
    }
}
