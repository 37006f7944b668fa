//! Properties of virtual machines.
//!
//! What a machine shows depends on its state as on a real server: no `config` while its storage is
//! lost, no addresses while its guest is silent (`fake-vcenter` §9.3, §10.2).

use sim_world::vcenter::{GuestNic, Machine, MoRef, NetworkCard, Power, Tools};

use super::entity::visible;
use super::{Prop, Subject, data, leaf, node, node_if, unset};
use crate::vim::value::{Object, Value};

pub(super) const MACHINE: &[Prop] = &[
    unset("capability"),
    node_if("config", "VirtualMachineConfigInfo", has_config, CONFIG),
    unset("layout"),
    unset("layoutEx"),
    unset("storage"),
    unset("environmentBrowser"),
    leaf("resourcePool", |_, it| it.machine()?.pool.map(Value::from)),
    unset("parentVApp"),
    unset("resourceConfig"),
    node("runtime", "VirtualMachineRuntimeInfo", RUNTIME),
    node("guest", "GuestInfo", GUEST),
    node("summary", "VirtualMachineSummary", SUMMARY),
    data("datastore", |reader, it| Some(visible(reader, &[it.machine()?.datastore]))),
    data("network", |reader, it| {
        Some(visible(reader, it.machine()?.config.cards.iter().map(|card| &card.network)))
    }),
    unset("snapshot"),
    data("rootSnapshot", |_, _| Some(Value::refs(Vec::<MoRef>::new()))),
    leaf("guestHeartbeatStatus", |_, it| Some(heartbeat(it.machine()?))),
];

