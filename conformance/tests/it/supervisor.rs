//! Tests our provider with a Supervisor, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use conformance::judge::facts;
use conformance::lab::{Mode, Run, Stage, run};
use conformance::scenario::{Act, Scenario};
use provider::InstancesMode;
use sim::Face;
use sim::world::objects::Key;
use sim::world::{Command, Topology};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn scenario(n: u32, horizon: Duration) -> Scenario {
    let scenario = Scenario::new("supervisor", Topology::zones(3).machines(n), horizon);
    scenario.at(s(0), Command::SetHeartbeats { every: None })
}

fn play(scenario: &Scenario, mode: InstancesMode) -> Run {
    run(scenario, &Stage { mode: Mode::Supervisor(mode), ..Stage::default() })
}

/// Returns the number of calls to the Supervisor in a phase, by operation.
fn calls(run: &Run, phase: &str) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for call in run.calls_in(phase).filter(|call| call.face == Some(Face::Supervisor)) {
        *all.entry(call.op.clone()).or_default() += 1;
    }
    all
}

fn table(calls: &[(&str, usize)]) -> BTreeMap<String, usize> {
    let long = |name: &str| format!("{name} virtualmachines");
    calls.iter().map(|(name, n)| (long(name), *n)).collect()
}

fn node<'a>(run: &'a Run, name: &str) -> Option<&'a serde_json::Value> {
    run.end.cluster.get(&Key::node(name)).map(|node| &**node)
}

#[test]
fn a_fleet_joins_with_one_list_and_one_watch() {
    for n in [10, 100] {
        let scenario = scenario(n, s(120)).at(s(0), Act::Phase("join".into()));
        let run = play(&scenario, InstancesMode::Auto);
        let left = run
            .end
            .kubelets
            .keys()
            .filter(|name| node(&run, name).is_none_or(|node| facts(node).uninitialized));
        assert_eq!(left.count(), 0, "{n} nodes: {}", run.logs);
        assert_eq!(calls(&run, "join"), table(&[("list", 1), ("watch", 1)]), "{n} nodes");
    }
}

#[test]
fn an_idle_fleet_causes_no_reads_from_the_supervisor() {
    let scenario = scenario(20, s(900)).at(s(310), Act::Phase("steady".into()));
    let run = play(&scenario, InstancesMode::Auto);
    assert!(
        run.end
            .kubelets
            .keys()
            .all(|name| { node(&run, name).is_some_and(|node| !facts(node).uninitialized) })
    );
    let steady = calls(&run, "steady");
    let reads = steady.iter().filter(|(name, _)| !name.starts_with("watch"));
    assert_eq!(reads.count(), 0, "{steady:?}");
}

#[test]
fn a_powered_off_machine_taints_its_node_and_a_deleted_one_removes_its_node() {
    let scenario = scenario(10, s(600))
        .at(s(100), Command::PowerOff("node-0003".into()))
        .at(s(250), Act::Phase("delete".into()))
        .at(s(250), Command::DeleteMachine("node-0007".into()));
    let run = play(&scenario, InstancesMode::Auto);
    let off = node(&run, "node-0003").expect("a machine that is off exists");
    let taints = off["spec"]["taints"].as_array().expect("the node has taints");
    assert!(
        taints.iter().any(|taint| taint["key"] == "node.cloudprovider.kubernetes.io/shutdown"),
        "{off}"
    );
    assert!(node(&run, "node-0007").is_none(), "{}", run.logs);
    assert_eq!(calls(&run, "delete"), table(&[("get", 2), ("list", 1), ("watch", 1)]));
}

#[test]
fn polling_and_v1_lead_to_the_same_nodes() {
    let scenario = scenario(10, s(400)).at(s(100), Command::PowerOff("node-0003".into()));
    let nodes = |mode| {
        let run = play(&scenario, mode);
        let shown = |name: &String| {
            let node = node(&run, name).expect("the node exists");
            let [labels, provider_id, taints, addresses] =
                ["/metadata/labels", "/spec/providerID", "/spec/taints", "/status/addresses"]
                    .map(|it| node.pointer(it).cloned().unwrap_or_default());
            assert!(!facts(node).uninitialized, "{mode:?}: {}", run.logs);
            let taints = taints.as_array().into_iter().flatten();
            let keys: Vec<String> = taints.map(|taint| taint["key"].to_string()).collect();
            (name.clone(), labels, provider_id, keys, addresses)
        };
        run.end.kubelets.keys().map(shown).collect::<Vec<_>>()
    };
    let watched = nodes(InstancesMode::Auto);
    assert_eq!(nodes(InstancesMode::Poll), watched);
    assert_eq!(nodes(InstancesMode::V1), watched);
}
