//! The status of a VirtualMachine: the state of its machine in vCenter, in the fields of the stored
//! version, `v1alpha6`.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::conditions::{self, Condition};
use super::{GROUP, MachineInVCenter, Prerequisites, ZONE_LABEL, power_text, wanted_power};
use crate::supervisor::Operator;
use crate::vcenter::{Guest, GuestNic, Power, Tools};

/// Virtual hardware version of all machines.
const HARDWARE_VERSION: i32 = 21;

/// The status that `object` should have at `now`, given its machine in vCenter.
///
/// If vCenter no longer has a machine that VM Operator created, only the condition
/// `VirtualMachineCreated` changes. All other fields keep their last values.
pub(crate) fn status(
    object: &Value,
    found: Option<MachineInVCenter<'_>>,
    prerequisites: &Prerequisites,
    operator: &Operator,
    now: &str,
) -> Value {
    let before = &object["status"];
    let mut out = before.as_object().cloned().unwrap_or_default();
    let is_made = before["uniqueID"].is_string();
    let mut wanted = Vec::new();
    match found {
        None if is_made => {
            let id = before["uniqueID"].as_str().unwrap_or_default();
            let message = format!("The virtual machine {id} is not found in vCenter");
            wanted.push(Condition::unmet("VirtualMachineCreated", "NotFound", &message));
        }
        None => wanted.extend(prerequisites.conditions()),
        Some(found) => {
            if !is_made {
                wanted.extend(prerequisites.conditions());
            }
            wanted.push(Condition::met("VirtualMachineCreated"));
            write_machine_state(object, found, operator, &mut out, &mut wanted);
        }
    }
    let conditions = conditions::write(&before["conditions"], &wanted, now);
    if conditions.as_array().is_some_and(|all| !all.is_empty()) {
        out.insert("conditions".into(), conditions);
    }
    sorted(out)
}

/// Writes the state of a machine in vCenter into the status `out` and adds its conditions to
/// `wanted`.
fn write_machine_state(
    object: &Value,
    found: MachineInVCenter<'_>,
    operator: &Operator,
    out: &mut Map<String, Value>,
    wanted: &mut Vec<Condition>,
) {
    let MachineInVCenter { vcenter, id, machine, zone } = found;
    let mut set = |field: &str, value: Value| match value {
        Value::Null => drop(out.shift_remove(field)),
        value => drop(out.insert(field.into(), value)),
    };
    let class = object["spec"]["className"].as_str().filter(|name| !name.is_empty());
    let class = class.map(|name| {
        json!({"apiVersion": format!("{GROUP}/v1alpha6"), "kind": "VirtualMachineClass", "name": name})
    });
    set("class", class.into());
    set("uniqueID", id.to_string().into());
    let bios = machine.config.uuid.map(|uuid| match operator.upper_case_uuids {
        true => uuid.to_string().to_uppercase(),
        false => uuid.to_string(),
    });
    set("biosUUID", bios.into());
    set("instanceUUID", machine.config.instance_uuid.to_string().into());
    set("hardwareVersion", HARDWARE_VERSION.into());
    set("powerState", power_text(machine.power).into());
    let host = vcenter.inventory.get(machine.host).map(|host| host.name.clone());
    set("nodeName", host.into());
    // As in `reconcileStatusZone`: updates the zone if the zone label is missing or differs from
    // the status, but not after a vMotion.
    let label = object["metadata"]["labels"][ZONE_LABEL].as_str();
    if operator.tells_zones && (label.is_none() || label != object["status"]["zone"].as_str()) {
        set("zone", Some(zone).filter(|zone| !zone.is_empty()).into());
    }
    let is_running = machine.power == Power::PoweredOn && machine.guest.tools == Tools::Running;
    set("network", if is_running { network(&machine.guest) } else { Value::Null });
    wanted.push(match wanted_power(object).is_none_or(|wanted| wanted == machine.power) {
        true => Condition::met("VirtualMachinePowerStateSynced").with_reason("Synced"),
        false => Condition::unmet("VirtualMachinePowerStateSynced", "NotSynced", ""),
    });
    wanted.push(match is_running {
        true => Condition::met("VirtualMachineTools").with_reason("VirtualMachineToolsRunning"),
        false => Condition::unmet("VirtualMachineTools", "VirtualMachineToolsNotRunning", ""),
    });
    wanted.push(match is_synced(&machine.guest) && is_running {
        true => Condition::met("VirtualMachineGuestNetworkConfigSynced").with_reason("Synced"),
        false => Condition::unmet("VirtualMachineGuestNetworkConfigSynced", "NotSynced", ""),
    });
}

/// True if the guest has a primary address and one of its interfaces has this address.
fn is_synced(guest: &Guest) -> bool {
    guest
        .address
        .is_some_and(|primary| guest.nics.iter().any(|nic| nic.addresses.contains(&primary)))
}

/// The `status.network` of a machine with a running guest; null if the guest reports nothing.
fn network(guest: &Guest) -> Value {
    let mut out = Map::new();
    if let Some(name) = &guest.host_name {
        out.insert("hostName".into(), name.as_str().into());
    }
    let interfaces: Vec<Value> =
        guest.nics.iter().filter(|nic| nic.device >= 0).enumerate().map(interface).collect();
    if !interfaces.is_empty() {
        out.insert("interfaces".into(), interfaces.into());
    }
    if let Some(address) = primary(guest, IpAddr::is_ipv4) {
        out.insert("primaryIP4".into(), address.to_string().into());
    }
    if let Some(address) = primary(guest, IpAddr::is_ipv6) {
        out.insert("primaryIP6".into(), address.to_string().into());
    }
    if out.is_empty() { Value::Null } else { out.into() }
}

fn interface((n, nic): (usize, &GuestNic)) -> Value {
    let addresses: Vec<Value> = nic
        .addresses
        .iter()
        .map(|address| {
            let length = if address.is_ipv4() { 24 } else { 64 };
            let origin = if is_link_local(address) { "linklayer" } else { "dhcp" };
            json!({"address": format!("{address}/{length}"), "origin": origin, "state": "preferred"})
        })
        .collect();
    let mut ip = Map::new();
    if !addresses.is_empty() {
        ip.insert("addresses".into(), addresses.into());
    }
    ip.insert("macAddr".into(), nic.mac.as_str().into());
    json!({"deviceKey": nic.device, "ip": ip, "name": format!("eth{n}")})
}

/// The guest's primary address, if it is of this family. Otherwise the usable address of this
/// family on the interface that has the primary address; `None` if this interface has no such
/// address, or several.
fn primary(guest: &Guest, is_family: fn(&IpAddr) -> bool) -> Option<IpAddr> {
    let named = guest.address?;
    if is_family(&named) {
        return Some(named);
    }
    let nic = guest.nics.iter().find(|nic| nic.addresses.contains(&named))?;
    let mut usable = nic.addresses.iter().copied().filter(|it| is_family(it) && is_usable(it));
    usable.next().filter(|_| usable.next().is_none())
}

fn is_usable(address: &IpAddr) -> bool {
    !address.is_unspecified() && !address.is_loopback() && !is_link_local(address)
}

fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// Sorts the fields, as the store does for objects of custom kinds.
fn sorted(map: Map<String, Value>) -> Value {
    crate::objects::sorted(map.into())
}
