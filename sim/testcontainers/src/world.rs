//! State of the simulated world in the answers of the admin port.

use std::net::IpAddr;

use serde::Deserialize;

/// Seed and machines of the world.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct World {
    /// Seed of ids, UUIDs, passwords and random draws.
    pub seed: u64,
    /// Every machine of every vCenter.
    pub machines: Vec<Machine>,
}

/// A virtual machine, as its vCenter shows it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Machine {
    /// Name in the inventory.
    pub name: String,
    /// Name of the vCenter that manages the machine.
    pub vcenter: String,
    /// Managed object reference without its type, such as `vm-12`.
    pub moref: String,
    /// BIOS UUID, in the byte order of vCenter; `None` while vCenter has not loaded it.
    pub uuid: Option<String>,
    /// Power state: `poweredOn`, `poweredOff` or `suspended`.
    pub power: String,
    /// Connection state: `connected`, `disconnected`, `orphaned`, `inaccessible` or `invalid`.
    pub connection: String,
    /// Addresses in the last report of VMware Tools, including link-local ones; empty while the
    /// machine is off or suspended.
    pub addresses: Vec<IpAddr>,
    /// Node of the machine's kubelet, even if the cluster does not have this Node at present;
    /// `None` for a machine without a kubelet.
    #[serde(default)]
    pub node: Option<Node>,
}

/// Node of a machine, and its kubelet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Node {
    /// Name of the Node in the workload cluster.
    pub name: String,
    /// State of the kubelet: `running` or `stopped`.
    pub kubelet: String,
}

/// Current time of the world.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Clock {
    /// World time in nanoseconds since the start of the world, as in the ledger.
    pub now: u64,
    /// World time as a duration, such as `1m30s`.
    pub age: String,
    /// World time as a timestamp of RFC 3339.
    pub wall: String,
}
