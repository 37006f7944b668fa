//! Conversion of VirtualMachines between the hub and v1alpha2 … v1alpha5, and the fields that a
//! conversion up to the hub restores from the annotation.

mod bootstrap;
mod conditions;
mod first;
mod network;

use serde_json::{Value, json};

use super::Kind;
use super::document::{Document, list, text, value_at};
use super::restore::Rule::{ByName, Fill, Made, Take};
use super::restore::{Dated, restore};

pub(super) const KIND: Kind =
    Kind { name: "VirtualMachine", down, up, restore: Some(restore_all), unrestored };

/// The annotation that pauses VM Operator for an object. Its key in v1alpha1 and v1alpha2 is
/// [`PAUSED_FIRST`].
const PAUSED: &str = "vmoperator.vmware.com/paused";
const PAUSED_FIRST: &str = "vmoperator.vmware.com/pause-reconcile";

const ADVANCED: [&str; 7] = [
    "preferHtEnabled",
    "hugePages1GEnabled",
    "timeTrackerLowLatencyEnabled",
    "cpuAffinityExclusiveNoStatsEnabled",
    "vmxSwapEnabled",
    "pnumaNodeAffinity",
    "extraConfig",
];
const CD_ROM: [&str; 3] = ["controllerBusNumber", "controllerType", "unitNumber"];
const INTERFACE: [&str; 5] = ["ipamModes", "type", "vnumaNodeID", "vmxnet3", "advancedProperties"];
const VOLUME: [&str; 7] = [
    "applicationType",
    "controllerBusNumber",
    "controllerType",
    "diskMode",
    "sharingMode",
    "unitNumber",
    "removable",
];

const RESTORED: &[Dated] = &[
    (1, 5, Take("/spec", &["resources", "cpuAdvanced", "memoryAdvanced"])),
    (1, 5, Fill("/spec/volumeAttributesClassName")),
    (1, 5, Made("/spec/advanced", &ADVANCED)),
    (2, 5, Fill("/spec/bootstrap/disabled")),
    (2, 5, Fill("/spec/network/vlans")),
    (2, 5, ByName("/spec/network/interfaces", &INTERFACE)),
    (1, 4, Take("/spec", &["policies", "bootOptions", "affinity", "currentSnapshotName"])),
    (1, 4, ByName("/spec/volumes", &VOLUME)),
    (2, 4, Take("/spec/crypto", &["vTPMMode"])),
    // Creates the structure of which the next rule restores fields.
    (1, 2, Fill("/spec/bootstrap/cloudInit/instanceID")),
    (2, 4, Take("/spec/bootstrap/cloudInit", &["waitOnNetwork4", "waitOnNetwork6"])),
    (2, 4, Take("/spec/bootstrap/linuxPrep", &bootstrap::LINUX)),
    (2, 4, Take("/spec/bootstrap/sysprep", &["customizeAtNextPowerOn"])),
    (
        2,
        4,
        Take("/spec/bootstrap/sysprep/sysprep", &["expirePasswordAfterNextLogin", "scriptText"]),
    ),
    (1, 3, Take("/spec", &["promoteDisksMode"])),
    (1, 2, Take("/spec", &["image", "imageName", "instanceUUID", "biosUUID", "guestID"])),
    (1, 2, Take("/spec", &["hardware"])),
    (2, 2, Fill("/spec/network/domainName")),
    (1, 1, Take("/spec", &["crypto", "groupName"])),
    (1, 1, Made("/spec/advanced", &["defaultVolumeProvisioningMode"])),
    (1, 1, Made("/spec/readinessProbe", &["guestInfo"])),
    (1, 1, Made("/spec/network", &["domainName", "hostName", "disabled"])),
    (1, 1, Made("/spec/network", &["nameservers", "searchDomains", "vlans"])),
    (1, 5, Take("", &["status"])),
];

