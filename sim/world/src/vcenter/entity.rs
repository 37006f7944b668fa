//! Inventory objects: what they are called, where they hang, and what they hold.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::machine::Machine;
use super::refs::{Kind, MoRef};

/// Connection of a host to vCenter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HostConnection {
    /// All is well.
    Connected,
    /// It does not answer.
    NotResponding,
    /// An administrator disconnected it.
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

/// What an object of each kind holds besides name and parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Data {
    /// A folder.
    Folder {
        /// What hangs in it.
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
    /// A cluster or the shell around a standalone host.
    Compute {
        /// Its hosts.
        hosts: BTreeSet<MoRef>,
        /// Its root resource pool.
        pool: MoRef,
        /// Datastores its hosts mount.
        datastores: BTreeSet<MoRef>,
        /// Networks its hosts are on.
        networks: BTreeSet<MoRef>,
    },
    /// A host.
    Host {
        /// Hardware UUID.
        uuid: Uuid,
        /// Connection to vCenter.
        connection: HostConnection,
        /// Whether it is in maintenance mode.
        maintenance: bool,
        /// Machines registered on it.
        machines: BTreeSet<MoRef>,
    },
    /// A resource pool or a vApp.
    Pool {
        /// The cluster or standalone host it belongs to.
        owner: MoRef,
        /// Child pools.
        pools: BTreeSet<MoRef>,
        /// Machines directly in it.
        machines: BTreeSet<MoRef>,
        /// Of a vApp: the folder of machines that shows it.
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
        /// Machines plugged into it.
        machines: BTreeSet<MoRef>,
        /// Hosts that are on it.
        hosts: BTreeSet<MoRef>,
    },
    /// A virtual machine.
    Machine(Box<Machine>),
}

/// An inventory object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entity {
    /// Its name within the parent.
    pub name: String,
    /// Where it hangs; `None` only for the root folder.
    pub parent: Option<MoRef>,
    /// What it holds.
    pub data: Data,
}

impl Entity {
    /// The machine, if it is one.
    pub fn machine(&self) -> Option<&Machine> {
        match &self.data {
            Data::Machine(machine) => Some(machine),
            _ => None,
        }
    }
}

/// Whether an object of kind `child` may hang in a parent of kind `parent`.
pub fn may_hang(child: Kind, parent: Kind) -> bool {
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
