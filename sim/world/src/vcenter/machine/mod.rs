//! The state of a virtual machine in vCenter: configuration, power, placement and report of its
//! guest.

mod device;
mod setting;

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::refs::MoRef;
use crate::Time;
pub use device::{DeviceChange, DeviceSpec, Devices, first_key};
pub(crate) use device::{FIRST_CARD, base_devices, default_devices, device_keys};
pub use setting::{Setting, Settings, Structure};
pub(crate) use setting::{is_present, known, take_over};

/// Power state of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Power {
    /// The machine runs.
    PoweredOn,
    /// The machine is off.
    PoweredOff,
    /// The machine is suspended to disk.
    Suspended,
}

impl Power {
    /// Name of the vim25 enumeration value, such as `poweredOn`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PoweredOn => "poweredOn",
            Self::PoweredOff => "poweredOff",
            Self::Suspended => "suspended",
        }
    }

    /// The text of the power state in vCenter's messages.
    pub fn label(self) -> &'static str {
        match self {
            Self::PoweredOn => "Powered on",
            Self::PoweredOff => "Powered off",
            Self::Suspended => "Suspended",
        }
    }
}

/// Connection of a machine to vCenter: `runtime.connectionState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Connection {
    /// vCenter can manage the machine.
    Connected,
    /// The host does not answer; vCenter shows the last known state.
    Disconnected,
    /// The host has unregistered the machine without vCenter.
    Orphaned,
    /// The storage is lost: the configuration is unreadable, and searches by BIOS or instance UUID
    /// do not find the machine.
    Inaccessible,
    /// The configuration file is corrupt; the effects are those of `Inaccessible`.
    Invalid,
}

impl Connection {
    /// Name of the vim25 enumeration value, such as `connected`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Disconnected => "disconnected",
            Self::Orphaned => "orphaned",
            Self::Inaccessible => "inaccessible",
            Self::Invalid => "invalid",
        }
    }

    /// True if vCenter can read the machine's configuration. Only then searches by UUID find the
    /// machine.
    pub fn has_config(self) -> bool {
        !matches!(self, Self::Inaccessible | Self::Invalid)
    }
}

/// A virtual network card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NetworkCard {
    /// Device key, from 4000.
    pub key: i32,
    /// MAC address, `00:50:56:…`.
    pub mac: String,
    /// The network to which the card is connected.
    pub network: MoRef,
    /// Type and fields that a client set, without key, network and MAC address; `None` for a
    /// `VirtualVmxnet3` with the usual fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Box<Structure>>,
}

impl NetworkCard {
    /// Name of the vim25 type of the card.
    pub(crate) fn kind(&self) -> &str {
        self.device.as_deref().map_or("VirtualVmxnet3", |device| &device.kind)
    }
}

/// The configuration of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Config {
    /// BIOS UUID; `None` in the moments when vCenter has not loaded it.
    pub uuid: Option<Uuid>,
    /// vCenter's own UUID of the machine.
    pub instance_uuid: Uuid,
    /// Guest operating system id, such as `ubuntu64Guest`.
    pub guest_id: String,
    /// Number of virtual processors.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Notes of an administrator; free text.
    pub annotation: String,
    /// Advanced settings (`extraConfig`), by key.
    pub extra: BTreeMap<String, String>,
    /// Network cards in device order.
    pub cards: Vec<NetworkCard>,
    /// All other devices; `None` for the usual ones, as long as no client changes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<Box<Devices>>,
    /// Settings that the world keeps for clients.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub settings: Settings,
    /// True if the machine is a template.
    pub template: bool,
    /// Version of this configuration: 1 for a newly created machine; a replacement keeps the number
    /// of the machine that it replaces. Every reconfiguration that changes a field of this
    /// structure and every change of the BIOS UUID adds 1. A new name or new values for the guest's
    /// report do not.
    pub change_version: u64,
    /// World time at which the machine was created.
    pub created: Time,
}

