//! Changes of devices: `VirtualDeviceConfigSpec`.

use sim_world::vcenter::{
    DeviceChange, DeviceSpec, Kind, MoRef, Setting, Structure, VCenter, first_key,
};

use super::read::{is_dropped, structure};
use super::values::{BACKINGS, CARDS};
use crate::call::vim25;
use crate::vcenter::vim::data::{Node, VimFault};

/// Reads the changes of devices in the elements `deviceChange`.
///
/// # Errors
/// `InvalidDeviceSpec` for a change without an operation and for an invalid MAC address, `DeviceUnsupportedForVmPlatform` for a
/// device that a simulated machine cannot have, `InvalidDeviceBacking` for a backing that it cannot
/// have or that does not exist, `NotSupported` for a refused field.
pub(super) fn changes(vc: &VCenter, spec: &Node) -> Result<Vec<DeviceChange>, VimFault> {
    let changes = (0..).zip(spec.all("deviceChange"));
    changes.map(|(index, node)| change(vc, index, node)).collect()
}

fn change(vc: &VCenter, index: i32, node: &Node) -> Result<DeviceChange, VimFault> {
    let kind = vim25::find("VirtualDeviceConfigSpec");
    for field in kind.into_iter().flat_map(vim25::Type::own_fields) {
        let given: Vec<&Node> = node.all(field.name).collect();
        if !given.is_empty() {
            is_dropped("VirtualDeviceConfigSpec", &field, &given)?;
        }
    }
    let device = node.child("device").ok_or_else(|| invalid("InvalidDeviceSpec", index))?;
    let key = device.int("key")?.unwrap_or(-1);
    match node.text_of("operation") {
        Some("remove") => Ok(DeviceChange::Remove(key)),
        Some("add") => Ok(DeviceChange::Add(device_spec(vc, index, device, key, true)?)),
        Some("edit") => Ok(DeviceChange::Edit(device_spec(vc, index, device, key, false)?)),
        Some(_) => Err(VimFault::invalid_argument("deviceChange.operation")),
        None => Err(invalid("InvalidDeviceSpec", index)),
    }
}

fn device_spec(
    vc: &VCenter,
    index: i32,
    node: &Node,
    key: i32,
    is_new: bool,
) -> Result<DeviceSpec, VimFault> {
    let kind = node.xsi_type.as_deref().unwrap_or("VirtualDevice");
    let is_card = CARDS.contains(&kind);
    if !is_card && first_key(kind).is_none() {
        return Err(invalid("DeviceUnsupportedForVmPlatform", index));
    }
    let backing = node.child("backing").and_then(|it| it.xsi_type.as_deref());
    if backing.is_some_and(|backing| !BACKINGS.contains(&backing)) {
        return Err(invalid("InvalidDeviceBacking", index));
    }
    let mut device = structure(node, kind, "deviceChange.device")?;
    device.fields.remove("key");
    let mac = device.fields.get("macAddress").and_then(Setting::text).unwrap_or_default();
    if !mac.is_empty() && !is_mac(mac) {
        return Err(invalid("InvalidDeviceSpec", index));
    }
    let network = if is_card {
        let network =
            network(vc, &mut device).map_err(|()| invalid("InvalidDeviceBacking", index))?;
        if is_new && network.is_none() {
            return Err(invalid("InvalidDeviceBacking", index));
        }
        network
    } else {
        None
    };
    Ok(DeviceSpec { key, network, device })
}

/// Takes the network out of the backing of a card: the one with the given id, or the first one with
/// the given name. `None` without a backing; an error if the network does not exist.
fn network(vc: &VCenter, card: &mut Structure) -> Result<Option<MoRef>, ()> {
    let Some(Setting::Object(backing)) = card.fields.get_mut("backing") else { return Ok(None) };
    let name = backing.fields.remove("deviceName");
    let given = backing.fields.remove("network");
    let by_id = given.as_ref().and_then(Setting::text).and_then(MoRef::parse);
    let mut networks = vc.inventory.of_kind(Kind::Network);
    let found = match (by_id, name.as_ref().and_then(Setting::text)) {
        (Some(id), _) => networks.find(|(known, _)| *known == id),
        (None, name) => networks.find(|(_, network)| Some(network.name.as_str()) == name),
    };
    found.map(|(id, _)| Some(id)).ok_or(())
}

/// True for six groups of two hexadecimal digits, with colons between them.
fn is_mac(text: &str) -> bool {
    let is_group = |group: &str| group.len() == 2 && group.bytes().all(|it| it.is_ascii_hexdigit());
    text.split(':').count() == 6 && text.split(':').all(is_group)
}

fn invalid(class: &'static str, index: i32) -> VimFault {
    let message = match class {
        "DeviceUnsupportedForVmPlatform" => "The device is not supported by this virtual machine.",
        "InvalidDeviceBacking" => "The backing of the device is invalid or is not supported.",
        _ => "The configuration of the device is invalid.",
    };
    let message = format!("{message} (device {index})");
    VimFault::new(class, message)
        .with("property", format!("virtualDeviceSpec[{index}].device"))
        .with("deviceIndex", index)
}
