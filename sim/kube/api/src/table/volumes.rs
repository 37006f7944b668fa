//! The table rows of volumes, their drivers, and devices.
//!
//! After `printers.go`, the functions `printPersistentVolume`, `printStorageClass` and so on.

use jiff::Timestamp;
use serde_json::Value;

use super::cells::{age, list, or, text};

const UNSET: &str = "<unset>";

/// The cells of an object of this resource; `None` for a resource that has its cells elsewhere.
pub(super) fn cells(resource: &str, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
    let name = Value::from(text(object, "/metadata/name"));
    let age = Value::from(age(object, now));
    let at = |pointer: &str| Value::from(text(object, pointer));
    Some(match resource {
        "persistentvolumes" => persistent_volume(object, name, age),
        "persistentvolumeclaims" => claim(object, name, age),
        "storageclasses.storage.k8s.io" => {
            let expands = object["allowVolumeExpansion"].as_bool().unwrap_or_default();
            let (policy, mode) =
                (text(object, "/reclaimPolicy"), text(object, "/volumeBindingMode"));
            vec![
                default_class(object).into(),
                at("/provisioner"),
                or(policy, "Delete").into(),
                or(mode, "Immediate").into(),
                expands.into(),
                age,
            ]
        }
        "csinodes.storage.k8s.io" => vec![name, list(object, "/spec/drivers").len().into(), age],
        "csidrivers.storage.k8s.io" => driver(object, name, age),
        "volumeattachments.storage.k8s.io" => {
            let attached = object["status"]["attached"].as_bool().unwrap_or_default();
            let volume = at("/spec/source/persistentVolumeName");
            vec![name, at("/spec/attacher"), volume, at("/spec/nodeName"), attached.into(), age]
        }
        "resourceclaims.resource.k8s.io" => vec![name, claim_state(object).into(), age],
        "resourceslices.resource.k8s.io" => {
            vec![name, at("/spec/nodeName"), at("/spec/driver"), at("/spec/pool/name"), age]
        }
        "deviceclasses.resource.k8s.io" => vec![name, age],
        _ => return None,
    })
}

/// The name of a class, marked if the class is the default one.
fn default_class(class: &Value) -> String {
    const KEYS: [&str; 2] = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    let name = text(class, "/metadata/name");
    let is_default = KEYS.iter().any(|key| class["metadata"]["annotations"][key] == "true");
    if is_default { format!("{name} (default)") } else { name.to_owned() }
}

/// Access modes in short form and in the fixed order of the real server.
fn modes(modes: &[Value]) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let found = SHORT.iter().filter(|(long, _)| modes.iter().any(|it| it == long));
    found.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

fn phase(object: &Value) -> &str {
    match object["metadata"]["deletionTimestamp"].is_string() {
        true => "Terminating",
        false => text(object, "/status/phase"),
    }
}

/// The class of a claim or volume: that of the old annotation, else that of the spec.
fn class(object: &Value) -> &str {
    let old = &object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    old.as_str().unwrap_or_else(|| text(object, "/spec/storageClassName"))
}

fn persistent_volume(volume: &Value, name: Value, age: Value) -> Vec<Value> {
    let claim = match &volume["spec"]["claimRef"] {
        Value::Null => String::new(),
        claim => format!("{}/{}", text(claim, "/namespace"), text(claim, "/name")),
    };
    vec![
        name,
        or(text(volume, "/spec/capacity/storage"), "0").into(),
        modes(list(volume, "/spec/accessModes")).into(),
        text(volume, "/spec/persistentVolumeReclaimPolicy").into(),
        phase(volume).into(),
        claim.into(),
        class(volume).into(),
        or(text(volume, "/spec/volumeAttributesClassName"), UNSET).into(),
        text(volume, "/status/reason").into(),
        age,
        or(text(volume, "/spec/volumeMode"), UNSET).into(),
    ]
}

fn claim(claim: &Value, name: Value, age: Value) -> Vec<Value> {
    let volume = text(claim, "/spec/volumeName");
    let (capacity, access) = match volume {
        "" => (String::new(), String::new()),
        _ => (
            or(text(claim, "/status/capacity/storage"), "0").to_owned(),
            modes(list(claim, "/status/accessModes")),
        ),
    };
    vec![
        name,
        phase(claim).into(),
        volume.into(),
        capacity.into(),
        access.into(),
        class(claim).into(),
        or(text(claim, "/spec/volumeAttributesClassName"), UNSET).into(),
        age,
        or(text(claim, "/spec/volumeMode"), UNSET).into(),
    ]
}

fn driver(driver: &Value, name: Value, age: Value) -> Vec<Value> {
    let spec = &driver["spec"];
    let flag = |field: &str, otherwise: bool| spec[field].as_bool().unwrap_or(otherwise).into();
    let modes: Vec<&str> =
        list(spec, "/volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
    let audiences: Vec<&str> =
        list(spec, "/tokenRequests").iter().map(|it| text(it, "/audience")).collect();
    let tokens = if spec["tokenRequests"].is_array() { audiences.join(",") } else { UNSET.into() };
    vec![
        name,
        flag("attachRequired", true),
        flag("podInfoOnMount", false),
        flag("storageCapacity", false),
        tokens.into(),
        flag("requiresRepublish", false),
        or(&modes.join(","), "<none>").into(),
        age,
    ]
}

fn claim_state(claim: &Value) -> String {
    let is_deleted = claim["metadata"]["deletionTimestamp"].is_string();
    let is_allocated = claim["status"]["allocation"].is_object();
    let is_reserved = is_allocated && !list(claim, "/status/reservedFor").is_empty();
    let states = [
        (is_deleted, "deleted"),
        (!is_allocated && !is_deleted, "pending"),
        (is_allocated, "allocated"),
        (is_reserved, "reserved"),
    ];
    states.iter().filter(|(is_so, _)| *is_so).map(|(_, it)| *it).collect::<Vec<_>>().join(",")
}
