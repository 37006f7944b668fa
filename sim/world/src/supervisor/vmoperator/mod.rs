//! Decisions of VM Operator, which creates machines from VirtualMachine objects and writes the
//! machines' state in vCenter into the objects' status.
//!
//! The functions are pure: from an object and its machine they return the next step and the wanted
//! status. `act/vmoperator/mod.rs` carries the steps out. Objects have the stored version,
//! `v1alpha6`. Follows `vm-operator: controllers/virtualmachine/virtualmachine,
//! pkg/providers/vsphere/vmlifecycle/update_status.go`.

mod admission;
mod conditions;
mod status;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub(crate) use admission::ADMISSION;
pub(crate) use conditions::{Missing, Prerequisites};
pub(crate) use status::status;

use crate::objects::{GroupResource, Outage};
use crate::reactions::Step;
use crate::vcenter::{Machine, MoRef, Power, VCenter};

/// The API group of VM Operator's kinds.
pub(crate) const GROUP: &str = "vmoperator.vmware.com";
/// The error with which the API server's calls of VM Operator's webhooks fail while these do not
/// answer.
pub const OUTAGE: Outage = Outage {
    service: "https://vmware-system-vmop-webhook-service.vmware-system-vmop.svc:443",
    why: "dial tcp 10.96.0.45:443: connect: connection refused",
};
/// The finalizer that holds an object until its machine is destroyed.
pub(crate) const FINALIZER: &str = "vmoperator.vmware.com/virtualmachine";
/// Annotation that makes VM Operator ignore the object.
const PAUSED: &str = "vmoperator.vmware.com/paused";
/// Prefix of annotations. While an object has such an annotation, VM Operator does not delete its
/// machine.
const DELETE_CHECK: &str = "delete.check.vmoperator.vmware.com/";
/// Annotation that VM Operator adds when it powers a machine on for the first time.
pub(crate) const FIRST_BOOT_DONE: &str = "virtualmachine.vmoperator.vmware.com/first-boot-done";
/// Label with the wanted zone of a machine, and later with its actual zone.
pub(crate) const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// The resource of VirtualMachines.
pub(crate) fn machines() -> GroupResource {
    GroupResource::of(GROUP, "virtualmachines")
}

/// The resource of a Supervisor's zones. Each zone consists of clusters of the vCenter.
pub(crate) fn zones() -> GroupResource {
    GroupResource::of("topology.tanzu.vmware.com", "availabilityzones")
}

/// The machine in vCenter that belongs to a VirtualMachine.
#[derive(Clone, Copy)]
pub(crate) struct MachineInVCenter<'a> {
    pub(crate) vcenter: &'a VCenter,
    pub(crate) id: MoRef,
    pub(crate) machine: &'a Machine,
    /// Name of the zone of the machine's host; empty if no zone contains the host.
    pub(crate) zone: &'a str,
}

/// The next step of VM Operator for an object; `None` if VM Operator has nothing to do. `found` is
/// the object's machine, if vCenter has it. `wanted` is the status that the object should have now,
/// and `tells_zones` says whether VM Operator reports zones.
pub(crate) fn next(
    object: &Value,
    found: Option<MachineInVCenter<'_>>,
    wanted: &Value,
    tells_zones: bool,
) -> Option<Step> {
    if is_paused(object) {
        return None;
    }
    if object["metadata"]["deletionTimestamp"].is_string() {
        return (has_finalizer(object) && !is_delete_checked(object)).then_some(Step::VmDeleted);
    }
    if !has_finalizer(object) {
        return Some(Step::VmAccepted);
    }
    let is_told = object["status"] == *wanted && !(tells_zones && lacks_zone_label(object));
    let is_made = is_text(&object["status"]["uniqueID"]);
    match found {
        None if is_made => (!is_told).then_some(Step::VmStatus),
        None if !is_told => Some(Step::VmPrerequisites),
        None => conditions::are_met(object).then_some(Step::VmCreated),
        Some(_) if !is_text(&object["status"]["biosUUID"]) && !is_told => Some(Step::VmIdentified),
        Some(found) if wanted_power(object).is_some_and(|wanted| wanted != found.machine.power) => {
            Some(Step::VmPower)
        }
        Some(_) => (!is_told).then_some(Step::VmStatus),
    }
}

/// The power state in the object's `spec.powerState`; `None` if it is absent or unknown.
pub(crate) fn wanted_power(object: &Value) -> Option<Power> {
    match object["spec"]["powerState"].as_str()? {
        "PoweredOn" => Some(Power::PoweredOn),
        "PoweredOff" => Some(Power::PoweredOff),
        "Suspended" => Some(Power::Suspended),
        _ => None,
    }
}

/// The text of a power state in `v1alpha6`, the stored version.
pub(crate) fn power_text(power: Power) -> &'static str {
    match power {
        Power::PoweredOn => "PoweredOn",
        Power::PoweredOff => "PoweredOff",
        Power::Suspended => "Suspended",
    }
}

/// True if the status has a zone and the zone label is missing or names another zone.
fn lacks_zone_label(object: &Value) -> bool {
    let zone = &object["status"]["zone"];
    is_text(zone) && object["metadata"]["labels"][ZONE_LABEL] != *zone
}

/// True if the object is neither paused nor being deleted.
pub(crate) fn is_reconciled(object: &Value) -> bool {
    !is_paused(object) && !object["metadata"]["deletionTimestamp"].is_string()
}

/// True if the object has VM Operator's finalizer.
pub(crate) fn has_finalizer(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| all.iter().any(|it| it == FINALIZER))
}

fn is_paused(object: &Value) -> bool {
    !object["metadata"]["annotations"][PAUSED].is_null()
}

fn is_delete_checked(object: &Value) -> bool {
    let annotations = object["metadata"]["annotations"].as_object();
    annotations.is_some_and(|all| all.keys().any(|name| name.starts_with(DELETE_CHECK)))
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}