fn down(hub: &Value, spoke: &mut Document, version: u8) {
    match version {
        1 => first::down(hub, spoke),
        2 => down_to_second(hub, spoke),
        3 | 4 => spoke.put_found("/spec/cdrom", value_at(hub, "/spec/hardware/cdrom")),
        _ => {}
    }
    if version <= 3 {
        spoke.put_found("/status/host", value_at(hub, "/status/nodeName"));
    }
    if version == 3
        && let Some(storage) = value_at(hub, "/status/storage")
    {
        spoke.put("/status/storage", usage(storage));
    }
}

fn up(spoke: &Value, hub: &mut Document, version: u8) {
    match version {
        1 => first::up(spoke, hub),
        2 => up_from_second(spoke, hub),
        3 | 4 => {
            if let Some(drives) = value_at(spoke, "/spec/cdrom") {
                hub.put("/spec/hardware/cdrom", drives.clone());
            }
        }
        _ => {}
    }
    if version <= 3 {
        hub.put_found("/status/nodeName", value_at(spoke, "/status/host"));
    }
    if version == 3
        && let Some(usage) = value_at(spoke, "/status/storage/usage")
    {
        hub.put("/status/storage", storage(usage));
    }
}

fn restore_all(object: &mut Document, kept: &Value, version: u8) {
    if version == 1 {
        bootstrap::restore(object, kept);
    }
    restore(object, kept, version, RESTORED);
    match version {
        1 => {
            network::restore(object, kept);
            first::forget_boot_disk(object);
        }
        3 | 4 => restore_hardware(object, kept),
        _ => {}
    }
    if version > 1 {
        restore_dhcp(object, kept);
    }
}

fn unrestored(object: &mut Document, version: u8) {
    if version == 1 {
        conditions::split_prerequisites(object);
    }
}

fn down_to_second(hub: &Value, spoke: &mut Document) {
    const IDENTIFICATION: &str = "/spec/bootstrap/sysprep/sysprep/identification";
    name_image(hub, spoke);
    if let Some(image) = value_at(hub, "/spec/image") {
        let (kind, name) = (text(image, "/kind"), text(image, "/name"));
        let version = super::version(super::HUB);
        spoke.put("/status/image", json!({"apiVersion": version, "kind": kind, "name": name}));
    }
    let domain = text(hub, "/spec/network/domainName");
    if !domain.is_empty() && value_at(hub, IDENTIFICATION).is_some() {
        spoke.put(&format!("{IDENTIFICATION}/joinDomain"), domain);
    }
    forget_classic_volumes(hub, spoke);
    exchange_names(spoke);
    spoke.rename_annotation(PAUSED, PAUSED_FIRST);
}

fn up_from_second(spoke: &Value, hub: &mut Document) {
    const DOMAIN: &str = "/spec/bootstrap/sysprep/sysprep/identification/joinDomain";
    const RUN_ONCE: &str = "/spec/bootstrap/sysprep/sysprep/guiRunOnce";
    if was_stored(spoke) {
        let image = |field| text(spoke, field);
        match (image("/status/image/kind"), image("/status/image/name")) {
            ("", _) | (_, "") => image_of_name(spoke, hub),
            (kind, name) => hub.put("/spec/image", json!({"kind": kind, "name": name})),
        }
    }
    let domain = text(spoke, DOMAIN);
    if !domain.is_empty() {
        hub.put("/spec/network/domainName", domain);
    }
    // v1alpha2 may have an empty structure here where the hub has none.
    hub.forget_empty(RUN_ONCE);
    for volume in hub.elements("/status/volumes") {
        volume["type"] = "Managed".into();
    }
    exchange_names(hub);
    hub.rename_annotation(PAUSED_FIRST, PAUSED);
}

