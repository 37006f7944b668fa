//! Conversion of a VirtualMachine between the hub and v1alpha1, the version that differs most from
//! the others.

use serde_json::{Value, json};

use super::{PAUSED, PAUSED_FIRST, forget_classic_volumes, image_of_name, name_image, was_stored};
use super::{bootstrap, conditions, network};
use crate::supervisor::conversion::document::{Document, is_empty, list, text, value_at};

/// Annotation in the hub version for a machine that took its bootstrap data from a ConfigMap in
/// v1alpha1. Later versions support only Secrets.
pub(super) const CONFIG_MAP: &str = "vmoperator.vmware.com/v1a1-configmap-md-transport";

/// Power states in v1alpha1 and in later versions.
const POWER: [(&str, &str); 3] =
    [("poweredOff", "PoweredOff"), ("poweredOn", "PoweredOn"), ("suspended", "Suspended")];
/// Modes of power operations in v1alpha1 and in later versions.
const MODES: [(&str, &str); 3] = [("hard", "Hard"), ("soft", "Soft"), ("trySoft", "TrySoft")];

/// JSON pointers of the fields whose values have another spelling in v1alpha1, with the spellings.
const WORDS: [(&str, [(&str, &str); 3]); 5] = [
    ("/spec/powerState", POWER),
    ("/spec/powerOffMode", MODES),
    ("/spec/suspendMode", MODES),
    ("/spec/restartMode", MODES),
    ("/status/powerState", POWER),
];

/// Device key of the boot disk in v1alpha1.
const BOOT_DISK: i64 = 2000;

pub(super) fn down(hub: &Value, spoke: &mut Document) {
    for (field, words) in WORDS {
        let word = text(hub, field);
        if let Some((first, _)) = words.iter().find(|(_, later)| *later == word) {
            spoke.put(field, *first);
        }
    }
    name_image(hub, spoke);
    spoke.put("/spec/resourcePolicyName", text(hub, "/spec/reserved/resourcePolicyName"));
    spoke.forget_empty("/spec/readinessProbe");
    lower_advanced(hub, spoke);
    bootstrap::down(hub, spoke);
    spoke.take_annotation(CONFIG_MAP);
    spoke.rename_annotation(PAUSED, PAUSED_FIRST);
    network::down(hub, spoke);
    conditions::merge_prerequisites(hub, spoke);
    forget_classic_volumes(hub, spoke);
}

pub(super) fn up(spoke: &Value, hub: &mut Document) {
    for (field, words) in WORDS {
        let word = text(spoke, field);
        if let Some((_, later)) = words.iter().find(|(first, _)| *first == word) {
            hub.put(field, *later);
        }
    }
    if was_stored(spoke) {
        image_of_name(spoke, hub);
    }
    let policy = text(spoke, "/spec/resourcePolicyName");
    if !policy.is_empty() {
        hub.put("/spec/reserved/resourcePolicyName", policy);
    }
    hub.forget_empty("/spec/readinessProbe");
    raise_advanced(spoke, hub);
    bootstrap::up(spoke, hub);
    hub.rename_annotation(PAUSED_FIRST, PAUSED);
    network::up(spoke, hub);
    conditions::up(hub);
    for volume in hub.elements("/status/volumes") {
        volume["type"] = "Managed".into();
    }
}

fn lower_advanced(hub: &Value, spoke: &mut Document) {
    let Some(advanced) = value_at(hub, "/spec/advanced") else { return };
    let mut options = Document(json!({}));
    options.put_found("/changeBlockTracking", advanced.get("changeBlockTracking"));
    let provisioning = match text(advanced, "/defaultVolumeProvisioningMode") {
        "Thin" => Some(json!({"thinProvisioned": true})),
        "Thick" => Some(json!({"thinProvisioned": false})),
        "ThickEagerZero" => Some(json!({"eagerZeroed": true})),
        _ => None,
    };
    options.put_found("/defaultVolumeProvisioningOptions", provisioning.as_ref());
    if !is_empty(&options.0) {
        spoke.put("/spec/advancedOptions", options.0);
    }
    // v1alpha1 has the capacity of the boot disk in an additional volume.
    if let Some(capacity) = advanced.get("bootDiskCapacity") {
        let mut volumes = list(hub, "/spec/volumes").to_vec();
        volumes.push(json!({
            "name": "vmoperator-vm-boot-disk",
            "vSphereVolume": {"capacity": {"ephemeral-storage": capacity}, "deviceKey": BOOT_DISK},
        }));
        spoke.put("/spec/volumes", volumes);
    }
}

fn raise_advanced(spoke: &Value, hub: &mut Document) {
    let disk = |it: &&Value| it.pointer("/vSphereVolume/deviceKey") == Some(&BOOT_DISK.into());
    let disk = list(spoke, "/spec/volumes").iter().find(disk);
    let options = value_at(spoke, "/spec/advancedOptions").filter(|options| !is_empty(options));
    let mut advanced = Document(json!({}));
    if let Some(disk) = disk {
        let capacity = disk.pointer("/vSphereVolume/capacity/ephemeral-storage");
        advanced.put("/bootDiskCapacity", capacity.cloned().unwrap_or_else(|| "0".into()));
    }
    if let Some(options) = options {
        advanced.put_found("/changeBlockTracking", options.get("changeBlockTracking"));
        let of = |field| options.pointer(field).and_then(Value::as_bool);
        let mode = match (
            of("/defaultVolumeProvisioningOptions/thinProvisioned"),
            of("/defaultVolumeProvisioningOptions/eagerZeroed"),
        ) {
            (Some(true), _) => "Thin",
            (Some(false), _) => "Thick",
            (None, Some(true)) => "ThickEagerZero",
            (None, _) => "",
        };
        advanced.put("/defaultVolumeProvisioningMode", mode);
    }
    if disk.is_some() || options.is_some() {
        hub.put("/spec/advanced", advanced.0);
    }
}

/// Removes volumes that have neither a claim nor a place on a controller, such as the volume of the
/// boot disk.
pub(super) fn forget_boot_disk(object: &mut Document) {
    let volumes = list(&object.0, "/spec/volumes");
    let is_placed = |it: &Value| {
        !text(it, "/controllerType").is_empty()
            && value_at(it, "/controllerBusNumber").is_some()
            && value_at(it, "/unitNumber").is_some()
    };
    let is_kept = |it: &&Value| value_at(it, "/persistentVolumeClaim").is_some() || is_placed(it);
    let volumes: Vec<Value> = volumes.iter().filter(is_kept).cloned().collect();
    object.put("/spec/volumes", volumes);
}
