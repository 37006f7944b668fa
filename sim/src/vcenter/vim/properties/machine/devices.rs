//! Virtual devices of a machine: `config.hardware.device`.

use sim_world::vcenter::{Devices, Entity, Machine, NetworkCard, Setting, Structure};

use super::{STORAGE, datastore};
use crate::vcenter::vim::data::{Field, Object, Value, setting};
use crate::vcenter::vim::properties::Reader;

/// Returns all devices of a machine: the network cards last.
pub(super) fn devices(reader: &Reader<'_>, entity: &Entity, machine: &Machine) -> Vec<Value> {
    let name = &entity.name;
    let store = datastore(reader, machine);
    let mut devices = match &machine.config.devices {
        None => usual(name, &store),
        Some(devices) => changed(devices, name, &store),
    };
    for (n, card) in (1..).zip(&machine.config.cards) {
        let network = reader.vc.inventory.get(card.network);
        let network = network.map(|entity| entity.name.clone()).unwrap_or_default();
        devices.push(network_card(n, card, &network));
    }
    devices
}

/// Number of virtual disks of a machine.
pub(super) fn n_disks(machine: &Machine) -> usize {
    match &machine.config.devices {
        None => 1,
        Some(devices) => devices.values().filter(|it| it.kind == "VirtualDisk").count(),
    }
}

fn described(kind: &'static str, key: i32, label: &str, summary: &str) -> Object {
    let info = Object::new("Description").with("label", label).with("summary", summary);
    Object::new(kind).with("key", key).with_typed("deviceInfo", info)
}

/// Returns the devices of a machine for which no client has set any.
fn usual(name: &str, store: &str) -> Vec<Value> {
    let mut devices: Vec<Value> = vec![
        described("VirtualIDEController", 200, "IDE 0", "IDE 0").with("busNumber", 0).into(),
        described("VirtualPCIController", 100, "PCI controller 0", "PCI controller 0")
            .with("busNumber", 0)
            .into(),
        described(
            "ParaVirtualSCSIController",
            1000,
            "SCSI controller 0",
            "VMware paravirtual SCSI",
        )
        .with("controllerKey", 100)
        .with("unitNumber", 3)
        .with("busNumber", 0)
        .with("sharedBus", Value::Enum("VirtualSCSISharing", "noSharing"))
        .into(),
    ];
    let backing = Object::new("VirtualDiskFlatVer2BackingInfo")
        .with("fileName", format!("[{store}] {name}/{name}.vmdk"))
        .with("diskMode", "persistent")
        .with("thinProvisioned", true);
    devices.push(
        described("VirtualDisk", 2000, "Hard disk 1", "41,943,040 KB")
            .with_typed("backing", backing)
            .with("controllerKey", 1000)
            .with("unitNumber", 0)
            .with("capacityInKB", 41_943_040_i64)
            .with("capacityInBytes", STORAGE)
            .into(),
    );
    devices
}

/// Returns the devices that clients have set.
fn changed(devices: &Devices, name: &str, store: &str) -> Vec<Value> {
    let mut n_disks = 0;
    let values = devices.iter().filter_map(|(key, device)| {
        let mut device = device.clone();
        if device.kind == "VirtualDisk" {
            let file = match n_disks {
                0 => format!("[{store}] {name}/{name}.vmdk"),
                n => format!("[{store}] {name}/{name}_{n}.vmdk"),
            };
            n_disks += 1;
            name_file(&mut device, file);
        }
        let (label, summary) = description(&device, *key);
        shown(*key, &device, &label, &summary).map(Value::from)
    });
    values.collect()
}

/// Sets the file of a disk, unless the client has chosen one.
fn name_file(disk: &mut Structure, file: String) {
    let backing = disk.fields.entry("backing".to_owned()).or_insert_with(|| {
        let kind = "VirtualDiskFlatVer2BackingInfo".to_owned();
        Setting::Object(Structure { kind, fields: Default::default() })
    });
    if let Setting::Object(backing) = backing {
        let present = backing.fields.get("fileName").and_then(Setting::text);
        // A client that leaves the choice to vCenter sends no directory.
        if !present.is_some_and(|it| it.ends_with(".vmdk")) {
            backing.fields.insert("fileName".to_owned(), Setting::Text(file));
        }
        let mode = || Setting::Text("persistent".to_owned());
        backing.fields.entry("diskMode".to_owned()).or_insert_with(mode);
    }
}

/// Returns label and summary of a device, as vCenter makes them.
fn description(device: &Structure, key: i32) -> (String, String) {
    let number = |first: i32| key - first;
    let plain = |label: String| (label.clone(), label);
    match device.kind.as_str() {
        "VirtualDisk" => {
            let kib = device.fields.get("capacityInKB").and_then(Setting::text).unwrap_or("0");
            (format!("Hard disk {}", number(1999)), format!("{} KB", grouped(kib)))
        }
        "VirtualIDEController" => plain(format!("IDE {}", number(200))),
        "VirtualPCIController" => plain("PCI controller 0".to_owned()),
        "VirtualCdrom" => {
            let label = format!("CD/DVD drive {}", number(2999));
            (label, "Remote device".to_owned())
        }
        "VirtualFloppy" => (format!("Floppy drive {}", number(7999)), "Remote device".to_owned()),
        "VirtualAHCIController" => {
            (format!("SATA controller {}", number(15_000)), "AHCI".to_owned())
        }
        "VirtualNVMEController" => plain(format!("NVME controller {}", number(31_000))),
        "VirtualUSBController" => plain("USB controller".to_owned()),
        "VirtualUSBXHCIController" => plain("USB xHCI controller".to_owned()),
        kind => {
            let summary = match kind {
                "ParaVirtualSCSIController" => "VMware paravirtual SCSI",
                "VirtualLsiLogicSASController" => "LSI Logic SAS",
                "VirtualBusLogicController" => "BusLogic",
                _ => "LSI Logic",
            };
            (format!("SCSI controller {}", number(1000)), summary.to_owned())
        }
    }
}

/// Groups the digits of a number by commas: `41943040` → `41,943,040`.
fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns a device with its key and description before its other fields.
fn shown(key: i32, device: &Structure, label: &str, summary: &str) -> Option<Object> {
    let Object { kind, fields } = setting::object(device)?;
    let mut object = described(kind, key, label, summary);
    object.fields.extend(fields);
    Some(object)
}

fn network_card(n: i32, card: &NetworkCard, network: &str) -> Value {
    let backing = Object::new("VirtualEthernetCardNetworkBackingInfo")
        .with("deviceName", network)
        .with("network", card.network);
    let label = format!("Network adapter {n}");
    let usual = |kind: &'static str| {
        described(kind, card.key, &label, network)
            .with_typed("backing", backing.clone())
            .with("controllerKey", 100)
            .with("unitNumber", 6 + n)
            .with("addressType", "assigned")
            .with("macAddress", card.mac.as_str())
            .with("wakeOnLanEnabled", true)
    };
    let chosen = card.device.as_deref().and_then(setting::object);
    let Some(chosen) = chosen else { return usual("VirtualVmxnet3").into() };
    let typed = |field: Field| Field { typed: matches!(field.value, Value::Object(_)), ..field };
    match setting::overlay(usual(chosen.kind).into(), chosen.into()) {
        Value::Object(Object { kind, fields }) => {
            let fields = fields.into_iter().map(typed).collect();
            Object { kind, fields }.into()
        }
        other => other,
    }
}
