//! Tests of pods whose Node does not exist.

use super::*;
use crate::Timing;
use crate::event::Event;
use crate::objects::Op;

fn uids(world: &World) -> Vec<String> {
    pods(world).iter().map(|pod| super::super::uid(pod).to_owned()).collect()
}

#[test]
fn a_node_that_is_registered_again_keeps_its_pods() {
    let mut world = lab();
    create(&mut world, 1, "replicasets.apps", "a", workload("800m", json!({"replicas": 2})));
    world.advance(at(5));
    let before = uids(&world);
    write(&mut world, 6, Write::delete(Key::node("node-0001")));
    world.advance(at(45));
    assert_eq!(uids(&world), before, "the pods stay for 40 s");
    write(&mut world, 45, Write::create("nodes", "", json!({"metadata": {"name": "node-0001"}})));
    world.advance(at(300));
    assert_eq!(uids(&world), before);
    write(&mut world, 301, Write::delete(Key::node("node-0001")));
    world.advance(at(340));
    assert_eq!(uids(&world), before, "the next absence counts anew");
    world.advance(at(350));
    assert_ne!(uids(&world), before);
    let nodes: Vec<&str> = pods(&world).iter().map(|pod| text(pod, "/spec/nodeName")).collect();
    assert_eq!(nodes, ["node-0002", "node-0002"]);
}

/// A ReplicaSet whose pods name a Node that does not exist makes a pod every 40 s.
#[test]
fn pods_for_a_missing_node_are_replaced_at_a_bounded_rate() {
    for timing in [Timing::default(), Timing::immediate()] {
        let mut topology = Topology::default().machines(2).workloads();
        topology.timing = timing.clone();
        let mut world = lab_of(topology);
        let mut spec = workload("100m", json!({"replicas": 1}));
        spec["template"]["spec"]["nodeName"] = "missing".into();
        create(&mut world, 1, "replicasets.apps", "a", spec);
        let events = world.advance(at(3600));
        let is_new_pod = |event: &&Event| match event {
            Event::Cluster(event) => {
                event.op == Op::Added && event.key.resource == GroupResource::core("pods")
            }
            _ => false,
        };
        let n_made = events.iter().filter(is_new_pod).count();
        assert!((80..=90).contains(&n_made), "{n_made} pods with {timing:?}");
        assert_eq!(pods(&world).len(), 1);
    }
}

#[test]
fn a_lost_pod_with_a_finalizer_is_marked_once() {
    let mut world = lab();
    let mut object = json!({"metadata": {"name": "p", "finalizers": ["example.com/held"]}});
    object["spec"] = json!({"nodeName": "missing", "containers": [{"name": "c", "image": "i"}]});
    write(&mut world, 1, Write::create("pods", "default", object));
    world.advance(at(60));
    let pod = get(&world, "pods", "p").clone();
    assert_eq!(text(&pod, "/status/phase"), "Failed");
    assert!(super::super::has_condition(&pod, "DisruptionTarget"), "{pod}");
    world.advance(at(3600));
    assert_eq!(get(&world, "pods", "p"), &pod);
}
