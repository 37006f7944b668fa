//! Property `guest` of a virtual machine: the values that VMware Tools reports.

use sim_world::vcenter::GuestNic;

use super::{full_name, guest_id, reporting, running, tools_running};
use crate::vcenter::vim::data::{Object, Value};
use crate::vcenter::vim::properties::{Prop, leaf};

pub(super) const GUEST: &[Prop] = &[
    leaf("toolsStatus", |_, it| {
        let status = if running(it)? { "toolsOk" } else { "toolsNotRunning" };
        Some(Value::Enum("VirtualMachineToolsStatus", status))
    }),
    leaf("toolsVersionStatus", |_, _| Some("guestToolsUnmanaged".into())),
    leaf("toolsVersionStatus2", |_, _| Some("guestToolsUnmanaged".into())),
    leaf("toolsRunningStatus", |_, it| Some(tools_running(it)?.into())),
    leaf("toolsVersion", |_, _| Some("12389".into())),
    leaf("guestId", |_, it| running(it)?.then(|| guest_id(it))?.map(Value::from)),
    leaf("guestFamily", |_, it| running(it)?.then(|| "linuxGuest".into())),
    leaf("guestFullName", |_, it| {
        running(it)?.then(|| guest_id(it))?.map(|id| full_name(&id).into())
    }),
    leaf("hostName", |_, it| reporting(it)?.guest.host_name.as_deref().map(Value::from)),
    leaf("ipAddress", |_, it| reporting(it)?.guest.address.map(|it| it.to_string().into())),
    leaf("net", |_, it| {
        let machine = reporting(it)?;
        Some(Value::List("GuestNicInfo", machine.guest.nics.iter().map(nic).collect()))
    }),
    leaf("guestState", |_, it| Some(if running(it)? { "running" } else { "notRunning" }.into())),
    leaf("guestOperationsReady", |_, it| running(it).map(Value::from)),
    leaf("interactiveGuestOperationsReady", |_, it| running(it).map(Value::from)),
    leaf("guestStateChangeSupported", |_, it| running(it).map(Value::from)),
];

fn nic(nic: &GuestNic) -> Value {
    let addresses = nic.addresses.iter().map(|address| {
        let (prefix, origin) = if address.is_ipv4() { (24, "dhcp") } else { (64, "linklayer") };
        Object::new("NetIpConfigInfoIpAddress")
            .with("ipAddress", address.to_string())
            .with("prefixLength", prefix)
            .with("origin", origin)
            .with("state", "preferred")
            .into()
    });
    let addresses = Value::List("NetIpConfigInfoIpAddress", addresses.collect());
    Object::new("GuestNicInfo")
        .maybe("network", nic.network.as_deref())
        .with("ipAddress", Value::texts(nic.addresses.iter().map(ToString::to_string)))
        .with("macAddress", nic.mac.as_str())
        .with("connected", true)
        .with("deviceConfigId", nic.device)
        .with("ipConfig", Object::new("NetIpConfigInfo").with("ipAddress", addresses))
        .into()
}
