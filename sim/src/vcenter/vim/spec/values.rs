//! Values that fields of specs can have: types of devices and backings, and texts of enumerations.

use crate::call::vim25::{self, Type};

/// Devices that a machine can have, besides those whose first keys the world knows.
pub(crate) const CARDS: &[&str] = &[
    "VirtualE1000",
    "VirtualE1000e",
    "VirtualPCNet32",
    "VirtualVmxnet",
    "VirtualVmxnet2",
    "VirtualVmxnet3",
];

/// Types of backings that the devices can have.
pub(crate) const BACKINGS: &[&str] = &[
    "VirtualCdromAtapiBackingInfo",
    "VirtualCdromIsoBackingInfo",
    "VirtualCdromPassthroughBackingInfo",
    "VirtualCdromRemoteAtapiBackingInfo",
    "VirtualCdromRemotePassthroughBackingInfo",
    "VirtualDiskFlatVer2BackingInfo",
    "VirtualEthernetCardNetworkBackingInfo",
    "VirtualFloppyDeviceBackingInfo",
    "VirtualFloppyImageBackingInfo",
    "VirtualFloppyRemoteDeviceBackingInfo",
];

/// Fields that the schema declares as texts, and the enumerations that have their values.
pub(crate) const VALUES: &[(&str, &str, &str)] = &[
    (
        "ScheduledHardwareUpgradeInfo",
        "upgradePolicy",
        "ScheduledHardwareUpgradeInfoHardwareUpgradePolicy",
    ),
    ("ToolsConfigInfo", "toolsUpgradePolicy", "UpgradePolicy"),
    ("VirtualDeviceConnectInfo", "migrateConnect", "VirtualDeviceConnectInfoMigrateConnectOp"),
    ("VirtualDiskFlatVer2BackingInfo", "deltaDiskFormat", "VirtualDiskDeltaDiskFormat"),
    (
        "VirtualDiskFlatVer2BackingInfo",
        "deltaDiskFormatVariant",
        "VirtualDiskDeltaDiskFormatVariant",
    ),
    ("VirtualDiskFlatVer2BackingInfo", "diskMode", "VirtualDiskMode"),
    ("VirtualDiskFlatVer2BackingInfo", "sharing", "VirtualDiskSharing"),
    ("VirtualEthernetCard", "addressType", "VirtualEthernetCardMacType"),
    (
        "VirtualMachineBootOptions",
        "networkBootProtocol",
        "VirtualMachineBootOptionsNetworkBootProtocolType",
    ),
    ("VirtualMachineConfigSpec", "firmware", "GuestOsDescriptorFirmwareType"),
    (
        "VirtualMachineConfigSpec",
        "migrateEncryption",
        "VirtualMachineConfigSpecEncryptedVMotionModes",
    ),
    ("VirtualMachineConfigSpec", "motherboardLayout", "VirtualHardwareMotherboardLayout"),
    ("VirtualMachineConfigSpec", "swapPlacement", "VirtualMachineConfigInfoSwapPlacementType"),
    ("VirtualMachineDefaultPowerOpInfo", "defaultPowerOffType", "VirtualMachinePowerOpType"),
    ("VirtualMachineDefaultPowerOpInfo", "defaultResetType", "VirtualMachinePowerOpType"),
    ("VirtualMachineDefaultPowerOpInfo", "defaultSuspendType", "VirtualMachinePowerOpType"),
    ("VirtualMachineDefaultPowerOpInfo", "powerOffType", "VirtualMachinePowerOpType"),
    ("VirtualMachineDefaultPowerOpInfo", "resetType", "VirtualMachinePowerOpType"),
    ("VirtualMachineDefaultPowerOpInfo", "standbyAction", "VirtualMachineStandbyActionType"),
    ("VirtualMachineDefaultPowerOpInfo", "suspendType", "VirtualMachinePowerOpType"),
    ("VirtualMachineFlagInfo", "htSharing", "VirtualMachineHtSharing"),
    ("VirtualMachineFlagInfo", "monitorType", "VirtualMachineFlagInfoMonitorType"),
    ("VirtualMachineFlagInfo", "snapshotPowerOffBehavior", "VirtualMachinePowerOffBehavior"),
    ("VirtualMachineFlagInfo", "virtualExecUsage", "VirtualMachineFlagInfoVirtualExecUsage"),
    ("VirtualMachineFlagInfo", "virtualMmuUsage", "VirtualMachineFlagInfoVirtualMmuUsage"),
];

/// Returns the enumeration that has the values of a text; `None` for a free text.
pub(crate) fn values(owner: &str, field: &str) -> Option<&'static Type> {
    let found = VALUES.iter().find(|(of, name, _)| (*of, *name) == (owner, field));
    found.and_then(|(_, _, kind)| vim25::find(kind))
}
