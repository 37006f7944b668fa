//! Checks the metrics of the view of a Supervisor's machines: the number of machines and the number
//! of UUIDs that several machines share.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use sim::world::Event;
use sim::world::objects::Op;
use sim::world::supervisor::Supervisor;

use super::ScrapedReplica;
use crate::scenario::virtual_machines;

/// Minimum time without a change of machines after which a scrape must show the right numbers.
const QUIET: Duration = Duration::from_secs(10);
const MACHINES: &str = "vsphere_supervisor_machines";
const DUPLICATES: &str = "vsphere_supervisor_duplicate_uuids";

impl ScrapedReplica<'_> {
    /// Compares the numbers of a fresh view with all machines of the Supervisor, once [`QUIET`] has
    /// passed since the last change. Compares them only in a calm scenario and after a list of the
    /// replica.
    pub(super) fn supervisor_machines(&self) -> Vec<String> {
        let mut said = Vec::new();
        let is_fresh = self.sum("vsphere_supervisor_view_state", &[("state", "fresh")]) == 1.0;
        let at = self.scrape.at;
        let machines = virtual_machines();
        let uuid = |object: &Value| {
            object.pointer("/status/biosUUID")?.as_str().map(str::to_ascii_lowercase)
        };
        let all = |supervisor: &Supervisor| -> BTreeMap<String, Option<String>> {
            let objects = supervisor.objects.all(&machines);
            let name =
                |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            objects.map(|object| (name(object), uuid(object))).collect()
        };
        let mut there =
            self.run.log.base().map_or_else(BTreeMap::new, |base| all(&base.supervisor));
        let mut changed = None;
        for (when, event) in self.run.log.entries().take_while(|(when, _)| *when < at) {
            match event {
                Event::SupervisorFounded(supervisor) => there = all(supervisor),
                Event::Supervisor(event) if event.key.resource == machines => {
                    let name = event.key.name.clone();
                    if event.op == Op::Deleted {
                        there.remove(&name);
                    } else {
                        there.insert(name, uuid(&event.object));
                    }
                }
                _ => continue,
            }
            changed = Some(*when);
        }
        let is_quiet = changed.is_none_or(|changed| at.since(changed) >= QUIET);
        let has_listed = self.calls.iter().any(|call| {
            call.op == "list virtualmachines" && call.ended.as_ref().is_some_and(|it| it.at < at)
        });
        if !(is_fresh && is_quiet && has_listed && self.is_calm) {
            return said;
        }
        let mut by_uuid: BTreeMap<&str, usize> = BTreeMap::new();
        for uuid in there.values().flatten() {
            *by_uuid.entry(uuid).or_default() += 1;
        }
        let n_shared = by_uuid.values().filter(|n| **n > 1).count();
        for (metric, wanted) in [(MACHINES, there.len()), (DUPLICATES, n_shared)] {
            let counted = self.sum(metric, &[]);
            let wanted = f64::from(u32::try_from(wanted).unwrap_or(u32::MAX));
            if counted != wanted {
                said.push(format!(
                    "{metric} is {counted}, but the true number has been {wanted} for 10 s"
                ));
            }
        }
        said
    }
}
