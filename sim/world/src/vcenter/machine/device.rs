//! Virtual devices of a machine other than its network cards, and changes of devices.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::setting::{Setting, Structure};
use crate::vcenter::refs::MoRef;

/// Devices by key. The type of each is that of its structure.
pub type Devices = BTreeMap<i32, Structure>;

/// A device that a client adds or changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceSpec {
    /// Key of the device; for a new device a number by which other devices of the same request refer
    /// to it.
    pub key: i32,
    /// Network of a network card; `None` for any other device, and if a changed card keeps its
    /// network.
    pub network: Option<MoRef>,
    /// Type and fields of the device, without `key`.
    pub device: Structure,
}

/// A change of the devices of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DeviceChange {
    /// Adds a device; the world gives it a key.
    Add(DeviceSpec),
    /// Sets fields of the device with this key.
    Edit(DeviceSpec),
    /// Removes the device with this key.
    Remove(i32),
}

/// First keys of devices and the numbers of devices that a machine can have, by type. Types with the
/// same first key share the number. The world gives a new device the first free key.
const KEYS: &[(&str, i32, i32)] = &[
    ("VirtualIDEController", 200, 2),
    ("ParaVirtualSCSIController", 1000, 4),
    ("VirtualBusLogicController", 1000, 4),
    ("VirtualLsiLogicController", 1000, 4),
    ("VirtualLsiLogicSASController", 1000, 4),
    ("VirtualDisk", 2000, 1000),
    ("VirtualCdrom", 3000, 1000),
    ("VirtualUSBController", 7000, 1),
    ("VirtualFloppy", 8000, 2),
    ("VirtualUSBXHCIController", 14_000, 1),
    ("VirtualAHCIController", 15_000, 4),
    ("VirtualNVMEController", 31_000, 4),
];

/// First key of network cards.
pub(crate) const FIRST_CARD: i32 = 4000;

/// Returns the first key for devices of this type; `None` if a machine cannot have them.
pub fn first_key(kind: &str) -> Option<i32> {
    device_keys(kind).map(|keys| keys.start)
}

/// Returns the keys for devices of this type; `None` if a machine cannot have them.
pub(crate) fn device_keys(kind: &str) -> Option<Range<i32>> {
    let (_, first, n) = KEYS.iter().find(|(known, ..)| *known == kind)?;
    Some(*first..first + n)
}

/// The controllers that every machine has.
pub(crate) fn base_devices() -> Devices {
    [(100, "VirtualPCIController"), (200, "VirtualIDEController")]
        .map(|(key, kind)| (key, structure(kind, &[("busNumber", "0")])))
        .into()
}

/// The devices of a machine for which no client has set any: the controllers that every machine has,
/// a SCSI controller, and a disk of 40 GiB.
pub(crate) fn default_devices() -> Devices {
    let mut devices = base_devices();
    let controller = [
        ("controllerKey", "100"),
        ("unitNumber", "3"),
        ("busNumber", "0"),
        ("sharedBus", "noSharing"),
    ];
    devices.insert(1000, structure("ParaVirtualSCSIController", &controller));
    let disk = [
        ("controllerKey", "1000"),
        ("unitNumber", "0"),
        ("capacityInKB", "41943040"),
        ("capacityInBytes", "42949672960"),
    ];
    let mut disk = structure("VirtualDisk", &disk);
    let backing = [("diskMode", "persistent"), ("thinProvisioned", "true")];
    let backing = Setting::Object(structure("VirtualDiskFlatVer2BackingInfo", &backing));
    disk.fields.insert("backing".to_owned(), backing);
    devices.insert(2000, disk);
    devices
}

fn structure(kind: &str, fields: &[(&str, &str)]) -> Structure {
    let fields = fields.iter();
    let fields = fields
        .map(|(name, text)| ((*name).to_owned(), Setting::Text((*text).to_owned())))
        .collect();
    Structure { kind: kind.to_owned(), fields }
}
