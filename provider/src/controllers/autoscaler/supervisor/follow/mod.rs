//! Keeps the view of the VirtualMachines of all groups current.

use provider_vcenter::Jitter;
use serde_json::Value;

use super::{Shared, machine::Machine};
use crate::cluster::{self, Collection, ObjectChange, ObjectView};

/// Keeps the view current, forever.
pub(super) async fn follow(shared: &Shared) {
    let machines = Collection {
        cluster: &shared.cluster,
        kind: "VirtualMachine",
        path: shared.machines_path(),
        selector: shared.selector(),
    };
    cluster::follow(&machines, shared, Jitter::new(shared.seed, "autoscaler/machines")).await;
}

impl ObjectView for Shared {
    type Object = Machine;
    /// UIDs of the machines in the view.
    type Before = Vec<String>;

    fn read(&self, object: &Value) -> Option<Machine> {
        Machine::read(object)
    }

    fn before_list(&self) -> Vec<String> {
        self.view.lock().expect("no holder panics").uids()
    }

    fn listed(&self, machines: Vec<Machine>, known_before: Vec<String>, version: &str) {
        let mut view = self.view.lock().expect("no holder panics");
        view.replace(machines, &known_before, version);
    }

    fn changed(&self, change: ObjectChange<'_>) {
        let mut view = self.view.lock().expect("no holder panics");
        match change {
            ObjectChange::Deleted(object) => view.remove(
                object["metadata"]["uid"].as_str().unwrap_or_default(),
                object["metadata"]["resourceVersion"].as_str(),
            ),
            ObjectChange::Applied(object) => {
                if let Some(machine) = Machine::read(object) {
                    view.apply(machine);
                }
            }
        }
    }

    fn confirmed(&self, version: &str) {
        self.mark_current(version);
    }
}

#[cfg(test)]
mod tests;
