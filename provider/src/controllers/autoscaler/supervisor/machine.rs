//! Reads VirtualMachine objects of groups, and writes new ones. Pure.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    super::{
        group::{GROUP_LABEL, Group, Shape},
        instance::{Failure, FailureClass, Instance, State, one_line, out_of_resources},
    },
    bootstrap::data,
};
use crate::model::{ProviderId, parse_uuid};

/// Annotation of a machine that this server created; its value has name and BIOS UUID of the machine.
/// A copy of the object has another name or UUID, and so is no machine of the group.
pub(crate) const CREATED: &str = "vsphere.cloud-provider/created";
/// Annotation of a machine that replaces one that could not be made: the time from which VM
/// Operator may make it. Until then the object is paused.
pub(crate) const HELD_UNTIL: &str = "vsphere.cloud-provider/held-until";
/// Annotation of VM Operator that makes it ignore the object.
pub(crate) const PAUSED: &str = "vmoperator.vmware.com/paused";
/// Annotation that VM Operator adds when it powers a machine on for the first time.
const FIRST_BOOT_DONE: &str = "virtualmachine.vmoperator.vmware.com/first-boot-done";
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// Time for which a condition must be false before the autoscaler learns of it. A class or an image
/// that appears a little later than the machine is no failure.
const GRACE: Duration = Duration::from_secs(60);

/// Conditions that must be true before VM Operator makes a machine, and the code of each failure.
const PREREQUISITES: [(&str, &str); 5] = [
    ("VirtualMachineClassReady", "VM_CLASS_READY"),
    ("VirtualMachineImageReady", "VM_IMAGE_READY"),
    ("VirtualMachineStorageReady", "VM_STORAGE_READY"),
    ("VirtualMachineBootstrapReady", "VM_BOOTSTRAP_READY"),
    ("VirtualMachineNetworkReady", "VM_NETWORK_READY"),
];
/// Conditions of the creation itself; the text of the reason decides the code.
const CREATION: [&str; 2] = ["VirtualMachineConditionPlacementReady", "VirtualMachineCreated"];

/// A machine of a group, as its VirtualMachine object tells it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    /// Name of the group.
    pub(crate) group: String,
    pub(crate) id: ProviderId,
    /// True if this server created the machine. Others count only for a group that adopts them.
    pub(crate) is_own: bool,
    pub(crate) created: Option<Timestamp>,
    pub(crate) is_deleting: bool,
    /// True if the machine exists in vCenter.
    pub(crate) is_materialized: bool,
    /// True if the machine is or was powered on, and its guest has reported an address.
    has_run: bool,
    /// Time until which VM Operator must not make the machine.
    pub(crate) held_until: Option<Timestamp>,
    /// The first condition that prevents the creation, with the time since when.
    trouble: Option<(Failure, Option<Timestamp>)>,
}

impl Machine {
    /// Reads an object; `None` if it is no machine of a group, or has no BIOS UUID yet.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let metadata = &object["metadata"];
        let annotation = |name: &str| metadata["annotations"][name].as_str();
        let is_text = |pointer: &str| text(pointer).is_some_and(|text| !text.is_empty());
        let id = ProviderId(parse_uuid(&text("/spec/biosUUID")?)?);
        let is_on = text("/status/powerState").as_deref() == Some("PoweredOn");
        let has_address =
            is_text("/status/network/primaryIP4") || is_text("/status/network/primaryIP6");
        Some(Self {
            name: text("/metadata/name")?,
            uid: text("/metadata/uid")?,
            resource_version: text("/metadata/resourceVersion")?,
            group: metadata["labels"][GROUP_LABEL].as_str()?.to_owned(),
            is_own: annotation(CREATED) == Some(&*mark(&text("/metadata/name")?, id.0)),
            id,
            created: text("/metadata/creationTimestamp").and_then(|it| it.parse().ok()),
            is_deleting: metadata["deletionTimestamp"].is_string(),
            is_materialized: is_text("/status/uniqueID"),
            has_run: (is_on && has_address)
                || (!is_on && annotation(FIRST_BOOT_DONE).is_some() && is_text("/status/uniqueID")),
            held_until: annotation(HELD_UNTIL).and_then(|it| it.parse().ok()),
            trouble: trouble(&object["status"]["conditions"]),
        })
    }

    /// Returns the machine with what an earlier state of the same object proves: a machine that has
    /// run stays one, even if its guest loses its address.
    pub(crate) fn after(self, earlier: &Self) -> Self {
        let is_same = self.uid == earlier.uid;
        Self { has_run: self.has_run || (is_same && earlier.has_run), ..self }
    }

    /// Returns the instance at this time.
    pub(crate) fn instance(&self, now: Timestamp) -> Instance {
        let is_old = |since: &Option<Timestamp>| {
            let since = since.or(self.created).unwrap_or(now);
            now.duration_since(since).unsigned_abs() >= GRACE && since <= now
        };
        let state = match &self.trouble {
            _ if self.is_deleting => State::Deleting,
            _ if self.has_run => State::Running,
            Some((failure, since)) if !self.is_materialized && is_old(since) => {
                State::Failed(failure.clone())
            }
            _ => State::Creating,
        };
        Instance {
            id: self.id.into(),
            name: self.name.clone(),
            state,
            is_materialized: self.is_materialized,
        }
    }
}

