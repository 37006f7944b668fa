//! The simulated truth, as the admin port shows it.

use std::net::IpAddr;

use serde::Deserialize;

/// The world in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct World {
    /// Where ids and passwords come from.
    pub seed: u64,
    /// Every machine of every vCenter.
    pub machines: Vec<Machine>,
}

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Machine {
    /// Its name in the inventory.
    pub name: String,
    /// The vCenter that has it.
    pub vcenter: String,
    /// Its managed object reference, `VirtualMachine:vm-12`.
    pub moref: String,
    /// The BIOS UUID, in the order of vCenter.
    pub uuid: Option<String>,
    /// `poweredOn`, `poweredOff` or `suspended`.
    pub power: String,
    /// `connected`, `disconnected`, `inaccessible` or `orphaned`.
    pub connection: String,
    /// What its guest tools report.
    pub addresses: Vec<IpAddr>,
    /// The Node that its kubelet registered, if it runs one.
    #[serde(default)]
    pub node: Option<Node>,
}

/// A machine's Node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Node {
    /// Its name.
    pub name: String,
    /// `running` or `stopped`.
    pub kubelet: String,
}

/// What time it is in the world.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Clock {
    /// Nanoseconds of world time, as in the ledger.
    pub now: u64,
    /// How old the world is, `1m30s`.
    pub age: String,
    /// A reading of the wall in that world, RFC 3339.
    pub wall: String,
}
