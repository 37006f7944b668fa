//! Properties of virtual machines.
//!
//! As on a real server, the properties depend on the state of the machine: it has no `config` while
//! it is inaccessible or invalid, and no addresses while its guest reports none.

mod config;
mod devices;
mod guest;
mod summary;

use sim_world::vcenter::{Kind, Machine, MoRef, Power, Tools};

use super::entity::visible;
use super::{Prop, Reader, Subject, leaf, node, node_if};
use crate::vcenter::vim::data::Value;
use config::CONFIG;
use guest::GUEST;
use summary::SUMMARY;

pub(super) const MACHINE: &[Prop] = &[
    node_if("config", "VirtualMachineConfigInfo", has_config, CONFIG),
    leaf("resourcePool", |_, it| it.machine()?.pool.map(Value::from)),
    leaf("parentVApp", |_, it| vapp(it.entity()?.1.parent).map(Value::from)),
    node("runtime", "VirtualMachineRuntimeInfo", RUNTIME),
    node("guest", "GuestInfo", GUEST),
    node("summary", "VirtualMachineSummary", SUMMARY),
    leaf("datastore", |reader, it| Some(visible(reader, &[it.machine()?.datastore]))),
    leaf("network", |reader, it| {
        Some(visible(reader, it.machine()?.config.cards.iter().map(|card| &card.network)))
    }),
    leaf("rootSnapshot", |_, _| Some(Value::refs(Vec::<MoRef>::new()))),
    leaf("guestHeartbeatStatus", |_, it| Some(heartbeat(it.machine()?))),
];

/// Returns the parent of a machine if the parent is a vApp; else `None`.
fn vapp(parent: Option<MoRef>) -> Option<MoRef> {
    parent.filter(|it| it.kind == Kind::VirtualApp)
}

const RUNTIME: &[Prop] = &[
    leaf("host", |_, it| Some(it.machine()?.host.into())),
    leaf("connectionState", |_, it| {
        let state = it.machine()?.connection.as_str();
        Some(Value::Enum("VirtualMachineConnectionState", state))
    }),
    leaf("powerState", |_, it| {
        Some(Value::Enum("VirtualMachinePowerState", it.machine()?.power.as_str()))
    }),
    leaf("faultToleranceState", |_, _| {
        Some(Value::Enum("VirtualMachineFaultToleranceState", "notConfigured"))
    }),
    leaf("toolsInstallerMounted", |_, _| Some(false.into())),
    leaf("bootTime", |reader, it| {
        Some(it.machine()?.booted?.timestamp(reader.state.epoch()).into())
    }),
    leaf("maxCpuUsage", |_, it| Some(int(it.machine()?.config.cpus.saturating_mul(2400)))),
    leaf("maxMemoryUsage", |_, it| Some(int(it.machine()?.config.memory_mib))),
    leaf("numMksConnections", |_, _| Some(0.into())),
    leaf("recordReplayState", |_, _| {
        Some(Value::Enum("VirtualMachineRecordReplayState", "inactive"))
    }),
    leaf("onlineStandby", |_, _| Some(false.into())),
    leaf("consolidationNeeded", |_, _| Some(false.into())),
];

const STORAGE: i64 = 40 << 30;

fn has_config(it: Subject<'_>) -> bool {
    it.machine().is_some_and(|machine| machine.connection.has_config())
}

/// Returns the machine if vCenter can read its configuration; `None` for an inaccessible or invalid
/// machine.
fn readable(it: Subject<'_>) -> Option<&Machine> {
    it.machine().filter(|machine| machine.connection.has_config())
}

/// Returns the machine if vCenter shows the values that its guest reports; else `None`.
fn reporting(it: Subject<'_>) -> Option<&Machine> {
    readable(it)
}

fn running(it: Subject<'_>) -> Option<bool> {
    let machine = it.machine()?;
    Some(machine.guest.tools == Tools::Running && machine.connection.has_config())
}

fn tools_running(it: Subject<'_>) -> Option<&'static str> {
    Some(if running(it)? { "guestToolsRunning" } else { "guestToolsNotRunning" })
}

fn heartbeat(machine: &Machine) -> Value {
    let beats = machine.power == Power::PoweredOn && machine.guest.tools == Tools::Running;
    Value::Enum("ManagedEntityStatus", if beats { "green" } else { "gray" })
}

fn guest_id(it: Subject<'_>) -> Option<String> {
    it.machine().map(|machine| machine.config.guest_id.clone())
}

/// Returns the name of the datastore that has the files of a machine.
fn datastore(reader: &Reader<'_>, machine: &Machine) -> String {
    let datastore = reader.vc.inventory.get(machine.datastore);
    datastore.map(|it| it.name.clone()).unwrap_or_default()
}

/// Returns the BIOS UUID as vCenter prints it; empty while vCenter has not loaded it.
fn uuid(machine: &Machine) -> String {
    machine.config.uuid.map(|uuid| uuid.to_string()).unwrap_or_default()
}

fn int(value: u32) -> Value {
    Value::Int(i32::try_from(value).unwrap_or(i32::MAX))
}

fn full_name(guest_id: &str) -> String {
    match guest_id {
        "ubuntu64Guest" => "Ubuntu Linux (64-bit)".to_owned(),
        "otherGuest" => "Other (32-bit)".to_owned(),
        "otherGuest64" => "Other (64-bit)".to_owned(),
        "other3xLinux64Guest" => "Other 3.x or later Linux (64-bit)".to_owned(),
        "rhel8_64Guest" => "Red Hat Enterprise Linux 8 (64-bit)".to_owned(),
        "windows9Server64Guest" => "Microsoft Windows Server 2016 or later (64-bit)".to_owned(),
        other => other.trim_end_matches("Guest").to_owned(),
    }
}
