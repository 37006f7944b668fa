//! Property `config` of a virtual machine: its configuration and its devices.

use sim_world::vcenter::{Machine, NetworkCard};

use super::{STORAGE, full_name, int, uuid};
use crate::vcenter::vim::data::{Object, Value};
use crate::vcenter::vim::properties::{Prop, leaf, node};

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
    leaf("version", |_, _| Some("vmx-19".into())),
    leaf("uuid", |_, it| Some(uuid(it.machine()?).into())),
    leaf("createDate", |reader, it| {
        Some(it.machine()?.config.created.timestamp(reader.state.epoch()).into())
    }),
    leaf("instanceUuid", |_, it| Some(it.machine()?.config.instance_uuid.to_string().into())),
    leaf("template", |_, it| Some(it.machine()?.config.template.into())),
    leaf("guestId", |_, it| Some(it.machine()?.config.guest_id.as_str().into())),
    leaf("alternateGuestName", |_, _| Some("".into())),
    leaf("annotation", |_, it| Some(it.machine()?.config.annotation.as_str().into())),
    leaf("files", |_, it| {
        let name = &it.entity()?.1.name;
        let files = Object::new("VirtualMachineFileInfo")
            .with("vmPathName", format!("[LocalDS_0] {name}/{name}.vmx"))
            .with("snapshotDirectory", format!("[LocalDS_0] {name}/"))
            .with("suspendDirectory", format!("[LocalDS_0] {name}/"))
            .with("logDirectory", format!("[LocalDS_0] {name}/"));
        Some(files.into())
    }),
    leaf("tools", |_, _| {
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
    leaf("flags", |_, _| {
        let flags = Object::new("VirtualMachineFlagInfo")
            .with("enableLogging", true)
            .with("runWithDebugInfo", false)
            .with("monitorType", "release");
        Some(flags.into())
    }),
    leaf("defaultPowerOps", |_, _| {
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
            leaf("device", |reader, it| {
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
    leaf("extraConfig", |_, it| {
        let options = it.machine()?.config.extra.iter().map(|(key, value)| {
            let option = Object::new("OptionValue").with("key", key.as_str());
            option.with_typed("value", value.as_str()).into()
        });
        Some(Value::List("OptionValue", options.collect()))
    }),
    leaf("firmware", |_, _| Some("bios".into())),
];

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
