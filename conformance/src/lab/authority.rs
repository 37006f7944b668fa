//! Who acts in Supervisor mode: power and deletion go through the VirtualMachine object.
//!
//! What is done to a machine in vCenter, behind VM Operator's back, is undone or only told of; that is a
//! scenario of its own, and names the object store or vCenter itself.

use serde_json::{Value, json};
use sim::world::objects::{self, GroupResource, Key, PatchKind};
use sim::world::{Command, Named, State};

/// The command as an administrator of the Supervisor would give it.
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
        other => other.clone(),
    }
}

fn edit(machine: &Named, state: &State, patch: Value) -> Command {
    Command::Supervisor(objects::Command::patch(key(machine, state), PatchKind::Merge, patch))
}

fn key(machine: &Named, state: &State) -> Key {
    let machines = GroupResource::of("vmoperator.vmware.com", "virtualmachines");
    Key::new(machines, state.supervisor.namespace.clone(), machine.name.clone())
}
