//! Names of resources and annotations.

use super::super::super::capacity::CAPI;

/// Annotation of a Machine which Cluster API deletes first when a size is lowered.
pub(super) const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";
/// Annotation of a Machine that this server has marked with [`DELETE_MACHINE`]. Its value differs in
/// each mark.
pub(super) const MARKED: &str = "vsphere.cloud-provider/marked-for-deletion";
/// Annotation of a failed Machine that Cluster API replaces: the time from which the server deletes it.
pub(super) const REPLACE_AT: &str = "vsphere.cloud-provider/replace-at";
/// Annotation of a group: the Machines for whose deletion the server has lowered the size, as a JSON
/// object of names and UIDs. It is written in the same request as the size.
pub(super) const COUNTED: &str = "vsphere.cloud-provider/counted-deletions";
/// Annotation of a group with a text that differs in each change of the server, by which the server
/// recognizes a change whose answer was lost.
pub(super) const LAST_CHANGE: &str = "vsphere.cloud-provider/last-change";
/// Annotation of an object that the controllers of Cluster API leave alone.
pub(super) const PAUSED: &str = "cluster.x-k8s.io/paused";
/// Label of all objects of a cluster.
pub(super) const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";

pub(super) const MACHINES: &str = "machines";
pub(super) const MACHINE_SETS: &str = "machinesets";
pub(super) const MACHINE_DEPLOYMENTS: &str = "machinedeployments";

/// Kind of the object of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GroupKind {
    MachineDeployment,
    /// A MachineSet without MachineDeployment.
    MachineSet,
}

impl GroupKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MachineDeployment => "MachineDeployment",
            Self::MachineSet => "MachineSet",
        }
    }

    pub(super) fn resource(self) -> Resource {
        match self {
            Self::MachineDeployment => MACHINE_DEPLOYMENTS.into(),
            Self::MachineSet => MACHINE_SETS.into(),
        }
    }
}

/// A kind of objects in paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Resource {
    pub(super) group: String,
    pub(super) name: String,
}

impl From<&str> for Resource {
    /// A resource of Cluster API itself.
    fn from(name: &str) -> Self {
        Self { group: CAPI.to_owned(), name: name.to_owned() }
    }
}

impl Resource {
    /// The resources that every server of this backend reads.
    pub(super) fn of_cluster_api() -> [Self; 3] {
        [MACHINE_DEPLOYMENTS.into(), MACHINE_SETS.into(), MACHINES.into()]
    }

    /// Returns the path of the objects of a namespace, or of all namespaces.
    pub(super) fn collection(&self, version: &str, namespace: Option<&str>) -> String {
        let Self { group, name } = self;
        match namespace {
            Some(namespace) => format!("/apis/{group}/{version}/namespaces/{namespace}/{name}"),
            None => format!("/apis/{group}/{version}/{name}"),
        }
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.name, self.group)
    }
}
