//! Nodes beside their machines at the end of a run, as lines for people.

use crate::lab::Run;
use crate::lab::facts::{facts, machine_of, reported};

/// Returns one line per Node that compares the Node with its machine at the end of the run. If the
/// run has twelve Nodes or more, returns the lines of the first twelve, and a line with only `…`.
pub fn truth(run: &Run) -> Vec<String> {
    let nodes = sim::world::objects::GroupResource::core("nodes");
    let mut lines = Vec::new();
    for node in run.end.cluster.all(&nodes) {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let seen = facts(node);
        let truth = match machine_of(&run.end, name) {
            None => "none".to_owned(),
            Some((vcenter, id, machine)) => {
                let state = machine.connection.as_str();
                let addresses = reported(machine);
                format!("{vcenter}/{id} {} {state} {addresses:?}", machine.power.as_str())
            }
        };
        let ips: Vec<&str> = seen.ips().collect();
        lines.push(format!(
            "{name}: machine {truth}; Node Ready={} taints={:?} addresses={ips:?}",
            seen.ready, seen.taints
        ));
        if lines.len() == 12 {
            lines.push("…".to_owned());
            break;
        }
    }
    lines
}