/// Exchanges host name and domain name. VM Operator's conversion copies memory, and v1alpha2
/// declares these two fields in the opposite order, so each field gets the other field's value.
fn exchange_names(object: &mut Document) {
    for list in ["/status/network/interfaces", "/status/network/ipStacks"] {
        for element in object.elements(list) {
            let mut whole = Document(element.take());
            let (host, domain) = (whole.remove("/dns/hostName"), whole.remove("/dns/domainName"));
            for (field, name) in [("/dns/domainName", host), ("/dns/hostName", domain)] {
                if let Some(name) = name {
                    whole.put(field, name);
                }
            }
            *element = whole.0;
        }
    }
}

/// True if the object was read from the store: its generation is positive. VM Operator converts the
/// image of stored objects only.
fn was_stored(object: &Value) -> bool {
    object.pointer("/metadata/generation").and_then(Value::as_i64).is_some_and(|n| n > 0)
}

fn image_of_name(spoke: &Value, hub: &mut Document) {
    let name = text(spoke, "/spec/imageName");
    if !name.is_empty() {
        hub.put("/spec/image", json!({"name": name}));
    }
}

fn name_image(hub: &Value, spoke: &mut Document) {
    if text(hub, "/spec/imageName").is_empty() {
        spoke.put("/spec/imageName", text(hub, "/spec/image/name"));
    }
}

/// Removes disks that are not Kubernetes volumes from the status, because v1alpha1 and v1alpha2 do
/// not report them.
fn forget_classic_volumes(hub: &Value, spoke: &mut Document) {
    let volumes = list(hub, "/status/volumes");
    let managed: Vec<Value> =
        volumes.iter().filter(|it| text(it, "/type") != "Classic").cloned().collect();
    spoke.put("/status/volumes", managed);
}

/// Converts the `status.storage` of the hub to v1alpha3.
fn usage(storage: &Value) -> Value {
    let mut out = Document(json!({}));
    for (ours, theirs) in USAGE {
        if let Some(amount) = value_at(storage, theirs) {
            out.put(ours, amount.clone());
        }
    }
    out.0
}

fn storage(usage: &Value) -> Value {
    let mut out = Document(json!({}));
    for (theirs, ours) in USAGE {
        if let Some(amount) = usage.get(theirs.trim_start_matches("/usage/")) {
            out.put(ours, amount.clone());
        }
    }
    out.0
}

/// JSON pointers of the fields of `status.storage`: the pointer in v1alpha3, and in the hub.
const USAGE: [(&str, &str); 3] = [
    ("/usage/total", "/total"),
    ("/usage/disks", "/requested/disks"),
    ("/usage/other", "/usage/other"),
];

/// Restores `spec.hardware`, which v1alpha3 and v1alpha4 do not have. Their CD-ROM drives are in
/// `spec.cdrom`, without controllers.
fn restore_hardware(object: &mut Document, kept: &Value) {
    let Some(hardware) = value_at(kept, "/spec/hardware") else { return };
    let drives: Vec<Value> = list(&object.0, "/spec/hardware/cdrom").to_vec();
    object.put("/spec/hardware", hardware.clone());
    let drives = drives.into_iter().map(|drive| {
        let known = list(hardware, "/cdrom");
        let known = known.iter().find(|it| text(it, "/name") == text(&drive, "/name"));
        let mut drive = Document(drive);
        if let Some(known) = known {
            for field in CD_ROM {
                drive.put_found(&format!("/{field}"), known.get(field));
            }
        }
        drive.0
    });
    object.put("/spec/hardware/cdrom", drives.collect::<Vec<_>>());
}

/// Restores `false` in `dhcp4` and `dhcp6`, which older versions cannot distinguish from an absent
/// field.
fn restore_dhcp(object: &mut Document, kept: &Value) {
    const INTERFACES: &str = "/spec/network/interfaces";
    for interface in object.elements(INTERFACES) {
        let same = |it: &&Value| text(it, "/name") == text(interface, "/name");
        let Some(kept) = list(kept, INTERFACES).iter().rfind(same) else { continue };
        for field in ["dhcp4", "dhcp6"] {
            if interface.get(field).is_none() && kept.get(field) == Some(&Value::Bool(false)) {
                interface[field] = false.into();
            }
        }
    }
}
