//! Fields of the specs of machines, and the treatment of each.
//!
//! A test compares this table with the schema: each field that a client can set has a treatment here
//! or belongs to an object that is kept as a whole. `docs/ignored-fields.md` lists the ignored ones.

use crate::call::vim25::{self, Type};

/// Treatment of a field of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// The vCenter carries the field out.
    Carried,
    /// The machine keeps the value and shows it in this property. A data object is kept as a whole,
    /// except for fields that this table lists by themselves.
    Kept(&'static str),
    /// The vCenter refuses the field, except for the value `false`.
    Refused,
    /// The vCenter ignores the field, for this reason.
    Ignored(&'static str),
}

use Treatment::{Carried, Ignored, Kept, Refused};

const OUTPUT: &str = "vCenter sets it; a real one ignores it in a request.";
const NO_FILES: &str = "A simulated disk has no file; it exists as long as its device.";
const NO_COPY: &str = "A move or copy in the simulated storage takes no time and moves no data.";

/// Types of which the vCenter treats each field by itself. A field of any other type has the
/// treatment of the field that contains the object.
#[cfg(test)]
pub(crate) const MODELED: &[&str] = &[
    "CloneVM_Task",
    "CreateVM_Task",
    "Destroy_Task",
    "OptionValue",
    "PowerOffVM_Task",
    "PowerOnVM_Task",
    "ReconfigVM_Task",
    "RelocateVM_Task",
    "ResetVM_Task",
    "SuspendVM_Task",
    "VirtualDeviceConfigSpec",
    "VirtualMachineCloneSpec",
    "VirtualMachineConfigSpec",
    "VirtualMachineRelocateSpec",
];

/// Parameters and fields by method or type.
pub(crate) const FIELDS: &[(&str, &str, Treatment)] = &[
    ("CloneVM_Task", "folder", Carried),
    ("CloneVM_Task", "name", Carried),
    ("CloneVM_Task", "spec", Carried),
    ("CreateVM_Task", "config", Carried),
    ("CreateVM_Task", "pool", Carried),
    ("CreateVM_Task", "host", Carried),
    ("PowerOnVM_Task", "host", Carried),
    ("ReconfigVM_Task", "spec", Carried),
    ("RelocateVM_Task", "spec", Carried),
    ("RelocateVM_Task", "priority", Ignored(NO_COPY)),
    ("OptionValue", "key", Carried),
    ("OptionValue", "value", Carried),
    ("VirtualMachineCloneSpec", "location", Carried),
    ("VirtualMachineCloneSpec", "template", Carried),
    ("VirtualMachineCloneSpec", "config", Carried),
    ("VirtualMachineCloneSpec", "customization", Refused),
    ("VirtualMachineCloneSpec", "powerOn", Carried),
    ("VirtualMachineCloneSpec", "snapshot", Refused),
    ("VirtualMachineCloneSpec", "memory", Refused),
    ("VirtualMachineCloneSpec", "tpmProvisionPolicy", Refused),
    ("VirtualMachineRelocateSpec", "service", Refused),
    ("VirtualMachineRelocateSpec", "folder", Refused),
    ("VirtualMachineRelocateSpec", "datastore", Carried),
    ("VirtualMachineRelocateSpec", "diskMoveType", Ignored(NO_COPY)),
    ("VirtualMachineRelocateSpec", "pool", Carried),
    ("VirtualMachineRelocateSpec", "host", Carried),
    ("VirtualMachineRelocateSpec", "disk", Refused),
    ("VirtualMachineRelocateSpec", "transform", Ignored(NO_FILES)),
    ("VirtualMachineRelocateSpec", "deviceChange", Carried),
    ("VirtualMachineRelocateSpec", "profile", Refused),
    ("VirtualMachineRelocateSpec", "cryptoSpec", Refused),
    ("VirtualMachineRelocateSpec", "tagSpecs", Refused),
    ("VirtualMachineRelocateSpec", "vmPlacementPolicies", Refused),
    ("VirtualMachineConfigSpec", "changeVersion", Carried),
    ("VirtualMachineConfigSpec", "name", Carried),
    ("VirtualMachineConfigSpec", "version", Kept("config.version")),
    ("VirtualMachineConfigSpec", "createDate", Kept("config.createDate")),
    ("VirtualMachineConfigSpec", "uuid", Carried),
    ("VirtualMachineConfigSpec", "instanceUuid", Carried),
    ("VirtualMachineConfigSpec", "npivNodeWorldWideName", Refused),
    ("VirtualMachineConfigSpec", "npivPortWorldWideName", Refused),
    ("VirtualMachineConfigSpec", "npivWorldWideNameType", Refused),
    ("VirtualMachineConfigSpec", "npivDesiredNodeWwns", Refused),
    ("VirtualMachineConfigSpec", "npivDesiredPortWwns", Refused),
    ("VirtualMachineConfigSpec", "npivTemporaryDisabled", Refused),
    ("VirtualMachineConfigSpec", "npivOnNonRdmDisks", Refused),
    ("VirtualMachineConfigSpec", "npivWorldWideNameOp", Refused),
    ("VirtualMachineConfigSpec", "locationId", Kept("config.locationId")),
    ("VirtualMachineConfigSpec", "guestId", Carried),
    ("VirtualMachineConfigSpec", "alternateGuestName", Kept("config.alternateGuestName")),
    ("VirtualMachineConfigSpec", "annotation", Carried),
    ("VirtualMachineConfigSpec", "files", Kept("config.files")),
    ("VirtualMachineConfigSpec", "tools", Kept("config.tools")),
    ("VirtualMachineConfigSpec", "flags", Kept("config.flags")),
    ("VirtualMachineConfigSpec", "consolePreferences", Kept("config.consolePreferences")),
    ("VirtualMachineConfigSpec", "powerOpInfo", Kept("config.defaultPowerOps")),
    ("VirtualMachineConfigSpec", "rebootPowerOff", Kept("config.rebootPowerOff")),
    ("VirtualMachineConfigSpec", "numCPUs", Carried),
    ("VirtualMachineConfigSpec", "vcpuConfig", Kept("config.vcpuConfig")),
    ("VirtualMachineConfigSpec", "numCoresPerSocket", Kept("config.hardware.numCoresPerSocket")),
    ("VirtualMachineConfigSpec", "memoryMB", Carried),
    ("VirtualMachineConfigSpec", "memoryHotAddEnabled", Kept("config.memoryHotAddEnabled")),
    ("VirtualMachineConfigSpec", "cpuHotAddEnabled", Kept("config.cpuHotAddEnabled")),
    ("VirtualMachineConfigSpec", "cpuHotRemoveEnabled", Kept("config.cpuHotRemoveEnabled")),
    (
        "VirtualMachineConfigSpec",
        "virtualICH7MPresent",
        Kept("config.hardware.virtualICH7MPresent"),
    ),
    ("VirtualMachineConfigSpec", "virtualSMCPresent", Kept("config.hardware.virtualSMCPresent")),
    ("VirtualMachineConfigSpec", "deviceChange", Carried),
    ("VirtualMachineConfigSpec", "cpuAllocation", Kept("config.cpuAllocation")),
    ("VirtualMachineConfigSpec", "memoryAllocation", Kept("config.memoryAllocation")),
    ("VirtualMachineConfigSpec", "latencySensitivity", Kept("config.latencySensitivity")),
    ("VirtualMachineConfigSpec", "cpuAffinity", Kept("config.cpuAffinity")),
    ("VirtualMachineConfigSpec", "memoryAffinity", Kept("config.memoryAffinity")),
    ("VirtualMachineConfigSpec", "networkShaper", Kept("config.networkShaper")),
    ("VirtualMachineConfigSpec", "cpuFeatureMask", Refused),
    ("VirtualMachineConfigSpec", "extraConfig", Carried),
    ("VirtualMachineConfigSpec", "swapPlacement", Kept("config.swapPlacement")),
    ("VirtualMachineConfigSpec", "bootOptions", Kept("config.bootOptions")),
    ("VirtualMachineConfigSpec", "vAppConfig", Refused),
    ("VirtualMachineConfigSpec", "ftInfo", Refused),
    ("VirtualMachineConfigSpec", "repConfig", Refused),
    ("VirtualMachineConfigSpec", "vAppConfigRemoved", Refused),
    ("VirtualMachineConfigSpec", "vAssertsEnabled", Kept("config.vAssertsEnabled")),
    ("VirtualMachineConfigSpec", "changeTrackingEnabled", Kept("config.changeTrackingEnabled")),
    ("VirtualMachineConfigSpec", "firmware", Kept("config.firmware")),
    ("VirtualMachineConfigSpec", "maxMksConnections", Kept("config.maxMksConnections")),
    ("VirtualMachineConfigSpec", "guestAutoLockEnabled", Kept("config.guestAutoLockEnabled")),
    ("VirtualMachineConfigSpec", "managedBy", Kept("config.managedBy")),
    (
        "VirtualMachineConfigSpec",
        "memoryReservationLockedToMax",
        Kept("config.memoryReservationLockedToMax"),
    ),
    ("VirtualMachineConfigSpec", "nestedHVEnabled", Kept("config.nestedHVEnabled")),
    ("VirtualMachineConfigSpec", "vPMCEnabled", Kept("config.vPMCEnabled")),
    (
        "VirtualMachineConfigSpec",
        "scheduledHardwareUpgradeInfo",
        Kept("config.scheduledHardwareUpgradeInfo"),
    ),
    ("VirtualMachineConfigSpec", "vmProfile", Refused),
    ("VirtualMachineConfigSpec", "messageBusTunnelEnabled", Kept("config.messageBusTunnelEnabled")),
    ("VirtualMachineConfigSpec", "crypto", Refused),
    ("VirtualMachineConfigSpec", "migrateEncryption", Kept("config.migrateEncryption")),
    ("VirtualMachineConfigSpec", "sgxInfo", Refused),
    ("VirtualMachineConfigSpec", "ftEncryptionMode", Refused),
    ("VirtualMachineConfigSpec", "guestMonitoringModeInfo", Kept("config.guestMonitoringModeInfo")),
    ("VirtualMachineConfigSpec", "sevEnabled", Refused),
    ("VirtualMachineConfigSpec", "virtualNuma", Refused),
    ("VirtualMachineConfigSpec", "motherboardLayout", Kept("config.hardware.motherboardLayout")),
    ("VirtualMachineConfigSpec", "pmemFailoverEnabled", Refused),
    (
        "VirtualMachineConfigSpec",
        "vmxStatsCollectionEnabled",
        Kept("config.vmxStatsCollectionEnabled"),
    ),
    (
        "VirtualMachineConfigSpec",
        "vmOpNotificationToAppEnabled",
        Kept("config.vmOpNotificationToAppEnabled"),
    ),
    ("VirtualMachineConfigSpec", "vmOpNotificationTimeout", Kept("config.vmOpNotificationTimeout")),
    ("VirtualMachineConfigSpec", "deviceSwap", Refused),
    (
        "VirtualMachineConfigSpec",
        "simultaneousThreads",
        Kept("config.hardware.simultaneousThreads"),
    ),
    ("VirtualMachineConfigSpec", "pmem", Refused),
    ("VirtualMachineConfigSpec", "deviceGroups", Refused),
    ("VirtualMachineConfigSpec", "fixedPassthruHotPlugEnabled", Refused),
    ("VirtualMachineConfigSpec", "metroFtEnabled", Refused),
    ("VirtualMachineConfigSpec", "metroFtHostGroup", Refused),
    ("VirtualMachineConfigSpec", "tdxEnabled", Refused),
    ("VirtualMachineConfigSpec", "sevSnpEnabled", Refused),
    ("VirtualMachineConfigSpec", "tagSpecs", Refused),
    ("VirtualMachineConfigSpec", "vmPlacementPolicies", Refused),
    ("VirtualMachineFileInfo", "vmPathName", Carried),
    ("VirtualMachineFileInfo", "ftMetadataDirectory", Refused),
    ("ToolsConfigInfo", "toolsVersion", Ignored(OUTPUT)),
    ("ToolsConfigInfo", "toolsInstallType", Ignored(OUTPUT)),
    ("ToolsConfigInfo", "pendingCustomization", Ignored(OUTPUT)),
    ("ToolsConfigInfo", "customizationKeyId", Refused),
    ("ToolsConfigInfo", "lastInstallInfo", Ignored(OUTPUT)),
    ("VirtualMachineFlagInfo", "faultToleranceType", Refused),
    ("ScheduledHardwareUpgradeInfo", "scheduledHardwareUpgradeStatus", Ignored(OUTPUT)),
    ("ScheduledHardwareUpgradeInfo", "fault", Ignored(OUTPUT)),
    ("VirtualDeviceConfigSpec", "operation", Carried),
    ("VirtualDeviceConfigSpec", "fileOperation", Ignored(NO_FILES)),
    ("VirtualDeviceConfigSpec", "device", Carried),
    ("VirtualDeviceConfigSpec", "profile", Refused),
    ("VirtualDeviceConfigSpec", "backing", Refused),
    ("VirtualDeviceConfigSpec", "filterSpec", Refused),
    ("VirtualDeviceConfigSpec", "changeMode", Refused),
    ("VirtualDevice", "deviceInfo", Ignored(OUTPUT)),
    ("VirtualDevice", "deviceGroupInfo", Refused),
    ("VirtualDeviceConnectInfo", "status", Ignored(OUTPUT)),
    ("VirtualController", "device", Ignored(OUTPUT)),
    ("VirtualDisk", "diskObjectId", Ignored(OUTPUT)),
    ("VirtualDisk", "vFlashCacheConfigInfo", Refused),
    ("VirtualDisk", "iofilter", Refused),
    ("VirtualDisk", "vDiskId", Refused),
    ("VirtualDisk", "vDiskVersion", Refused),
    ("VirtualDisk", "nativeUnmanagedLinkedClone", Refused),
    ("VirtualDisk", "independentFilters", Refused),
    ("VirtualDisk", "diskChainBrokenIssue", Ignored(OUTPUT)),
    ("VirtualDeviceFileBackingInfo", "backingObjectId", Ignored(OUTPUT)),
    ("VirtualDiskFlatVer2BackingInfo", "parent", Refused),
    ("VirtualDiskFlatVer2BackingInfo", "keyId", Refused),
    ("VirtualEthernetCard", "subnetId", Refused),
];

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

/// Returns the treatment of a field that the type `owner` declares; `None` for one that is treated
/// as the object that contains it.
pub(crate) fn treatment(owner: &str, field: &str) -> Option<Treatment> {
    let found = FIELDS.iter().find(|(of, name, _)| (*of, *name) == (owner, field));
    found.map(|(_, _, treatment)| *treatment)
}
