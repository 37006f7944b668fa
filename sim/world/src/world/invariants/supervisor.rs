//! Invariants of every Supervisor: of its object store, of the machines and the status of its
//! VirtualMachine objects, and of the pending steps of VM Operator.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::act::Execution;
use crate::objects::{Key, Store};
use crate::reactions::Reaction;
use crate::state::State;
use crate::supervisor::vmoperator;

/// Returns every violated invariant of a world's Supervisor; empty in a world without a Supervisor.
pub(super) fn violations(state: &State) -> Vec<String> {
    let mut found = Vec::new();
    if state.supervisor.exists() {
        store_violations(&state.supervisor.objects, &mut found);
        binding_violations(state, &mut found);
        reaction_violations(state, &mut found);
        step_violations(state, &mut found);
    }
    found
}

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}

/// Checks that every object has a revision, that no revision is above the store's counter, that
/// custom objects do not share revisions, and that every custom object with a deletion timestamp
/// has a finalizer.
fn store_violations(store: &Store, found: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for def in store.resources() {
        for object in store.all(&def.id) {
            let name = format!("{} {}", def.id, text(object, "/metadata/name").unwrap_or_default());
            let revision: Option<u64> =
                text(object, "/metadata/resourceVersion").and_then(|it| it.parse().ok());
            match revision {
                None => found.push(format!("{name} has no revision")),
                Some(revision) if revision > store.revision() => {
                    found.push(format!("{name} has revision {revision}, above the counter"));
                }
                Some(revision) if !seen.insert(revision) && def.custom.is_some() => {
                    found.push(format!("{name} shares revision {revision} with another object"));
                }
                Some(_) => {}
            }
            let is_held =
                object["metadata"]["finalizers"].as_array().is_some_and(|it| !it.is_empty());
            if def.custom.is_some()
                && text(object, "/metadata/deletionTimestamp").is_some()
                && !is_held
            {
                found.push(format!("{name} has a deletion timestamp but no finalizer"));
            }
        }
    }
}

/// Checks that no machine belongs to two VirtualMachine objects, that an object with a machine has
/// VM Operator's finalizer, and that the index agrees with the objects.
fn binding_violations(state: &State, found: &mut Vec<String>) {
    let mut scanned: BTreeMap<&str, String> = BTreeMap::new();
    let machines = vmoperator::machines();
    for object in state.supervisor.objects.all(&machines) {
        let path = path_of(object);
        let Some(id) = text(object, "/status/uniqueID") else { continue };
        if let Some(other) = scanned.insert(id, path.clone()) {
            found.push(format!("{id} belongs to {other} and to {path}"));
        }
        if !vmoperator::has_finalizer(object) {
            found.push(format!("{path} has a machine but no finalizer of VM Operator"));
        }
    }
    let scanned: BTreeMap<String, String> =
        scanned.into_iter().map(|(id, path)| (id.to_owned(), path)).collect();
    if scanned != *state.supervisor.indexed() {
        found.push("the index of machines differs from the VirtualMachine objects".to_owned());
    }
}

/// Checks that the steps that the Supervisor has noted as pending are exactly those of the
/// scheduled and held reactions, at most one per object.
fn reaction_violations(state: &State, found: &mut Vec<String>) {
    let timers = state.timers.iter().map(|((at, id), it)| (Some(*at), *id, it));
    let held = state.held.iter().map(|(id, (_, it))| (None, *id, it));
    let mut coming: BTreeMap<&str, _> = BTreeMap::new();
    for (at, id, reaction) in timers.chain(held) {
        if let Reaction::VirtualMachine { path, step } = reaction
            && coming.insert(path.as_str(), (*step, at, id)).is_some()
        {
            found.push(format!("{path} has two pending steps"));
        }
    }
    let noted: BTreeMap<&str, _> = state
        .supervisor
        .all_pending()
        .map(|(path, pending)| (path, (pending.step, pending.at, pending.id)))
        .collect();
    if noted != coming {
        found.push(format!("pending steps {noted:?} differ from the queued ones {coming:?}"));
    }
}

/// Checks that a step is pending for every object for which VM Operator must do one. Also checks
/// that the status of an object without a pending step agrees with vCenter, if VM Operator
/// reconciles the object.
fn step_violations(state: &State, found: &mut Vec<String>) {
    let mut copy = state.clone();
    let now = state.latest;
    let act = Execution::new(&mut copy, now);
    let machines = vmoperator::machines();
    for object in state.supervisor.objects.all(&machines) {
        let path = path_of(object);
        let pending = state.supervisor.pending(&path).map(|it| it.step);
        let due = act.next_step(&path);
        if due.is_some() && pending.is_none() {
            found.push(format!("step {due:?} of {path} is due but not pending"));
        }
        let is_watched = state.supervisor.operator.reconciles && vmoperator::is_reconciled(object);
        if is_watched && pending.is_none() {
            status_violations(state, object, &path, found);
        }
    }
}

/// Checks that the BIOS UUID and the power state in the status of an object are those of its
/// machine.
fn status_violations(state: &State, object: &Value, path: &str, found: &mut Vec<String>) {
    let Some(vcenter) = state.vcenters.get(&state.supervisor.vcenter) else { return };
    let id = text(object, "/status/uniqueID").and_then(crate::vcenter::MoRef::parse);
    let Some(machine) = id.and_then(|id| vcenter.inventory.machine(id)) else { return };
    let uuid = machine.config.uuid.map(|uuid| uuid.to_string());
    let shown = text(object, "/status/biosUUID").map(str::to_lowercase);
    if uuid != shown {
        found.push(format!("{path} has the UUID {shown:?} in its status, its machine {uuid:?}"));
    }
    let power = vmoperator::power_text(machine.power);
    if text(object, "/status/powerState") != Some(power) {
        found.push(format!("the status of {path} does not have its machine's power {power}"));
    }
}

fn path_of(object: &Value) -> String {
    let name = |field| text(object, field).unwrap_or_default();
    Key::new(vmoperator::machines(), name("/metadata/namespace"), name("/metadata/name")).path()
}
