//! State of the simulated world, as the admin port reports it.

use std::net::IpAddr;

use serde::Deserialize;

/// Summary of the world.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct World {
    /// Seed of ids, UUIDs, passwords and random draws.
    pub seed: u64,
    /// Every machine of every vCenter.
    pub machines: Vec<Machine>,
}

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Machine {
    /// Name in the inventory.
    pub name: String,
    /// Name of the vCenter that manages the machine.
    pub vcenter: String,
    /// Managed object reference without its type, such as `vm-12`.
    pub moref: String,
    /// BIOS UUID, in the byte order of vCenter.
    pub uuid: Option<String>,
    /// Power state: `poweredOn`, `poweredOff` or `suspended`.
    pub power: String,
    /// Connection state: `connected`, `disconnected`, `orphaned`, `inaccessible` or `invalid`.
    pub connection: String,
    /// Addresses that the guest tools report.
    pub addresses: Vec<IpAddr>,
    /// Node that the machine's kubelet registered; `None` for a machine without a kubelet.
    #[serde(default)]
    pub node: Option<Node>,
}

/// Node of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Node {
    /// Name of the Node.
    pub name: String,
    /// State of the kubelet: `running` or `stopped`.
    pub kubelet: String,
}

/// Current time of the world.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Clock {
    /// Nanoseconds of world time, as in the ledger.
    pub now: u64,
    /// Age of the world, such as `1m30s`.
    pub age: String,
    /// Wall-clock time of the world, RFC 3339.
    pub wall: String,
}
