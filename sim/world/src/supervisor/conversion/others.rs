//! Kinds with few differences between versions: services, classes, policies and groups.

use serde_json::{Value, json};

use super::Kind;
use super::document::{Document, list, text, value_at};
use super::restore::Rule::Take;
use super::restore::{Dated, restore};

/// VirtualMachineClass, whose fields have the same names and meanings in all versions. The other
/// kinds here differ from it in some functions.
pub(super) const CLASS: Kind = Kind {
    name: "VirtualMachineClass",
    down: |_, _, _| {},
    up: |_, _, _| {},
    restore: None,
    unrestored: |_, _| {},
};

pub(super) const SERVICE: Kind = Kind {
    name: "VirtualMachineService",
    restore: Some(|object, kept, version| restore(object, kept, version, SERVICE_RESTORED)),
    ..CLASS
};

pub(super) const GROUP: Kind =
    Kind { name: "VirtualMachineGroup", restore: Some(restore_group), ..CLASS };

pub(super) const POLICY: Kind =
    Kind { name: "VirtualMachineSetResourcePolicy", down: lower_policy, up: raise_policy, ..CLASS };

const SERVICE_RESTORED: &[Dated] =
    &[(1, 5, Take("/spec", &["ipFamilies", "ipFamilyPolicy"])), (1, 5, Take("", &["status"]))];

/// Restores the `powerOffDelay` of each step of a group. Matches the steps by position, because
/// they have no names.
fn restore_group(object: &mut Document, kept: &Value, _: u8) {
    for (step, kept) in object.elements("/spec/bootOrder").zip(list(kept, "/spec/bootOrder")) {
        let mut whole = Document(step.take());
        whole.put_found("/powerOffDelay", value_at(kept, "/powerOffDelay"));
        *step = whole.0;
    }
}

fn lower_policy(hub: &Value, spoke: &mut Document, version: u8) {
    if version > 1 {
        return;
    }
    spoke.put_found("/spec/resourcepool", value_at(hub, "/spec/resourcePool"));
    spoke.put("/spec/folder", json!({"name": text(hub, "/spec/folder")}));
    let groups = list(hub, "/spec/clusterModuleGroups").iter().map(|it| json!({"groupname": it}));
    spoke.put("/spec/clustermodules", groups.collect::<Vec<_>>());
    for module in spoke.elements("/status/clustermodules") {
        module["groupname"] = text(module, "/groupName").into();
    }
}

fn raise_policy(spoke: &Value, hub: &mut Document, version: u8) {
    if version > 1 {
        return;
    }
    hub.put_found("/spec/resourcePool", value_at(spoke, "/spec/resourcepool"));
    hub.put("/spec/folder", text(spoke, "/spec/folder/name"));
    let groups = list(spoke, "/spec/clustermodules").iter().map(|it| text(it, "/groupname"));
    hub.put("/spec/clusterModuleGroups", groups.collect::<Vec<_>>());
    for module in hub.elements("/status/clustermodules") {
        module["groupName"] = text(module, "/groupname").into();
    }
}
