//! Conversion of VirtualMachineImage and ClusterVirtualMachineImage: v1alpha1 describes an image in
//! the object's `spec`, the hub in its `status`.
//!
//! These kinds have no annotation that keeps the fields of the hub, so a write in an older version
//! drops the fields that the older version lacks.

use serde_json::{Map, Value, json};

use super::Kind;
use super::document::{Document, list, text, value_at};

pub(super) const NAMESPACED: Kind =
    Kind { name: "VirtualMachineImage", down: down_named, ..CLUSTER };
pub(super) const CLUSTER: Kind =
    Kind { name: "ClusterVirtualMachineImage", down, up, restore: None, unrestored: |_, _| {} };

/// The annotation in the hub version with the reference to the content library, which is a field of
/// the status in v1alpha1.
const LIBRARY: &str = "vmoperator.vmware.com/conversion-content-lib-ref";

/// Prefix of the properties that are annotations in v1alpha1 and part of the status in the hub.
const SYSTEM: &str = "vmware-system";

/// JSON pointers of fields that have different places: the pointer in the hub, and in v1alpha1.
const MOVED: [(&str, &str); 5] = [
    ("/status/providerItemID", "/spec/imageID"),
    ("/status/hardwareVersion", "/spec/hwVersion"),
    ("/status/productInfo", "/spec/productInfo"),
    ("/status/name", "/status/imageName"),
    ("/status/providerContentVersion", "/status/contentVersion"),
];

const READY: &str = "Ready";

/// Conditions of v1alpha1 in the order in which an image reaches them. The second text of each pair
/// is the reason of the hub's only condition, `Ready`, while the condition of v1alpha1 is false.
const STEPS: [(&str, &str); 3] = [
    (
        "VirtualMachineImageProviderSecurityCompliance",
        "VirtualMachineImageProviderSecurityNotCompliant",
    ),
    ("VirtualMachineImageProviderReady", "VirtualMachineImageProviderNotReady"),
    ("VirtualMachineImageSynced", "VirtualMachineImageNotSynced"),
];

fn down_named(hub: &Value, spoke: &mut Document, version: u8) {
    down(hub, spoke, version);
    if version == 1 && !text(hub, "/spec/providerRef/name").is_empty() {
        spoke.put("/spec/providerRef/namespace", text(hub, "/metadata/namespace"));
    }
}

fn down(hub: &Value, spoke: &mut Document, version: u8) {
    match version {
        1 => down_to_first(hub, spoke),
        3 | 4 => {
            for disk in spoke.elements("/status/disks") {
                let (limit, requested) =
                    (disk.get("limit").cloned(), disk.get("requested").cloned());
                *disk = json!({"capacity": limit, "size": requested});
            }
        }
        _ => {}
    }
}

fn down_to_first(hub: &Value, spoke: &mut Document) {
    for (ours, theirs) in MOVED {
        spoke.put_found(theirs, value_at(hub, ours));
    }
    let system = |field: &str| text(hub, &format!("/status/osInfo/{field}"));
    spoke.put("/spec/osInfo", json!({"type": system("type"), "version": system("version")}));
    let properties = list(hub, "/status/ovfProperties")
        .iter()
        .map(|it| (text(it, "/key").to_owned(), it.clone()));
    spoke.put("/spec/ovfEnv", properties.collect::<Map<_, _>>());
    spoke.put("/status/conditions", steps(list(hub, "/status/conditions")));
    if let Some(given) = spoke.annotation(LIBRARY) {
        // An annotation that is not valid JSON gives an empty reference.
        let given: Value = serde_json::from_str(given).unwrap_or_default();
        let field = |name: &str| given.get(name).filter(|it| it.is_string()).cloned();
        let library =
            json!({"apiGroup": field("apiGroup"), "kind": field("kind"), "name": field("name")});
        spoke.put("/status/contentLibraryRef", library);
    }
    for property in list(hub, "/status/vmwareSystemProperties") {
        spoke.annotate(text(property, "/key"), text(property, "/value").to_owned());
    }
}

