//! Tests of kubelets. They check the Nodes and leases in the workload cluster.

use std::time::Duration;

use serde_json::Value;

use crate::kubelet::{GRACE_PERIOD, LEASE_PERIOD};
use crate::objects::{Command as Write, GroupResource, Key};
use crate::{Command, Nodes, Time, Topology, World};

const NODE: &str = "node-0001";
const WAITS: &str = "node.cloudprovider.kubernetes.io/uninitialized:NoSchedule";

/// A world with one machine, whose kubelet registers at the start.
fn lab() -> World {
    let topology = Topology::default().machines(1).nodes(Nodes::All);
    topology.build("2026-03-01T08:00:00Z".parse().unwrap(), 7)
}

fn at(seconds: u64) -> Time {
    Time::after_start(Duration::from_secs(seconds))
}

fn node(world: &World) -> &Value {
    world.cluster.get(&Key::node(NODE)).expect("the Node exists")
}

fn lease(world: &World) -> Option<&Value> {
    let leases = GroupResource::of("coordination.k8s.io", "leases");
    world.cluster.get(&Key::new(leases, "kube-node-lease", NODE)).map(|lease| &**lease)
}

fn ready(world: &World) -> (&str, &str) {
    let conditions = node(world)["status"]["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|it| it["type"] == "Ready").unwrap();
    (ready["status"].as_str().unwrap(), ready["reason"].as_str().unwrap())
}

fn taints(world: &World) -> Vec<String> {
    let taint =
        |it: &Value| format!("{}:{}", it["key"].as_str().unwrap(), it["effect"].as_str().unwrap());
    node(world)["spec"]["taints"].as_array().into_iter().flatten().map(taint).collect()
}

fn apply(world: &mut World, seconds: u64, command: Command) {
    world.apply(at(seconds), command).expect("the world accepts the command");
}

#[test]
fn a_started_kubelet_registers_a_tainted_node() {
    insta::assert_json_snapshot!(node(&lab()));
}

#[test]
fn a_stopped_kubelet_makes_its_node_unreachable_until_the_next_start() {
    let mut world = lab();
    apply(&mut world, 3, Command::StopKubelet(NODE.into()));
    let noticed = at(3) + GRACE_PERIOD;
    world.advance(at(3) + (GRACE_PERIOD - Duration::from_millis(1)));
    assert_eq!(ready(&world), ("True", "KubeletReady"), "the grace period has not ended");
    world.advance(noticed);
    assert_eq!(ready(&world), ("Unknown", "NodeStatusUnknown"));
    let unreachable = ["NoSchedule", "NoExecute"]
        .map(|effect| format!("node.kubernetes.io/unreachable:{effect}"));
    assert_eq!(taints(&world), [WAITS, &unreachable[0], &unreachable[1]]);
    world.advance(at(3600));
    assert_eq!(ready(&world), ("Unknown", "NodeStatusUnknown"), "it stays Unknown");

    apply(&mut world, 3605, Command::StartKubelet(NODE.into()));
    assert_eq!(ready(&world), ("True", "KubeletReady"));
    assert_eq!(taints(&world), [WAITS]);
}

#[test]
fn a_pause_shorter_than_the_grace_period_goes_unnoticed() {
    let mut world = lab();
    apply(&mut world, 3, Command::StopKubelet(NODE.into()));
    apply(&mut world, 4, Command::StartKubelet(NODE.into()));
    world.advance(at(4) + GRACE_PERIOD);
    assert_eq!(ready(&world), ("True", "KubeletReady"));
}

#[test]
fn the_lease_is_renewed_while_the_kubelet_runs() {
    let mut world = lab();
    let before = node(&world)["metadata"]["resourceVersion"].clone();
    world.advance(Time::ZERO + LEASE_PERIOD * 3);
    assert_eq!(lease(&world).unwrap()["spec"]["renewTime"], "2026-03-01T08:00:30.000000Z");
    assert_eq!(node(&world)["metadata"]["resourceVersion"], before, "leases do not change Nodes");
    world.advance(Time::ZERO + LEASE_PERIOD * 30);
    assert_ne!(
        node(&world)["metadata"]["resourceVersion"],
        before,
        "the status report comes with the 30th renewal"
    );
}

#[test]
fn a_deleted_node_stays_deleted_until_its_kubelet_starts_again() {
    let mut world = lab();
    apply(&mut world, 1, Command::Cluster(Write::delete(Key::node(NODE))));
    world.advance(at(3600));
    assert_eq!(world.cluster.get(&Key::node(NODE)), None);
    assert_eq!(lease(&world), None);
    apply(&mut world, 3600, Command::StartKubelet(NODE.into()));
    assert_eq!(ready(&world).0, "True");
}

#[test]
fn the_lease_of_a_node_without_a_machine_is_deleted_with_the_node() {
    let mut world = lab();
    apply(&mut world, 3, Command::DeleteMachine(NODE.into()));
    world.advance(at(120));
    assert!(lease(&world).is_some(), "the Node still exists");
    apply(&mut world, 120, Command::Cluster(Write::delete(Key::node(NODE))));
    assert_eq!(lease(&world), None);
}

#[test]
fn a_restore_brings_lost_objects_back_at_their_old_versions() {
    let mut world = lab();
    let refused = world.apply(at(1), Command::RestoreCluster).unwrap_err();
    assert!(refused.to_string().contains("cluster.backUp"), "{refused}");
    apply(&mut world, 2, Command::BackUpCluster);
    let before = world.cluster.clone();
    let uid = node(&world)["metadata"]["uid"].clone();
    apply(&mut world, 3, Command::DeleteMachine(NODE.into()));
    apply(&mut world, 4, Command::Cluster(Write::delete(Key::node(NODE))));
    assert!(world.cluster.get(&Key::node(NODE)).is_none());

    apply(&mut world, 5, Command::RestoreCluster);
    assert_eq!(world.cluster.revision(), before.revision());
    assert_eq!(node(&world)["metadata"]["uid"], uid);
    assert_eq!(world.cluster.watches_ended(), before.watches_ended() + 1);
    assert_eq!(ready(&world), ("True", "KubeletReady"), "as in the backup");
    world.advance(at(5) + GRACE_PERIOD);
    assert_eq!(ready(&world).0, "Unknown", "no kubelet reports its status");
}

#[test]
fn a_node_lost_by_a_restore_registers_anew_with_another_uid() {
    let mut world = lab();
    apply(&mut world, 1, Command::Cluster(Write::delete(Key::node(NODE))));
    apply(&mut world, 2, Command::BackUpCluster);
    apply(&mut world, 3, Command::StopKubelet(NODE.into()));
    apply(&mut world, 4, Command::StartKubelet(NODE.into()));
    let uid = node(&world)["metadata"]["uid"].clone();
    apply(&mut world, 5, Command::RestoreCluster);
    assert!(world.cluster.get(&Key::node(NODE)).is_none(), "the backup does not contain it");
    apply(&mut world, 6, Command::StopKubelet(NODE.into()));
    apply(&mut world, 7, Command::StartKubelet(NODE.into()));
    assert_ne!(node(&world)["metadata"]["uid"], uid);
}
