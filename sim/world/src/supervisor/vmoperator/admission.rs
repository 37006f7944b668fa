//! VM Operator's webhooks for VirtualMachines: defaults and validation.
//!
//! Follows `vm-operator: webhooks/virtualmachine`, with two exceptions. The defaulting omits fields
//! of capabilities that the simulated Supervisor does not have (immutable classes, groups,
//! policies). The validation checks only the power state and some immutable fields.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::Ids;
use crate::objects::{Admission, FieldErrors};

/// VM Operator's defaulting and validating webhooks for VirtualMachines.
pub(crate) const ADMISSION: Admission = Admission {
    validating: "default.validating.virtualmachine.v1alpha6.vmoperator.vmware.com",
    mutating: "default.mutating.virtualmachine.v1alpha6.vmoperator.vmware.com",
    paths: [
        "/default-validate-vmoperator-vmware-com-v1alpha6-virtualmachine",
        "/default-mutate-vmoperator-vmware-com-v1alpha6-virtualmachine",
    ],
    default,
    validate,
};

const NO_DEFAULT_NIC: &str = "vmoperator.vmware.com/no-default-nic";

fn default(object: &mut Value, ids: Ids, serial: &str) {
    let annotations = &object["metadata"]["annotations"];
    let wants_interface = annotations[NO_DEFAULT_NIC].is_null();
    let mut annotations = annotations.as_object().cloned().unwrap_or_default();
    annotations.insert("vmoperator.vmware.com/created-at-build-version".into(), "v1.10.0".into());
    annotations.insert("vmoperator.vmware.com/created-at-schema-version".into(), "v1alpha6".into());
    object["metadata"]["annotations"] = annotations.into();
    if !object["spec"].is_object() {
        object["spec"] = Map::new().into();
    }
    let specification = &mut object["spec"];
    let is_empty = |value: &Value| value.as_str().is_none_or(str::is_empty);
    if is_empty(&specification["powerState"]) {
        specification["powerState"] = "PoweredOn".into();
    }
    for (field, kind) in [("instanceUUID", "vm instance"), ("biosUUID", "vm bios")] {
        if is_empty(&specification[field]) {
            specification[field] = random(ids, kind, serial).to_string().into();
        }
    }
    let bios = specification["biosUUID"].clone();
    if let Some(cloud_init) = specification.pointer_mut("/bootstrap/cloudInit")
        && cloud_init.is_object()
        && is_empty(&cloud_init["instanceID"])
    {
        cloud_init["instanceID"] = bios;
    }
    let network = &specification["network"];
    let has_interfaces = network["interfaces"].as_array().is_some_and(|all| !all.is_empty());
    if wants_interface && !has_interfaces && network["disabled"] != true {
        let mut network = network.as_object().cloned().unwrap_or_default();
        network.insert("interfaces".into(), json!([{"name": "eth0"}]));
        specification["network"] = network.into();
    }
}

/// A UUID in the form of a random UUID (version 4). It depends only on the seed, `kind` and
/// `serial`.
fn random(ids: Ids, kind: &str, serial: &str) -> Uuid {
    uuid::Builder::from_random_bytes(*ids.uuid(kind, serial).as_bytes()).into_uuid()
}

fn validate(object: &Value, existing: Option<&Value>, errors: &mut FieldErrors) {
    const POWER: &str = "spec.powerState";
    let power = &object["spec"]["powerState"];
    let Some(existing) = existing else {
        if power == "Suspended" {
            errors.invalid(POWER, power, "cannot set a new VM's power state to Suspended");
        }
        return;
    };
    match (existing["spec"]["powerState"].as_str(), power.as_str().unwrap_or_default()) {
        (_, "") => errors.invalid(POWER, &"".into(), "cannot set power state to empty string"),
        (Some("PoweredOff"), "Suspended") => {
            errors.invalid(POWER, power, "cannot suspend a VM that is powered off");
        }
        _ => {}
    }
    for (pointer, path) in [
        ("/spec/storageClass", "spec.storageClass"),
        ("/spec/biosUUID", "spec.biosUUID"),
        ("/spec/instanceUUID", "spec.instanceUUID"),
        ("/spec/reserved/resourcePolicyName", "spec.reserved.resourcePolicyName"),
    ] {
        let text = |object: &Value| {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (before, now) = (text(existing), text(object));
        let may_be_set = before.is_empty() && pointer.ends_with("UUID");
        if before != now && !may_be_set {
            errors.invalid(path, &now.into(), "field is immutable");
        }
    }
}