fn up(spoke: &Value, hub: &mut Document, version: u8) {
    if version > 1 {
        return;
    }
    for (ours, theirs) in MOVED {
        hub.put_found(ours, value_at(spoke, theirs));
    }
    hub.put_found("/status/osInfo", value_at(spoke, "/spec/osInfo"));
    // Go iterates over its map in any order; sorting makes the result deterministic.
    let properties = spoke.pointer("/spec/ovfEnv").and_then(Value::as_object);
    let mut properties: Vec<Value> =
        properties.into_iter().flat_map(Map::values).cloned().collect();
    properties.sort_by(|a, b| text(a, "/key").cmp(text(b, "/key")));
    hub.put("/status/ovfProperties", properties);
    hub.put("/status/conditions", ready(list(spoke, "/status/conditions")));
    let provider = |field: &str| text(spoke, &format!("/spec/providerRef/{field}"));
    if ["apiVersion", "kind", "name"].iter().all(|field| provider(field).is_empty()) {
        hub.remove("/spec/providerRef");
    }
    let mut system: Vec<String> = spoke
        .pointer("/metadata/annotations")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::keys)
        .filter(|key| key.starts_with(SYSTEM))
        .cloned()
        .collect();
    system.sort();
    let property = |key: String| {
        let value = hub.take_annotation(&key);
        json!({"key": key, "value": value})
    };
    let properties: Vec<Value> = system.into_iter().map(property).collect();
    hub.put("/status/vmwareSystemProperties", properties);
}

/// Converts the condition `Ready` of the hub to conditions of v1alpha1: all of them in order, up to
/// and including the first one that is false. Empty if `conditions` is empty.
fn steps(conditions: &[Value]) -> Vec<Value> {
    if conditions.is_empty() {
        return Vec::new();
    }
    let ready = conditions.iter().find(|it| text(it, "/type") == READY);
    let ready = ready.unwrap_or(&Value::Null);
    let since = ready.get("lastTransitionTime");
    let reason = text(ready, "/reason");
    let failed = STEPS.iter().position(|(_, why)| *why == reason);
    let step = |(at, (of, _)): (usize, &(&str, &str))| {
        if Some(at) == failed {
            json!({
                "type": of,
                "status": "False",
                "severity": "Error",
                "lastTransitionTime": since,
                "reason": reason,
                "message": text(ready, "/message"),
            })
        } else {
            json!({"type": of, "status": "True", "lastTransitionTime": since})
        }
    };
    let n = failed.map_or(STEPS.len(), |at| at + 1);
    STEPS.iter().enumerate().take(n).map(step).collect()
}

/// Converts the conditions of v1alpha1 to the condition `Ready` of the hub, which is true unless
/// one of [`STEPS`] is false. Empty if `conditions` is empty.
fn ready(conditions: &[Value]) -> Vec<Value> {
    if conditions.is_empty() {
        return Vec::new();
    }
    let is_step = |it: &Value| STEPS.iter().any(|(of, _)| *of == text(it, "/type"));
    let failed = conditions.iter().find(|it| is_step(it) && text(it, "/status") == "False");
    let ready = match failed {
        Some(failed) => {
            let reason = match text(failed, "/reason") {
                "" => "False",
                reason => reason,
            };
            json!({
                "type": READY,
                "status": "False",
                "lastTransitionTime": failed["lastTransitionTime"],
                "reason": reason,
                "message": text(failed, "/message"),
            })
        }
        None => {
            // In Go's time format the latest time is also the last in text order.
            let since = conditions.iter().map(|it| text(it, "/lastTransitionTime")).max();
            let since = since.filter(|since| !since.is_empty());
            json!({"type": READY, "status": "True", "lastTransitionTime": since, "reason": "True"})
        }
    };
    vec![ready]
}