const CONFIG: &[Prop] = &[
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
    leaf("version", |_, _| Some("vmx-19".into())),
    leaf("uuid", |_, it| Some(uuid(it.machine()?).into())),
    leaf("createDate", |reader, it| {
        Some(it.machine()?.config.created.timestamp(reader.state.epoch()).into())
    }),
    leaf("instanceUuid", |_, it| Some(it.machine()?.config.instance_uuid.to_string().into())),
    unset("npivNodeWorldWideName"),
    unset("npivPortWorldWideName"),
    unset("npivTemporaryDisabled"),
    unset("locationId"),
    leaf("template", |_, it| Some(it.machine()?.config.template.into())),
    leaf("guestId", |_, it| Some(it.machine()?.config.guest_id.as_str().into())),
    leaf("alternateGuestName", |_, _| Some("".into())),
    leaf("annotation", |_, it| Some(it.machine()?.config.annotation.as_str().into())),
    data("files", |_, it| {
        let name = &it.entity()?.1.name;
        let files = Object::new("VirtualMachineFileInfo")
            .with("vmPathName", format!("[LocalDS_0] {name}/{name}.vmx"))
            .with("snapshotDirectory", format!("[LocalDS_0] {name}/"))
            .with("suspendDirectory", format!("[LocalDS_0] {name}/"))
            .with("logDirectory", format!("[LocalDS_0] {name}/"));
        Some(files.into())
    }),
    data("tools", |_, _| {
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
    data("flags", |_, _| {
        let flags = Object::new("VirtualMachineFlagInfo")
            .with("enableLogging", true)
            .with("runWithDebugInfo", false)
            .with("monitorType", "release");
        Some(flags.into())
    }),
    unset("consolePreferences"),
    data("defaultPowerOps", |_, _| {
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
    node(
        "hardware",
        "VirtualHardware",
        &[
            leaf("numCPU", |_, it| Some(int(it.machine()?.config.cpus))),
            leaf("numCoresPerSocket", |_, _| Some(1.into())),
            leaf("memoryMB", |_, it| Some(int(it.machine()?.config.memory_mib))),
            leaf("virtualICH7MPresent", |_, _| Some(false.into())),
            leaf("virtualSMCPresent", |_, _| Some(false.into())),
            data("device", |reader, it| {
                let network = |card: &NetworkCard| {
                    let entity = reader.vc.inventory.get(card.network);
                    entity.map(|entity| entity.name.clone()).unwrap_or_default()
                };
                let machine = it.machine()?;
                let name = &it.entity()?.1.name;
                Some(Value::List("VirtualDevice", devices(machine, name, network)))
            }),
        ],
    ),
    unset("cpuAllocation"),
    unset("memoryAllocation"),
    unset("latencySensitivity"),
    unset("memoryHotAddEnabled"),
    unset("cpuHotAddEnabled"),
    unset("cpuHotRemoveEnabled"),
    unset("cpuAffinity"),
    data("extraConfig", |_, it| {
        let options = it.machine()?.config.extra.iter().map(|(key, value)| {
            let option = Object::new("OptionValue").with("key", key.as_str());
            option.with_typed("value", value.as_str()).into()
        });
        Some(Value::List("OptionValue", options.collect()))
    }),
    unset("datastoreUrl"),
    unset("swapPlacement"),
    unset("bootOptions"),
    leaf("firmware", |_, _| Some("bios".into())),
    unset("ftInfo"),
    unset("repConfig"),
    unset("vAppConfig"),
    unset("vAssertsEnabled"),
    unset("changeTrackingEnabled"),
    unset("maxMksConnections"),
    unset("managedBy"),
    unset("keyId"),
];

const RUNTIME: &[Prop] = &[
    unset("device"),
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
    unset("dasVmProtection"),
    leaf("toolsInstallerMounted", |_, _| Some(false.into())),
    unset("suspendTime"),
    leaf("bootTime", |reader, it| {
        Some(it.machine()?.booted?.timestamp(reader.state.epoch()).into())
    }),
    unset("suspendInterval"),
    unset("question"),
    unset("memoryOverhead"),
    leaf("maxCpuUsage", |_, it| Some(int(it.machine()?.config.cpus * 2400))),
    leaf("maxMemoryUsage", |_, it| Some(int(it.machine()?.config.memory_mib))),
    leaf("numMksConnections", |_, _| Some(0.into())),
    leaf("recordReplayState", |_, _| {
        Some(Value::Enum("VirtualMachineRecordReplayState", "inactive"))
    }),
    unset("cleanPowerOff"),
    unset("needSecondaryReason"),
    leaf("onlineStandby", |_, _| Some(false.into())),
    unset("minRequiredEVCModeKey"),
    leaf("consolidationNeeded", |_, _| Some(false.into())),
    unset("offlineFeatureRequirement"),
    unset("featureRequirement"),
    unset("featureMask"),
    unset("vFlashCacheAllocation"),
    unset("paused"),
    unset("snapshotInBackground"),
    unset("quiescedForkParent"),
    unset("instantCloneFrozen"),
    unset("vmFailoverInProgress"),
];

const GUEST: &[Prop] = &[
    leaf("toolsStatus", |_, it| {
        let status = if running(it)? { "toolsOk" } else { "toolsNotRunning" };
        Some(Value::Enum("VirtualMachineToolsStatus", status))
    }),
    leaf("toolsVersionStatus", |_, _| Some("guestToolsUnmanaged".into())),
    leaf("toolsVersionStatus2", |_, _| Some("guestToolsUnmanaged".into())),
    leaf("toolsRunningStatus", |_, it| Some(tools_running(it)?.into())),
    leaf("toolsVersion", |_, _| Some("12389".into())),
    unset("toolsInstallType"),
    leaf("guestId", |_, it| running(it)?.then(|| guest_id(it))?.map(Value::from)),
    leaf("guestFamily", |_, it| running(it)?.then(|| "linuxGuest".into())),
    leaf("guestFullName", |_, it| {
        running(it)?.then(|| guest_id(it))?.map(|id| full_name(&id).into())
    }),
    leaf("hostName", |_, it| reporting(it)?.guest.host_name.as_deref().map(Value::from)),
    leaf("ipAddress", |_, it| reporting(it)?.guest.address.map(|it| it.to_string().into())),
    data("net", |_, it| {
        let machine = reporting(it)?;
        Some(Value::List("GuestNicInfo", machine.guest.nics.iter().map(nic).collect()))
    }),
    unset("ipStack"),
    unset("disk"),
    unset("screen"),
    leaf("guestState", |_, it| Some(if running(it)? { "running" } else { "notRunning" }.into())),
    unset("appHeartbeatStatus"),
    unset("guestKernelCrashed"),
    unset("appState"),
    leaf("guestOperationsReady", |_, it| running(it).map(Value::from)),
    leaf("interactiveGuestOperationsReady", |_, it| running(it).map(Value::from)),
    leaf("guestStateChangeSupported", |_, it| running(it).map(Value::from)),
    unset("generationInfo"),
];

const SUMMARY: &[Prop] = &[
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
            leaf("vmPathName", |_, it| {
                let name = &it.entity()?.1.name;
                Some(format!("[LocalDS_0] {name}/{name}.vmx").into())
            }),
            leaf("memorySizeMB", |_, it| Some(int(readable(it)?.config.memory_mib))),
            unset("cpuReservation"),
            unset("memoryReservation"),
            leaf("numCpu", |_, it| Some(int(readable(it)?.config.cpus))),
            leaf("numEthernetCards", |_, it| {
                Some(int(u32::try_from(readable(it)?.config.cards.len()).unwrap_or(0)))
            }),
            leaf("numVirtualDisks", |_, it| readable(it).map(|_| 1.into())),
            leaf("uuid", |_, it| Some(uuid(readable(it)?).into())),
            leaf("instanceUuid", |_, it| {
                Some(readable(it)?.config.instance_uuid.to_string().into())
            }),
            leaf("guestId", |_, it| Some(readable(it)?.config.guest_id.as_str().into())),
            leaf("guestFullName", |_, it| Some(full_name(&readable(it)?.config.guest_id).into())),
            leaf("annotation", |_, it| Some(readable(it)?.config.annotation.as_str().into())),
            unset("product"),
            unset("installBootRequired"),
            unset("ftInfo"),
            unset("managedBy"),
            leaf("hwVersion", |_, it| readable(it).map(|_| "vmx-19".into())),
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

const STORAGE: i64 = 40 << 30;

fn has_config(it: Subject<'_>) -> bool {
    it.machine().is_some_and(|machine| machine.connection.has_config())
}

/// The machine, if vCenter can read its configuration.
fn readable(it: Subject<'_>) -> Option<&Machine> {
    it.machine().filter(|machine| machine.connection.has_config())
}

/// The machine, if vCenter shows what its guest reports.
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

/// As vCenter prints a UUID; empty while it has not loaded it.
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

fn devices(machine: &Machine, name: &str, network: impl Fn(&NetworkCard) -> String) -> Vec<Value> {
    let described = |kind: &'static str, key: i32, label: &str, summary: &str| {
        let info = Object::new("Description").with("label", label).with("summary", summary);
        Object::new(kind).with("key", key).with_typed("deviceInfo", info)
    };
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
        .with("fileName", format!("[LocalDS_0] {name}/{name}.vmdk"))
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
    for (n, card) in (1..).zip(&machine.config.cards) {
        let network = network(card);
        let backing = Object::new("VirtualEthernetCardNetworkBackingInfo")
            .with("deviceName", network.as_str())
            .with("network", card.network);
        devices.push(
            described("VirtualVmxnet3", card.key, &format!("Network adapter {n}"), &network)
                .with_typed("backing", backing)
                .with("controllerKey", 100)
                .with("unitNumber", 6 + n)
                .with("addressType", "assigned")
                .with("macAddress", card.mac.as_str())
                .with("wakeOnLanEnabled", true)
                .into(),
        );
    }
    devices
}
