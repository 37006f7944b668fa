//! Inventory objects: their names, parents and data.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::machine::Machine;
use super::refs::{Kind, MoRef};

/// Connection of a host to vCenter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HostConnection {
    /// The host answers.
    Connected,
    /// The host does not answer.
    NotResponding,
    /// An administrator disconnected the host.
    Disconnected,
}

impl HostConnection {
    /// The vim25 enumeration value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::NotResponding => "notResponding",
            Self::Disconnected => "disconnected",
        }
    }
}

/// The data of an inventory object besides its name and parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Data {
    /// A folder.
    Folder {
        /// Its children.
        children: BTreeSet<MoRef>,
    },
    /// A datacenter with its four folders.
    Datacenter {
        /// Folder of machines.
        machines: MoRef,
        /// Folder of clusters and hosts.
        hosts: MoRef,
        /// Folder of datastores.
        datastores: MoRef,
        /// Folder of networks.
        networks: MoRef,
    },
    /// A cluster, or the `ComputeResource` that contains a standalone host.
    Compute {
        /// Its hosts.
        hosts: BTreeSet<MoRef>,
        /// Its root resource pool.
        pool: MoRef,
        /// Datastores that its hosts mount.
        datastores: BTreeSet<MoRef>,
        /// Networks of its hosts.
        networks: BTreeSet<MoRef>,
    },
    /// A host.
    Host {
        /// Hardware UUID.
        uuid: Uuid,
        /// Connection to vCenter.
        connection: HostConnection,
        /// True if the host is in maintenance mode.
        maintenance: bool,
        /// Machines registered on it.
        machines: BTreeSet<MoRef>,
    },
    /// A resource pool or a vApp.
    Pool {
        /// The cluster or standalone host that it belongs to.
        owner: MoRef,
        /// Child pools.
        pools: BTreeSet<MoRef>,
        /// Machines directly in it, without those of its child pools.
        machines: BTreeSet<MoRef>,
        /// The folder of machines that shows it, if it is a vApp.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<MoRef>,
    },
    /// A datastore.
    Datastore {
        /// Machines with files on it.
        machines: BTreeSet<MoRef>,
        /// Hosts that mount it.
        hosts: BTreeSet<MoRef>,
    },
    /// A network.
    Network {
        /// Machines with a network card that is connected to it.
        machines: BTreeSet<MoRef>,
        /// Hosts connected to it.
        hosts: BTreeSet<MoRef>,
    },
    /// A virtual machine.
    Machine(Box<Machine>),
}

/// An inventory object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Entity {
    /// Its name within the parent.
    pub name: String,
    /// Its parent; `None` only for the root folder.
    pub parent: Option<MoRef>,
    /// Its data.
    pub data: Data,
}

impl Entity {
    /// The machine, if the object is a machine.
    pub fn machine(&self) -> Option<&Machine> {
        match &self.data {
            Data::Machine(machine) => Some(machine),
            _ => None,
        }
    }
}

/// True if an object of kind `parent` may be the parent of an object of kind `child`.
pub fn can_be_child_of(child: Kind, parent: Kind) -> bool {
    use super::refs::FolderKind as F;
    match parent {
        Kind::Folder(F::Datacenters) => {
            matches!(child, Kind::Datacenter | Kind::Folder(F::Datacenters))
        }
        Kind::Folder(F::Machines) => {
            matches!(child, Kind::Machine | Kind::VirtualApp | Kind::Folder(F::Machines))
        }
        Kind::Folder(F::Hosts) => {
            matches!(child, Kind::Cluster | Kind::Standalone | Kind::Folder(F::Hosts))
        }
        Kind::Folder(F::Datastores) => {
            matches!(child, Kind::Datastore | Kind::Folder(F::Datastores))
        }
        Kind::Folder(F::Networks) => matches!(child, Kind::Network | Kind::Folder(F::Networks)),
        Kind::Datacenter => matches!(child, Kind::Folder(_)),
        Kind::Cluster | Kind::Standalone => matches!(child, Kind::Host | Kind::Pool),
        Kind::Pool => matches!(child, Kind::Pool | Kind::VirtualApp),
        Kind::VirtualApp => matches!(child, Kind::Machine | Kind::VirtualApp),
        _ => false,
    }
}
