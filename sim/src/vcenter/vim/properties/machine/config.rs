//! Property `config` of a virtual machine: its configuration.

use super::devices::devices;
use super::{datastore, full_name, int, uuid};
use crate::vcenter::vim::data::{Object, Value};
use crate::vcenter::vim::properties::{Prop, leaf, node, setting, setting_or};

pub(super) const CONFIG: &[Prop] = &[
    leaf("changeVersion", |reader, it| {
        let config = &it.machine()?.config;
        let at = config.created.timestamp(reader.state.epoch());
        Some(format!("{at:.6}-{}", config.change_version).into())
    }),
    leaf("modified", |reader, it| {
        Some(it.machine()?.config.created.timestamp(reader.state.epoch()).into())
    }),
    leaf("name", |_, it| Some(it.entity()?.1.name.as_str().into())),
    leaf("guestFullName", |_, it| Some(full_name(&it.machine()?.config.guest_id).into())),
    setting_or("version", "config.version", |_, _| Some("vmx-19".into())),
    leaf("uuid", |_, it| Some(uuid(it.machine()?).into())),
    setting_or("createDate", "config.createDate", |reader, it| {
        Some(it.machine()?.config.created.timestamp(reader.state.epoch()).into())
    }),
    leaf("instanceUuid", |_, it| Some(it.machine()?.config.instance_uuid.to_string().into())),
    setting("locationId", "config.locationId"),
    leaf("template", |_, it| Some(it.machine()?.config.template.into())),
    leaf("guestId", |_, it| Some(it.machine()?.config.guest_id.as_str().into())),
    setting_or("alternateGuestName", "config.alternateGuestName", |_, _| Some("".into())),
    leaf("annotation", |_, it| Some(it.machine()?.config.annotation.as_str().into())),
    setting_or("files", "config.files", |reader, it| {
        let name = &it.entity()?.1.name;
        let store = datastore(reader, it.machine()?);
        let files = Object::new("VirtualMachineFileInfo")
            .with("vmPathName", format!("[{store}] {name}/{name}.vmx"))
            .with("snapshotDirectory", format!("[{store}] {name}/"))
            .with("suspendDirectory", format!("[{store}] {name}/"))
            .with("logDirectory", format!("[{store}] {name}/"));
        Some(files.into())
    }),
    setting_or("tools", "config.tools", |_, _| {
        let tools = Object::new("ToolsConfigInfo")
            .with("toolsVersion", 12_389)
            .with("afterPowerOn", true)
            .with("afterResume", true)
            .with("beforeGuestStandby", true)
            .with("beforeGuestShutdown", true)
            .with("toolsUpgradePolicy", "manual")
            .with("syncTimeWithHost", false);
        Some(tools.into())
    }),
    setting_or("flags", "config.flags", |_, _| {
        let flags = Object::new("VirtualMachineFlagInfo")
            .with("enableLogging", true)
            .with("runWithDebugInfo", false)
            .with("monitorType", "release");
        Some(flags.into())
    }),
    setting("consolePreferences", "config.consolePreferences"),
    setting_or("defaultPowerOps", "config.defaultPowerOps", |_, _| {
        let defaults = Object::new("VirtualMachineDefaultPowerOpInfo")
            .with("powerOffType", "preset")
            .with("suspendType", "hard")
            .with("resetType", "preset")
            .with("defaultPowerOffType", "soft")
            .with("defaultSuspendType", "hard")
            .with("defaultResetType", "soft")
            .with("standbyAction", "checkpoint");
        Some(defaults.into())
    }),
    setting("rebootPowerOff", "config.rebootPowerOff"),
    node(
        "hardware",
        "VirtualHardware",
        &[
            leaf("numCPU", |_, it| Some(int(it.machine()?.config.cpus))),
            setting_or("numCoresPerSocket", "config.hardware.numCoresPerSocket", |_, _| {
                Some(1.into())
            }),
            leaf("memoryMB", |_, it| Some(int(it.machine()?.config.memory_mib))),
            setting_or("virtualICH7MPresent", "config.hardware.virtualICH7MPresent", |_, _| {
                Some(false.into())
            }),
            setting_or("virtualSMCPresent", "config.hardware.virtualSMCPresent", |_, _| {
                Some(false.into())
            }),
            leaf("device", |reader, it| {
                let (_, entity) = it.entity()?;
                Some(Value::List("VirtualDevice", devices(reader, entity, it.machine()?)))
            }),
            setting("motherboardLayout", "config.hardware.motherboardLayout"),
            setting("simultaneousThreads", "config.hardware.simultaneousThreads"),
        ],
    ),
    setting("vcpuConfig", "config.vcpuConfig"),
    setting("cpuAllocation", "config.cpuAllocation"),
    setting("memoryAllocation", "config.memoryAllocation"),
    setting("latencySensitivity", "config.latencySensitivity"),
    setting("memoryHotAddEnabled", "config.memoryHotAddEnabled"),
    setting("cpuHotAddEnabled", "config.cpuHotAddEnabled"),
    setting("cpuHotRemoveEnabled", "config.cpuHotRemoveEnabled"),
    setting("cpuAffinity", "config.cpuAffinity"),
    setting("memoryAffinity", "config.memoryAffinity"),
    setting("networkShaper", "config.networkShaper"),
    leaf("extraConfig", |_, it| {
        let options = it.machine()?.config.extra.iter().map(|(key, value)| {
            let option = Object::new("OptionValue").with("key", key.as_str());
            option.with_typed("value", value.as_str()).into()
        });
        Some(Value::List("OptionValue", options.collect()))
    }),
    setting("swapPlacement", "config.swapPlacement"),
    setting("bootOptions", "config.bootOptions"),
    setting("vAssertsEnabled", "config.vAssertsEnabled"),
    setting("changeTrackingEnabled", "config.changeTrackingEnabled"),
    setting_or("firmware", "config.firmware", |_, _| Some("bios".into())),
    setting("maxMksConnections", "config.maxMksConnections"),
    setting("guestAutoLockEnabled", "config.guestAutoLockEnabled"),
    setting("managedBy", "config.managedBy"),
    setting("memoryReservationLockedToMax", "config.memoryReservationLockedToMax"),
    setting("nestedHVEnabled", "config.nestedHVEnabled"),
    setting("vPMCEnabled", "config.vPMCEnabled"),
    setting("scheduledHardwareUpgradeInfo", "config.scheduledHardwareUpgradeInfo"),
    setting("messageBusTunnelEnabled", "config.messageBusTunnelEnabled"),
    setting("migrateEncryption", "config.migrateEncryption"),
    setting("guestMonitoringModeInfo", "config.guestMonitoringModeInfo"),
    setting("vmxStatsCollectionEnabled", "config.vmxStatsCollectionEnabled"),
    setting("vmOpNotificationToAppEnabled", "config.vmOpNotificationToAppEnabled"),
    setting("vmOpNotificationTimeout", "config.vmOpNotificationTimeout"),
];
