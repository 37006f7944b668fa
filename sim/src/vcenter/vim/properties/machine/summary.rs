//! Property `summary` of a virtual machine: a short form of its other properties.

use sim_world::vcenter::{Setting, Structure};

use super::devices::n_disks;
use super::{
    RUNTIME, STORAGE, datastore, full_name, guest_id, heartbeat, int, readable, reporting, running,
    tools_running, uuid,
};
use crate::vcenter::vim::data::Value;
use crate::vcenter::vim::properties::{self, Prop, Subject, leaf, node};

pub(super) const SUMMARY: &[Prop] = &[
    leaf("vm", |_, it| Some(it.entity()?.0.into())),
    node("runtime", "VirtualMachineRuntimeInfo", RUNTIME),
    node(
        "guest",
        "VirtualMachineGuestSummary",
        &[
            leaf("guestId", |_, it| running(it)?.then(|| guest_id(it))?.map(Value::from)),
            leaf("guestFullName", |_, it| {
                running(it)?.then(|| guest_id(it))?.map(|id| full_name(&id).into())
            }),
            leaf("toolsStatus", |_, it| {
                let status = if running(it)? { "toolsOk" } else { "toolsNotRunning" };
                Some(Value::Enum("VirtualMachineToolsStatus", status))
            }),
            leaf("toolsVersionStatus", |_, _| Some("guestToolsUnmanaged".into())),
            leaf("toolsVersionStatus2", |_, _| Some("guestToolsUnmanaged".into())),
            leaf("toolsRunningStatus", |_, it| Some(tools_running(it)?.into())),
            leaf("hostName", |_, it| reporting(it)?.guest.host_name.as_deref().map(Value::from)),
            leaf("ipAddress", |_, it| reporting(it)?.guest.address.map(|it| it.to_string().into())),
        ],
    ),
    node(
        "config",
        "VirtualMachineConfigSummary",
        &[
            leaf("name", |_, it| {
                let name = &it.entity()?.1.name;
                let readable = it.machine()?.connection.has_config();
                let path = || format!("/vmfs/volumes/LocalDS_0/{name}/{name}.vmx");
                Some(if readable { name.clone() } else { path() }.into())
            }),
            leaf("template", |_, it| Some(it.machine()?.config.template.into())),
            leaf("vmPathName", |reader, it| match properties::read(reader, it, PATH) {
                None => {
                    let name = &it.entity()?.1.name;
                    let store = datastore(reader, it.machine()?);
                    Some(format!("[{store}] {name}/{name}.vmx").into())
                }
                path => path,
            }),
            leaf("memorySizeMB", |_, it| Some(int(readable(it)?.config.memory_mib))),
            leaf("cpuReservation", |_, it| reservation(it, "config.cpuAllocation")),
            leaf("memoryReservation", |_, it| reservation(it, "config.memoryAllocation")),
            leaf("numCpu", |_, it| Some(int(readable(it)?.config.cpus))),
            leaf("numEthernetCards", |_, it| {
                Some(int(u32::try_from(readable(it)?.config.cards.len()).unwrap_or(0)))
            }),
            leaf("numVirtualDisks", |_, it| {
                Some(int(u32::try_from(n_disks(readable(it)?)).unwrap_or(0)))
            }),
            leaf("uuid", |_, it| Some(uuid(readable(it)?).into())),
            leaf("instanceUuid", |_, it| {
                Some(readable(it)?.config.instance_uuid.to_string().into())
            }),
            leaf("guestId", |_, it| Some(readable(it)?.config.guest_id.as_str().into())),
            leaf("guestFullName", |_, it| Some(full_name(&readable(it)?.config.guest_id).into())),
            leaf("annotation", |_, it| Some(readable(it)?.config.annotation.as_str().into())),
            leaf("managedBy", |reader, it| {
                readable(it).and_then(|_| properties::read(reader, it, "config.managedBy"))
            }),
            leaf("hwVersion", |reader, it| {
                readable(it).and_then(|_| properties::read(reader, it, "config.version"))
            }),
        ],
    ),
    node(
        "storage",
        "VirtualMachineStorageSummary",
        &[
            leaf("committed", |_, _| Some(STORAGE.into())),
            leaf("uncommitted", |_, _| Some(0_i64.into())),
            leaf("unshared", |_, _| Some(STORAGE.into())),
            leaf("timestamp", |reader, _| Some(reader.state.epoch().into())),
        ],
    ),
    node(
        "quickStats",
        "VirtualMachineQuickStats",
        &[
            leaf("overallCpuUsage", |_, it| running(it)?.then(|| 100.into())),
            leaf("guestMemoryUsage", |_, it| running(it)?.then(|| 512.into())),
            leaf("hostMemoryUsage", |_, it| running(it)?.then(|| 1024.into())),
            leaf("guestHeartbeatStatus", |_, it| Some(heartbeat(it.machine()?))),
        ],
    ),
    leaf("overallStatus", |_, _| Some(Value::Enum("ManagedEntityStatus", "green"))),
];

/// Path of the configuration file, as in the configuration.
const PATH: &str = "config.files.vmPathName";

/// Returns the reservation in an allocation that a client has set.
fn reservation(it: Subject<'_>, path: &str) -> Option<Value> {
    let setting = readable(it)?.config.settings.get(path)?;
    let Setting::Object(Structure { fields, .. }) = setting else { return None };
    fields.get("reservation")?.text()?.parse::<i32>().ok().map(Value::from)
}
