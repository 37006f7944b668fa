//! Managed object references: a kind and a number, written as in vCenter, such as `vm-17`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The tree of folders that a folder belongs to, which decides the objects that it may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FolderKind {
    /// The root folder and folders of datacenters, with ids such as `group-d1`.
    Datacenters,
    /// Folders of machines, templates and vApps, with ids such as `group-v3`.
    Machines,
    /// Folders of clusters and standalone hosts, with ids such as `group-h4`.
    Hosts,
    /// Folders of datastores, with ids such as `group-s5`.
    Datastores,
    /// Folders of networks, with ids such as `group-n6`.
    Networks,
}

/// The type of a managed object; each variant names its vim25 type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// vim25 type `Folder`, with the kind of objects that the folder may contain.
    Folder(FolderKind),
    /// vim25 type `Datacenter`.
    Datacenter,
    /// vim25 type `ClusterComputeResource`: a cluster of hosts.
    Cluster,
    /// vim25 type `ComputeResource`: contains one standalone host.
    Standalone,
    /// vim25 type `HostSystem`.
    Host,
    /// vim25 type `ResourcePool`.
    Pool,
    /// vim25 type `VirtualApp`: a vApp.
    VirtualApp,
    /// vim25 type `Datastore`.
    Datastore,
    /// vim25 type `Network`.
    Network,
    /// vim25 type `VirtualMachine`.
    Machine,
    /// vim25 type `Task`; tasks are not inventory objects.
    Task,
}

impl Kind {
    const ALL: [Self; 15] = [
        Self::Folder(FolderKind::Datacenters),
        Self::Folder(FolderKind::Machines),
        Self::Folder(FolderKind::Hosts),
        Self::Folder(FolderKind::Datastores),
        Self::Folder(FolderKind::Networks),
        Self::Datacenter,
        Self::Cluster,
        Self::Standalone,
        Self::Host,
        Self::Pool,
        Self::VirtualApp,
        Self::Datastore,
        Self::Network,
        Self::Machine,
        Self::Task,
    ];

    /// Name of the vim25 type, such as `VirtualMachine`.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Folder(_) => "Folder",
            Self::Datacenter => "Datacenter",
            Self::Cluster => "ClusterComputeResource",
            Self::Standalone => "ComputeResource",
            Self::Host => "HostSystem",
            Self::Pool => "ResourcePool",
            Self::VirtualApp => "VirtualApp",
            Self::Datastore => "Datastore",
            Self::Network => "Network",
            Self::Machine => "VirtualMachine",
            Self::Task => "Task",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Folder(FolderKind::Datacenters) => "group-d",
            Self::Folder(FolderKind::Machines) => "group-v",
            Self::Folder(FolderKind::Hosts) => "group-h",
            Self::Folder(FolderKind::Datastores) => "group-s",
            Self::Folder(FolderKind::Networks) => "group-n",
            Self::Datacenter => "datacenter-",
            Self::Cluster => "domain-c",
            Self::Standalone => "domain-s",
            Self::Host => "host-",
            Self::Pool => "resgroup-",
            Self::VirtualApp => "resgroup-v",
            Self::Datastore => "datastore-",
            Self::Network => "network-",
            Self::Machine => "vm-",
            Self::Task => "task-",
        }
    }
}

/// The id of a managed object within one vCenter, such as `vm-17`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct MoRef {
    /// Type of the object.
    pub kind: Kind,
    /// Number from the vCenter's counter, which all kinds share.
    pub number: u32,
}

impl MoRef {
    /// The reference of `kind` with this number.
    pub fn new(kind: Kind, number: u32) -> Self {
        Self { kind, number }
    }

    /// Parses an id such as `vm-17`. `None` if no [`Kind`] has ids of this form, or the number does
    /// not fit into 32 bits.
    pub fn parse(id: &str) -> Option<Self> {
        Kind::ALL.into_iter().find_map(|kind| {
            let digits = id.strip_prefix(kind.prefix())?;
            let canonical = digits == "0" || !digits.starts_with(['0', '+']);
            canonical.then(|| digits.parse().ok()).flatten().map(|number| Self { kind, number })
        })
    }
}

impl fmt::Display for MoRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.prefix(), self.number)
    }
}

impl From<MoRef> for String {
    fn from(reference: MoRef) -> Self {
        reference.to_string()
    }
}

impl TryFrom<String> for MoRef {
    type Error = String;

    fn try_from(id: String) -> Result<Self, Self::Error> {
        Self::parse(&id).ok_or_else(|| {
            format!("invalid managed object id `{id}`: expected an id such as vm-17")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formatted_moref_parses_to_the_same_moref() {
        for kind in Kind::ALL {
            let reference = MoRef::new(kind, 17);
            assert_eq!(MoRef::parse(&reference.to_string()), Some(reference));
        }
    }

    #[test]
    fn an_invalid_moref_is_refused() {
        for id in
            ["", "vm", "vm-", "vm-x", "vm-017", "vm-+1", "pod-3", "group-x1", "vm-99999999999"]
        {
            assert_eq!(MoRef::parse(id), None, "{id}");
        }
    }
}