/// Returns the first condition that is false, as a failure, with the time of its last change.
fn trouble(conditions: &Value) -> Option<(Failure, Option<Timestamp>)> {
    let conditions = conditions.as_array()?;
    let find =
        |kind: &str| conditions.iter().find(|it| it["type"] == kind && it["status"] == "False");
    let failure = |condition: &Value, code: &str, class| {
        let reason = condition["reason"].as_str().unwrap_or_default();
        let message = condition["message"].as_str().unwrap_or_default();
        let since = condition["lastTransitionTime"].as_str().and_then(|it| it.parse().ok());
        let message = one_line(&format!("{reason}: {message}"));
        (Failure { code: code.to_owned(), message, class }, since)
    };
    let prerequisite = PREREQUISITES.iter().find_map(|(kind, code)| {
        find(kind).map(|condition| failure(condition, code, FailureClass::Other))
    });
    let creation = || {
        let condition = CREATION.iter().find_map(|kind| find(kind))?;
        let text = format!("{} {}", condition["reason"], condition["message"]);
        Some(match out_of_resources(&text) {
            Some(code) => failure(condition, code, FailureClass::OutOfResources),
            None => failure(condition, "VM_CREATE_FAILED", FailureClass::Other),
        })
    };
    prerequisite.or_else(creation)
}

/// A machine to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewMachine {
    pub(crate) name: String,
    pub(crate) bios_uuid: Uuid,
    /// Time until which VM Operator must not make it; `None` for at once.
    pub(crate) held_until: Option<Timestamp>,
}

/// Returns the value of [`CREATED`].
fn mark(name: &str, bios_uuid: Uuid) -> String {
    format!("{name}/{}", bios_uuid.hyphenated())
}

/// Returns the object of a new machine of the group.
pub(crate) fn manifest(group: &Group, namespace: &str, version: &str, new: &NewMachine) -> Value {
    let Shape::VirtualMachine(shape) = &group.shape else {
        unreachable!("the groups of a Supervisor come from its file");
    };
    let bios_uuid = new.bios_uuid.hyphenated().to_string();
    let bootstrap = match &shape.bootstrap.token {
        Some(_) => (data::secret_name(&new.name), data::USER_DATA.to_owned()),
        None => (shape.bootstrap.secret_name.clone(), shape.bootstrap.key.clone()),
    };
    let mut object = json!({
        "apiVersion": format!("vmoperator.vmware.com/{version}"),
        "kind": "VirtualMachine",
        "metadata": {
            "name": new.name,
            "namespace": namespace,
            "labels": { GROUP_LABEL: group.name },
            "annotations": { CREATED: mark(&new.name, new.bios_uuid) },
        },
        "spec": {
            "biosUUID": bios_uuid,
            "className": shape.class_name,
            "imageName": shape.image_name,
            "storageClass": shape.storage_class,
            "powerState": "PoweredOn",
            "powerOffMode": shape.power_off_mode.as_str(),
            "bootstrap": { "cloudInit": { "rawCloudConfig": {
                "name": bootstrap.0,
                "key": bootstrap.1,
            } } },
        },
    });
    if let Some(policy) = &shape.resource_policy_name {
        object["spec"]["reserved"] = json!({ "resourcePolicyName": policy });
    }
    if let Some(zone) = &shape.zone {
        object["metadata"]["labels"][ZONE_LABEL] = zone.as_str().into();
    }
    if let Some(until) = new.held_until {
        object["metadata"]["annotations"][PAUSED] = "".into();
        object["metadata"]["annotations"][HELD_UNTIL] = until.to_string().into();
    }
    object
}
