//! Places of devices: controllers and the unit numbers on them.

use super::devices::Problem;
use crate::vcenter::{Devices, Setting, Structure};

/// Type of the controller of all devices that are not on a controller of storage.
const PCI: &str = "VirtualPCIController";

/// Number of a SCSI controller on its own bus, which no device can have.
const SCSI_CONTROLLER: i32 = 7;

/// Checks the controller of a device, and gives a disk or CD-ROM without a unit number the lowest
/// free one. `key` is the key of a device that exists, `None` for a new one. A floppy drive counts
/// as a device of the PCI controller, because the machines have no Super I/O controller.
pub(super) fn place(
    devices: &Devices,
    key: Option<i32>,
    device: &mut Structure,
) -> Result<(), Problem> {
    if !matches!(&*device.kind, "VirtualDisk" | "VirtualCdrom") {
        return on_pci(devices, device);
    }
    let on = number(device, "controllerKey").ok_or(Problem::Controller)?;
    let controller = devices.get(&on).ok_or(Problem::Controller)?;
    let units = units(&controller.kind, &device.kind).ok_or(Problem::Device)?;
    let is_there = |it: &Structure, unit: i32| {
        number(it, "controllerKey") == Some(on) && number(it, "unitNumber") == Some(unit)
    };
    let others = || devices.iter().filter(|(other, _)| Some(**other) != key).map(|(_, it)| it);
    let mut free = units.filter(|unit| !others().any(|it| is_there(it, *unit)));
    // Clients leave the choice to vCenter with a negative number too.
    let unit = match number(device, "unitNumber").filter(|unit| *unit >= 0) {
        Some(wanted) => free.find(|unit| *unit == wanted),
        None => free.next(),
    };
    let unit = unit.ok_or(Problem::Device)?;
    device.fields.insert("unitNumber".to_owned(), Setting::Text(unit.to_string()));
    Ok(())
}

/// Checks that the controller of a device, if the device names one, is the PCI controller.
pub(super) fn on_pci(devices: &Devices, device: &Structure) -> Result<(), Problem> {
    match number(device, "controllerKey").map(|key| devices.get(&key)) {
        None => Ok(()),
        Some(Some(controller)) if controller.kind == PCI => Ok(()),
        Some(Some(_)) => Err(Problem::Device),
        Some(None) => Err(Problem::Controller),
    }
}

/// Returns the unit numbers of the devices of a controller; `None` if the controller does not take
/// devices of type `device`.
fn units(controller: &str, device: &str) -> Option<impl Iterator<Item = i32> + use<>> {
    let (n_units, reserved, takes_cdroms) = match controller {
        "VirtualIDEController" => (2, None, true),
        "VirtualAHCIController" => (30, None, true),
        "VirtualNVMEController" => (15, None, false),
        "ParaVirtualSCSIController"
        | "VirtualBusLogicController"
        | "VirtualLsiLogicController"
        | "VirtualLsiLogicSASController" => (16, Some(SCSI_CONTROLLER), false),
        _ => return None,
    };
    let takes = takes_cdroms || device != "VirtualCdrom";
    takes.then(|| (0..n_units).filter(move |unit| Some(*unit) != reserved))
}

/// Returns the number in a field of a device; `None` if the field is unset or not a number.
pub(super) fn number(device: &Structure, field: &str) -> Option<i32> {
    device.fields.get(field)?.text()?.parse().ok()
}