/// A network interface as the guest reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestNic {
    /// Name of the network; `None` if vCenter does not know it.
    pub network: Option<String>,
    /// Addresses in the guest's order, link-local included.
    pub addresses: Vec<IpAddr>,
    /// MAC address, such as `00:50:56:01:02:03`.
    pub mac: String,
    /// Key of the virtual card; `-1` for interfaces without a card (docker0, cni0).
    pub device: i32,
}

/// State of VMware Tools in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Tools {
    /// VMware Tools does not run.
    NotRunning,
    /// VMware Tools runs.
    Running,
}

/// A power operation that the guest carries out by itself, on request through VMware Tools.
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

/// The report of a guest through VMware Tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Guest {
    /// State of VMware Tools in the guest.
    pub tools: Tools,
    /// Last reported host name; `None` if the guest has reported none.
    pub host_name: Option<String>,
    /// The primary address; `None` if the guest has reported none.
    pub address: Option<IpAddr>,
    /// Interfaces in the guest's order.
    pub nics: Vec<GuestNic>,
}

impl Guest {
    /// The empty report of a guest that has never reported.
    pub fn silent() -> Self {
        Self { tools: Tools::NotRunning, host_name: None, address: None, nics: Vec::new() }
    }

    /// The report that vCenter shows of a stopped machine: without addresses, with the last host
    /// name.
    pub fn stopped(&self) -> Self {
        Self { host_name: self.host_name.clone(), ..Self::silent() }
    }

    /// Every address of the report, by which the search index finds the machine. An address may
    /// occur twice.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.address
            .into_iter()
            .chain(self.nics.iter().flat_map(|nic| nic.addresses.iter().copied()))
    }
}

/// The data that a guest will report once it has booted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NextGuestReport {
    /// Final host name, which the guest reports after its boot.
    pub host_name: String,
    /// Addresses per network card, in card order.
    pub addresses: Vec<Vec<IpAddr>>,
    /// True if the guest prints its BIOS UUID with the first three groups byte-swapped, as hardware
    /// version 13 and later do.
    pub swapped_uuid: bool,
}

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Machine {
    /// Configuration of the machine.
    pub config: Config,
    /// Power state as last known to vCenter.
    pub power: Power,
    /// Connection of the machine to vCenter.
    pub connection: Connection,
    /// Host on which the machine is registered.
    pub host: MoRef,
    /// Resource pool or vApp of the machine; `None` for a template.
    pub pool: Option<MoRef>,
    /// Datastore that has the files of the machine.
    pub datastore: MoRef,
    /// Time of the last power-on or reset; `None` unless the machine is on.
    pub booted: Option<Time>,
    /// The present report of the guest.
    pub guest: Guest,
    /// The data that the guest will report after its next boot.
    pub plan: NextGuestReport,
    /// Number of power changes. A reaction of an earlier boot has another number and does nothing.
    pub boot: u32,
}

impl Machine {
    /// The UUID that the guest's kubelet reports as `systemUUID`; `None` if vCenter has not loaded
    /// the BIOS UUID.
    pub fn system_uuid(&self) -> Option<Uuid> {
        let uuid = self.config.uuid?;
        Some(if self.plan.swapped_uuid { swap_uuid(uuid) } else { uuid })
    }

    /// The BIOS UUID by which the search index finds the machine; `None` if vCenter has not loaded
    /// the UUID or cannot read the configuration.
    pub fn searchable_uuid(&self) -> Option<Uuid> {
        self.config.uuid.filter(|_| self.connection.has_config())
    }
}

/// Reverses the bytes of each of the first three groups, as SMBIOS 2.6 prints a UUID. The function
/// is its own inverse.
pub fn swap_uuid(uuid: Uuid) -> Uuid {
    Uuid::from_bytes(uuid.to_bytes_le())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_swapped_uuid_matches_the_published_pair() {
        let bios: Uuid = "56492e42-22ad-3911-6d72-59cc8f26bc90".parse().unwrap();
        let guest: Uuid = "422e4956-ad22-1139-6d72-59cc8f26bc90".parse().unwrap();
        assert_eq!(swap_uuid(bios), guest);
        assert_eq!(swap_uuid(guest), bios);
    }
}
