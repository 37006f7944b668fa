//! Finds the cases that only the built-in API server can play.

use sim::Face;
use sim::faults::{Action, Rule, needs_cluster_handler};
use sim::world::{Command, ControlPlane};

use super::resources::Resource;
use crate::scenario::{Act, Scenario};

/// Returns the name of the first command or rule action that only the built-in API server can carry
/// out, or a text about the first object that is not mirrored. Returns `None` if a real API server
/// can play the whole scenario.
pub(in crate::foreign) fn needs_built_in(scenario: &Scenario) -> Option<String> {
    scenario.timeline.iter().find_map(|step| match &step.act {
        Act::Fault(rule) => of_rule(rule),
        Act::World(command) => of_command(command),
        _ => None,
    })
}

fn of_rule(rule: &Rule) -> Option<String> {
    let elsewhere = |face: Face| face != Face::Cluster;
    let other = |server: &String| server != sim::CLUSTER;
    if rule.matcher.protocol.is_some_and(elsewhere)
        || rule.matcher.server.as_ref().is_some_and(other)
    {
        return None;
    }
    rule.actions.iter().find_map(|action| needs_cluster_handler(action).then(|| name(action)))
}

/// Returns the name of an action as a rule file writes it, such as `hide`.
fn name(action: &Action) -> String {
    match serde_json::to_value(action) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(serde_json::Value::Object(one)) => one.keys().next().cloned().unwrap_or_default(),
        _ => "a rule".to_owned(),
    }
}

fn of_command(command: &Command) -> Option<String> {
    match command {
        Command::CompactCluster { plane: ControlPlane::Workload, .. } => {
            Some("cluster.compact".to_owned())
        }
        Command::EndWatches { plane: ControlPlane::Workload } => {
            Some("cluster.endWatches".to_owned())
        }
        Command::BackUpCluster => Some("cluster.backUp".to_owned()),
        Command::RestoreCluster => Some("cluster.restore".to_owned()),
        Command::Cluster(command) if Resource::find(&command.key.resource).is_none() => {
            Some(format!("objects of {} are not mirrored", command.key.resource))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sim::world::Topology;

    use super::*;

    fn need_of(act: impl Into<Act>) -> Option<String> {
        let scenario = Scenario::new("", Topology::zones(3), Duration::from_secs(1));
        needs_built_in(&scenario.at(Duration::ZERO, act))
    }

    #[test]
    fn an_act_that_alters_answers_of_the_cluster_needs_the_built_in_server() {
        let silent = || Rule::new("r", [Action::WatchSilent]);
        let plane = ControlPlane::Supervisor;
        for (name, act, want) in [
            ("a watch of the cluster", Act::from(silent().on(Face::Cluster)), Some("watch.silent")),
            ("a watch at any face", silent().into(), Some("watch.silent")),
            ("a watch of the Supervisor", silent().on(Face::Supervisor).into(), None),
            (
                "hidden in vCenter",
                Rule::new("r", [Action::Hide("x".into())]).at("vc0").into(),
                None,
            ),
            (
                "hidden in the cluster",
                Rule::new("r", [Action::Reset, Action::Hide("x".into())]).at("cluster").into(),
                Some("hide"),
            ),
            ("a reset", Rule::new("r", [Action::Reset]).on(Face::Cluster).into(), None),
            ("a compaction", Command::CompactCluster { plane, keep: 0 }.into(), None),
            (
                "a compaction of the cluster",
                Command::CompactCluster { plane: ControlPlane::Workload, keep: 0 }.into(),
                Some("cluster.compact"),
            ),
        ] {
            assert_eq!(need_of(act).as_deref(), want, "{name}");
        }
    }
}
