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
    /// Name of the vim25 enumeration value, such as `notResponding`.
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
    /// Data of a folder.
    Folder {
        /// Objects directly in the folder.
        children: BTreeSet<MoRef>,
    },
    /// A datacenter with its four folders.
    Datacenter {
        /// Root folder of the machines.
        machines: MoRef,
        /// Root folder of the clusters and standalone hosts.
        hosts: MoRef,
        /// Root folder of the datastores.
        datastores: MoRef,
        /// Root folder of the networks.
        networks: MoRef,
    },
    /// A cluster, or the `ComputeResource` that contains a standalone host.
    Compute {
        /// Hosts of the cluster, or the standalone host.
        hosts: BTreeSet<MoRef>,
        /// Root resource pool of the cluster or standalone host.
        pool: MoRef,
        /// Datastores that the hosts mount.
        datastores: BTreeSet<MoRef>,
        /// Networks of the hosts.
        networks: BTreeSet<MoRef>,
    },
    /// Data of a host.
    Host {
        /// Hardware UUID of the host.
        uuid: Uuid,
        /// Connection of the host to vCenter.
        connection: HostConnection,
        /// True if the host is in maintenance mode.
        maintenance: bool,
        /// Machines registered on the host.
        machines: BTreeSet<MoRef>,
    },
    /// Data of a resource pool or a vApp.
    Pool {
        /// Cluster or standalone host that owns the pool.
        owner: MoRef,
        /// Child pools and vApps of the pool.
        pools: BTreeSet<MoRef>,
        /// Machines directly in the pool, without those of child pools.
        machines: BTreeSet<MoRef>,
        /// Folder of machines that shows the vApp; `None` for a resource pool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<MoRef>,
    },
    /// Data of a datastore.
    Datastore {
        /// Machines with files on the datastore.
        machines: BTreeSet<MoRef>,
        /// Hosts that mount the datastore.
        hosts: BTreeSet<MoRef>,
    },
    /// Data of a network.
    Network {
        /// Machines with a network card that is connected to the network.
        machines: BTreeSet<MoRef>,
        /// Hosts connected to the network.
        hosts: BTreeSet<MoRef>,
    },
    /// Data of a virtual machine.
    Machine(Box<Machine>),
}

/// Inventory object of a vCenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Entity {
    /// Name of the object within its parent.
    pub name: String,
    /// Parent of the object; `None` only for the root folder.
    pub parent: Option<MoRef>,
    /// Data that depends on the kind of the object.
    pub data: Data,
}

impl Entity {
    /// Returns the data of a machine; `None` if the object is not a machine.
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
