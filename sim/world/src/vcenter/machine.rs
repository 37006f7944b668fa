//! A virtual machine as vCenter knows it: configuration, power, placement and what its guest reports.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::refs::MoRef;
use crate::Time;

/// Power state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Power {
    /// Running.
    PoweredOn,
    /// Off.
    PoweredOff,
    /// Suspended to disk.
    Suspended,
}

impl Power {
    /// The vim25 enumeration value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PoweredOn => "poweredOn",
            Self::PoweredOff => "poweredOff",
            Self::Suspended => "suspended",
        }
    }

    /// As messages to people have it.
    pub fn label(self) -> &'static str {
        match self {
            Self::PoweredOn => "Powered on",
            Self::PoweredOff => "Powered off",
            Self::Suspended => "Suspended",
        }
    }
}

/// Whether vCenter can manage the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Connection {
    /// All is well.
    Connected,
    /// The host does not answer; vCenter shows the last it knew.
    Disconnected,
    /// Unregistered on the host behind vCenter's back.
    Orphaned,
    /// Its storage is lost: configuration unreadable, absent from the search index.
    Inaccessible,
    /// Its configuration file is corrupt.
    Invalid,
}

impl Connection {
    /// The vim25 enumeration value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Disconnected => "disconnected",
            Self::Orphaned => "orphaned",
            Self::Inaccessible => "inaccessible",
            Self::Invalid => "invalid",
        }
    }

    /// Whether vCenter has the machine's configuration, and so its UUIDs in the search index.
    pub fn has_config(self) -> bool {
        !matches!(self, Self::Inaccessible | Self::Invalid)
    }
}

/// A virtual network card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkCard {
    /// Device key, from 4000.
    pub key: i32,
    /// MAC address, `00:50:56:…`.
    pub mac: String,
    /// The network it is plugged into.
    pub network: MoRef,
}

/// What the hypervisor knows of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// BIOS UUID; `None` in the moments when vCenter has not loaded it.
    pub uuid: Option<Uuid>,
    /// vCenter's own UUID of the machine.
    pub instance_uuid: Uuid,
    /// Guest operating system id, `ubuntu64Guest`.
    pub guest_id: String,
    /// Virtual processors.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Free text.
    pub annotation: String,
    /// Advanced settings.
    pub extra: BTreeMap<String, String>,
    /// Network cards in device order.
    pub cards: Vec<NetworkCard>,
    /// Whether it is a template.
    pub template: bool,
    /// Counts changes of this configuration.
    pub change_version: u64,
    /// When it was created.
    pub created: Time,
}

/// A network interface as the guest reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestNic {
    /// Port group name; absent when the backing is unknown.
    pub network: Option<String>,
    /// Addresses in the guest's order, link-local included.
    pub addresses: Vec<IpAddr>,
    /// MAC address.
    pub mac: String,
    /// Key of the virtual card, `-1` for interfaces without one (docker0, cni0).
    pub device: i32,
}

/// VMware Tools in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Tools {
    /// Not running: the guest reports nothing new.
    NotRunning,
    /// Running.
    Running,
}

/// What VMware Tools can be asked to let the guest do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GuestRequest {
    /// `ShutdownGuest`: the machine is off afterwards.
    Shutdown,
    /// `RebootGuest`: the guest boots anew.
    Reboot,
    /// `StandbyGuest`: the machine is suspended afterwards.
    Standby,
}

/// What the guest reports through VMware Tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guest {
    /// Whether Tools runs.
    pub tools: Tools,
    /// Last reported host name.
    pub host_name: Option<String>,
    /// The primary address.
    pub address: Option<IpAddr>,
    /// Interfaces, in the order reported.
    pub nics: Vec<GuestNic>,
}

impl Guest {
    /// A guest that has never reported.
    pub fn silent() -> Self {
        Self { tools: Tools::NotRunning, host_name: None, address: None, nics: Vec::new() }
    }

    /// What vCenter shows of a machine that is off: addresses gone, the host name kept.
    pub fn stopped(&self) -> Self {
        Self { host_name: self.host_name.clone(), ..Self::silent() }
    }

    /// Every address the search index knows it by.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.address
            .into_iter()
            .chain(self.nics.iter().flat_map(|nic| nic.addresses.iter().copied()))
    }
}

/// What the guest will report once it has booted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestPlan {
    /// Final host name.
    pub host_name: String,
    /// Addresses per network card, in card order.
    pub addresses: Vec<Vec<IpAddr>>,
    /// Whether the guest prints its BIOS UUID with the first three groups byte-swapped, as hardware
    /// version 13 and later do.
    pub swapped_uuid: bool,
}

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Configuration.
    pub config: Config,
    /// Power state as vCenter last knew it.
    pub power: Power,
    /// Manageability.
    pub connection: Connection,
    /// Where it runs.
    pub host: MoRef,
    /// Its resource pool; `None` for templates.
    pub pool: Option<MoRef>,
    /// Where its files are.
    pub datastore: MoRef,
    /// When it was last powered on.
    pub booted: Option<Time>,
    /// What the guest reports.
    pub guest: Guest,
    /// What it will report after the next boot.
    pub plan: GuestPlan,
    /// Counts boots, so that a timer of an earlier boot finds itself outdated.
    pub boot: u32,
}

impl Machine {
    /// The UUID that the guest's kubelet reports as `systemUUID`.
    pub fn system_uuid(&self) -> Option<Uuid> {
        let uuid = self.config.uuid?;
        Some(if self.plan.swapped_uuid { swap_uuid(uuid) } else { uuid })
    }

    /// The UUID under which the search index has it, if it has.
    pub fn searchable_uuid(&self) -> Option<Uuid> {
        self.config.uuid.filter(|_| self.connection.has_config())
    }
}

/// Reverses the bytes of the first three groups, as SMBIOS 2.6 prints a UUID. Its own inverse.
pub fn swap_uuid(uuid: Uuid) -> Uuid {
    Uuid::from_bytes(uuid.to_bytes_le())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swapping_matches_the_published_pair() {
        let bios: Uuid = "56492e42-22ad-3911-6d72-59cc8f26bc90".parse().unwrap();
        let guest: Uuid = "422e4956-ad22-1139-6d72-59cc8f26bc90".parse().unwrap();
        assert_eq!(swap_uuid(bios), guest);
        assert_eq!(swap_uuid(guest), bios);
    }
}
