//! Redirects commands in Supervisor mode: power changes, deletion and creation of a machine go
//! through its VirtualMachine object.
//!
//! If a person changes a machine in vCenter directly, VM Operator undoes the change or only reports
//! it. Scenarios about such changes use commands that this module returns unchanged.

use serde_json::{Value, json};
use sim::world::objects::{self, Key, PatchKind};
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Named, State};

use crate::scenario::virtual_machines;

/// Returns the command with which an administrator of the Supervisor has the same effect. Returns a
/// command without an equivalent unchanged, and also a creation if the Supervisor has no
/// VirtualMachine object on which to model the new one.
pub(super) fn through_the_object(command: &Command, state: &State) -> Command {
    let power =
        |machine: &Named, to: &str| edit(machine, state, json!({"spec": {"powerState": to}}));
    match command {
        Command::PowerOn(machine) => power(machine, "PoweredOn"),
        Command::PowerOff(machine) => power(machine, "PoweredOff"),
        Command::Suspend(machine) => power(machine, "Suspended"),
        Command::DeleteMachine(machine) => {
            Command::Supervisor(objects::Command::delete(key(machine, state)))
        }
        Command::CreateMachine { spec, cluster, power_on, kubelet, .. } => {
            let Some(like) = state.supervisor.objects.all(&virtual_machines()).next() else {
                return command.clone();
            };
            let object = another(like, spec, cluster.as_deref(), *power_on, *kubelet);
            let namespace = state.supervisor.namespace.clone();
            Command::Supervisor(objects::Command::create(virtual_machines(), namespace, object))
        }
        other => other.clone(),
    }
}

fn edit(machine: &Named, state: &State, patch: Value) -> Command {
    Command::Supervisor(objects::Command::patch(key(machine, state), PatchKind::Merge, patch))
}

fn key(machine: &Named, state: &State) -> Key {
    Key::new(virtual_machines(), state.supervisor.namespace.clone(), machine.name.clone())
}

/// Returns a VirtualMachine object for a new machine with these settings, modeled on the existing
/// object `like`.
fn another(
    like: &Value,
    spec: &MachineSpec,
    cluster: Option<&str>,
    power_on: bool,
    kubelet: bool,
) -> Value {
    let mut labels = like["metadata"]["labels"].clone();
    let labels_of = labels.as_object_mut();
    if let Some(labels) = labels_of {
        labels.remove(ZONE);
        if let Some(zone) = cluster.and_then(zone_of) {
            labels.insert(ZONE.to_owned(), zone.into());
        }
        if !kubelet {
            labels.retain(|key, _| !key.ends_with("/cluster.role"));
        }
    }
    // Identity and network belong to the existing object and are not copied.
    let mut desired = json!({});
    for field in ["className", "image", "imageName", "storageClass", "powerOffMode"] {
        desired[field] = like["spec"][field].clone();
    }
    desired["powerState"] = if power_on { "PoweredOn" } else { "PoweredOff" }.into();
    if let Some(uuid) = spec.uuid {
        desired["biosUUID"] = uuid.to_string().into();
    }
    json!({
        "apiVersion": like["apiVersion"],
        "kind": "VirtualMachine",
        "metadata": {"name": spec.name, "labels": labels},
        "spec": desired,
    })
}

const ZONE: &str = "topology.kubernetes.io/zone";

/// Returns the zone of a generated cluster: `zone-a` for `DC0_C0`; `None` for another name.
fn zone_of(cluster: &str) -> Option<String> {
    let n: u8 = cluster.strip_prefix("DC0_C")?.parse().ok()?;
    Some(format!("zone-{}", char::from(b'a' + n)))
}
