//! Kinds of objects that the controller reads.

use std::fmt;

use super::keys::{CAPI, GOVMOMI, SUPERVISOR, VM_OPERATOR};

/// Kind of an object that the controller reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Template whose machines are VirtualMachine objects.
    SupervisorTemplate,
    Class,
    ClusterImage,
    /// Image of one namespace.
    Image,
    /// Template whose machines Cluster API clones in vCenter.
    GovmomiTemplate,
    MachineDeployment,
    MachineSet,
}

impl Kind {
    pub(crate) fn group(self) -> &'static str {
        match self {
            Self::SupervisorTemplate => SUPERVISOR,
            Self::Class | Self::ClusterImage | Self::Image => VM_OPERATOR,
            Self::GovmomiTemplate => GOVMOMI,
            Self::MachineDeployment | Self::MachineSet => CAPI,
        }
    }

    /// Name of the kind in paths.
    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::SupervisorTemplate | Self::GovmomiTemplate => "vspheremachinetemplates",
            Self::Class => "virtualmachineclasses",
            Self::ClusterImage => "clustervirtualmachineimages",
            Self::Image => "virtualmachineimages",
            Self::MachineDeployment => "machinedeployments",
            Self::MachineSet => "machinesets",
        }
    }

    fn is_namespaced(self) -> bool {
        self != Self::ClusterImage
    }

    /// Path of the objects of a namespace, or of all namespaces.
    pub(crate) fn collection(self, version: &str, namespace: Option<&str>) -> String {
        let (group, resource) = (self.group(), self.resource());
        match namespace.filter(|_| self.is_namespaced()) {
            Some(namespace) => {
                format!("/apis/{group}/{version}/namespaces/{namespace}/{resource}")
            }
            None => format!("/apis/{group}/{version}/{resource}"),
        }
    }

    /// Path of one object.
    pub(crate) fn path(self, version: &str, name: &ObjectName) -> String {
        format!("{}/{}", self.collection(version, Some(&name.namespace)), name.name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.resource(), self.group())
    }
}

/// Name of an object of a kind; without namespace for a kind of the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl ObjectName {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
