//! Tests of the scheduler, the controllers and the pods in a world.

mod budgets;
mod jobs;
mod lost_nodes;
mod owners;
mod rollouts;

use std::time::Duration;

use serde_json::{Value, json};

use crate::objects::{
    Action, Command as Write, GroupResource, Key, PatchKind, Status, Subresource,
};
use crate::{Command, Completion, Fault, Outcome, Step, Time, Topology, World};

/// A world with two machines of 4 processors, whose Nodes the cloud provider has initialized.
fn lab() -> World {
    lab_of(Topology::default().machines(2).workloads())
}

fn lab_of(topology: Topology) -> World {
    let mut world = topology.build("2026-03-01T08:00:00Z".parse().unwrap(), 7);
    for node in ["node-0001", "node-0002"] {
        let patch = json!({"spec": {"taints": null}});
        write(&mut world, 0, Write::patch(Key::node(node), PatchKind::Merge, patch));
    }
    world
}

fn at(seconds: u64) -> Time {
    Time::after_start(Duration::from_secs(seconds))
}

fn attempt(world: &mut World, seconds: u64, command: Write) -> Result<Value, Status> {
    match world.apply(at(seconds), Command::Cluster(command)) {
        Ok(applied) => match applied.outcome {
            Outcome::Object(reply) => Ok(reply.object.as_ref().clone()),
            other => panic!("{other:?}"),
        },
        Err(Fault::Cluster(status)) => Err(status),
        Err(other) => panic!("{other}"),
    }
}

fn write(world: &mut World, seconds: u64, command: Write) -> Value {
    attempt(world, seconds, command).expect("the cluster accepts the request")
}

fn resource(text: &str) -> GroupResource {
    text.into()
}

fn create(world: &mut World, seconds: u64, resource: &str, name: &str, spec: Value) -> Value {
    let object = json!({"metadata": {"name": name}, "spec": spec});
    write(world, seconds, Write::create(resource, "default", object))
}

/// The spec of a workload whose pods have the label `app` and request this many processors.
fn workload(cpu: &str, more: Value) -> Value {
    let container = json!({"name": "c", "image": "i:1", "resources": {"requests": {"cpu": cpu}}});
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}},
    });
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    spec
}

fn pods(world: &World) -> Vec<&Value> {
    world.cluster.all(&GroupResource::core("pods")).map(AsRef::as_ref).collect()
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    super::text(object, pointer)
}

fn running(world: &World) -> usize {
    pods(world).iter().filter(|pod| super::has_condition(pod, "Ready")).count()
}

fn get<'a>(world: &'a World, resource: &str, name: &str) -> &'a Value {
    world.cluster.get(&Key::new(resource, "default", name)).expect("the object exists")
}

fn evict(name: &str) -> Write {
    let object = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name},
    });
    Write {
        key: Key::new("pods", "default", name),
        subresource: Some(Subresource::Eviction),
        ..Write::create("pods", "default", object)
    }
}

fn with_propagation(deletion: Write, propagation: crate::objects::Propagation) -> Write {
    let Action::Delete { preconditions, mut how } = deletion.action else { panic!() };
    how.propagation = Some(propagation);
    Write { action: Action::Delete { preconditions, how }, ..deletion }
}

fn delete(resource: &str, name: &str) -> Write {
    Write::delete(Key::new(resource, "default", name))
}

#[test]
fn the_pods_of_a_deployment_are_placed_run_and_follow_its_scale() {
    let mut world = lab();
    create(&mut world, 1, "deployments.apps", "a", workload("500m", json!({"replicas": 3})));
    world.advance(at(5));
    assert_eq!((pods(&world).len(), running(&world)), (3, 3));
    let set = world.cluster.all(&resource("replicasets.apps")).next().unwrap().as_ref().clone();
    let pod = pods(&world)[0];
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"], &owner["controller"]),
        (&"ReplicaSet".into(), &set["metadata"]["uid"], &true.into())
    );
    assert!(text(pod, "/status/podIP").starts_with("10.244."), "{pod}");
    let status = &get(&world, "deployments.apps", "a")["status"];
    assert_eq!((&status["availableReplicas"], &status["updatedReplicas"]), (&3.into(), &3.into()));
    let nodes: Vec<&str> = pods(&world).iter().map(|pod| text(pod, "/spec/nodeName")).collect();
    assert!(nodes.contains(&"node-0001") && nodes.contains(&"node-0002"), "{nodes:?}");
    let patch = json!({"spec": {"replicas": 1}});
    let key = Key::new("deployments.apps", "default", "a");
    write(&mut world, 6, Write::patch(key, PatchKind::Merge, patch));
    world.advance(at(20));
    assert_eq!(pods(&world).len(), 1);
    write(&mut world, 21, delete("deployments.apps", "a"));
    world.advance(at(40));
    assert_eq!(pods(&world).len(), 0);
    assert_eq!(world.cluster.count(&resource("replicasets.apps")), 0);
    assert!(world.workloads.pods.is_empty() && !world.workloads.is_due, "nothing is left to do");
}

#[test]
fn pods_without_requests_are_spread_over_the_nodes() {
    let mut world = lab();
    create(&mut world, 1, "replicasets.apps", "a", workload("0", json!({"replicas": 4})));
    world.advance(at(5));
    let on =
        |node: &str| pods(&world).iter().filter(|pod| text(pod, "/spec/nodeName") == node).count();
    assert_eq!((on("node-0001"), on("node-0002")), (2, 2));
}

#[test]
fn a_new_template_replaces_the_pods_of_a_deployment() {
    let mut world = lab();
    create(&mut world, 1, "deployments.apps", "a", workload("100m", json!({"replicas": 2})));
    world.advance(at(5));
    let key = Key::new("deployments.apps", "default", "a");
    let container = json!({"name": "c", "image": "i:2"});
    let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    write(&mut world, 6, Write::patch(key, PatchKind::StrategicMerge, patch));
    world.advance(at(20));
    let images: Vec<&str> =
        pods(&world).iter().map(|pod| text(pod, "/spec/containers/0/image")).collect();
    assert_eq!(images, ["i:2", "i:2"]);
}

#[test]
fn a_pod_that_fits_nowhere_says_why_and_is_bound_when_room_comes() {
    let mut world = lab();
    let cordon = json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}});
    write(&mut world, 1, Write::patch(Key::node("node-0002"), PatchKind::Merge, cordon));
    create(&mut world, 2, "replicasets.apps", "a", workload("2500m", json!({"replicas": 2})));
    world.advance(at(10));
    let waiting = *pods(&world).iter().find(|pod| text(pod, "/spec/nodeName").is_empty()).unwrap();
    let condition = &waiting["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&"PodScheduled".into(), &"False".into(), &"Unschedulable".into())
    );
    assert_eq!(
        condition["message"],
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    );
    let open = json!({"spec": {"taints": null}});
    write(&mut world, 11, Write::patch(Key::node("node-0002"), PatchKind::Merge, open));
    world.advance(at(15));
    assert_eq!(running(&world), 2);
    assert!(pods(&world).iter().all(|pod| {
        let conditions = pod["status"]["conditions"].as_array().unwrap();
        conditions.iter().any(|it| it["type"] == "PodScheduled" && it["status"] == "True")
    }));
}

#[test]
fn messages_of_the_scheduler_name_each_reason_with_its_number_of_nodes() {
    for (change, want) in [
        (
            json!({"nodeSelector": {"disk": "ssd"}}),
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
        ),
        (
            json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "5", "memory": "99Gi"}}}]}),
            "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
        ),
        (
            json!({"preemptionPolicy": "Never", "nodeSelector": {"disk": "ssd"}}),
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. preemption: not eligible due to preemptionPolicy=Never.",
        ),
        (
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}}),
            "this simulated scheduler does not support spec.affinity.podAntiAffinity: remove the field, or bind the pod to a Node through its subresource binding",
        ),
    ] {
        let mut world = lab();
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        for (field, value) in change.as_object().unwrap() {
            spec[field] = value.clone();
        }
        create(&mut world, 1, "pods", "p", spec);
        world.advance(at(5));
        assert_eq!(text(get(&world, "pods", "p"), "/status/conditions/0/message"), want);
    }
}

#[test]
fn without_nodes_the_scheduler_says_so() {
    let mut world =
        Topology::default().workloads().build("2026-03-01T08:00:00Z".parse().unwrap(), 7);
    create(&mut world, 1, "pods", "p", json!({"containers": [{"name": "c", "image": "i"}]}));
    world.advance(at(5));
    assert_eq!(
        text(get(&world, "pods", "p"), "/status/conditions/0/message"),
        "no nodes available to schedule pods"
    );
}

#[test]
fn a_replica_set_replaces_the_pods_of_a_node_that_goes() {
    let mut world = lab();
    create(&mut world, 1, "replicasets.apps", "a", workload("800m", json!({"replicas": 2})));
    world.advance(at(5));
    write(&mut world, 6, Write::delete(Key::node("node-0001")));
    world.advance(at(50));
    let nodes: Vec<&str> = pods(&world).iter().map(|pod| text(pod, "/spec/nodeName")).collect();
    assert_eq!(nodes, ["node-0002", "node-0002"]);
    assert_eq!(running(&world), 2);
}

#[test]
fn a_daemon_set_has_a_pod_on_each_node_that_it_tolerates() {
    let mut world = lab();
    let cordon = json!({"spec": {"unschedulable": true}});
    write(&mut world, 1, Write::patch(Key::node("node-0001"), PatchKind::Merge, cordon));
    let taint = json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}});
    write(&mut world, 1, Write::patch(Key::node("node-0002"), PatchKind::Merge, taint));
    create(&mut world, 2, "daemonsets.apps", "a", workload("100m", json!({})));
    world.advance(at(6));
    let nodes: Vec<&str> = pods(&world).iter().map(|pod| text(pod, "/spec/nodeName")).collect();
    assert_eq!(nodes, ["node-0001"], "a cordon does not keep a DaemonSet away, a taint does");
    let open = json!({"spec": {"taints": null}});
    write(&mut world, 7, Write::patch(Key::node("node-0002"), PatchKind::Merge, open));
    world.advance(at(12));
    let status = &get(&world, "daemonsets.apps", "a")["status"];
    assert_eq!((&status["desiredNumberScheduled"], &status["numberReady"]), (&2.into(), &2.into()));
    write(&mut world, 13, Write::delete(Key::node("node-0001")));
    world.advance(at(16));
    assert_eq!(pods(&world).len(), 1);
}

#[test]
fn a_job_completes_after_a_time_or_when_told() {
    for told in [false, true] {
        let mut world = lab();
        if told {
            let completion = Completion::WhenTold;
            world.apply(at(0), Command::SetTiming { step: Step::PodComplete, completion }).unwrap();
        }
        let mut spec = workload("100m", json!({"completions": 3, "parallelism": 2}));
        spec["template"]["spec"]["restartPolicy"] = "Never".into();
        spec.as_object_mut().unwrap().remove("selector");
        create(&mut world, 1, "jobs.batch", "a", spec);
        world.advance(at(60));
        if told {
            assert_eq!(get(&world, "jobs.batch", "a")["status"]["active"], 2);
            for n in 1..3 {
                world
                    .apply(
                        at(60 + 20 * n),
                        Command::Tell { step: Some(Step::PodComplete), machine: None },
                    )
                    .unwrap();
            }
            world.advance(at(200));
        }
        let status = &get(&world, "jobs.batch", "a")["status"];
        let last = &status["conditions"][1];
        assert_eq!(
            (&last["type"], &last["status"]),
            (&"Complete".into(), &"True".into()),
            "{status}"
        );
        assert_eq!(status["succeeded"], 3);
        assert!(pods(&world).iter().all(|pod| text(pod, "/status/phase") == "Succeeded"));
    }
}

#[test]
fn an_eviction_waits_until_the_budget_allows_it() {
    let mut world = lab();
    create(&mut world, 1, "replicasets.apps", "a", workload("300m", json!({"replicas": 2})));
    let budget = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}});
    create(&mut world, 1, "poddisruptionbudgets.policy", "b", budget);
    world.advance(at(6));
    let names: Vec<String> = pods(&world).iter().map(|pod| super::name(pod).to_owned()).collect();
    let allowed = |world: &World| {
        get(world, "poddisruptionbudgets.policy", "b")["status"]["disruptionsAllowed"].clone()
    };
    assert_eq!(allowed(&world), 1);
    let answer = write(&mut world, 7, evict(&names[0]));
    assert_eq!((&answer["status"], &answer["code"]), (&"Success".into(), &201.into()));
    let refused = attempt(&mut world, 7, evict(&names[1])).unwrap_err();
    assert_eq!(
        (refused.code, &*refused.message),
        (429, "Cannot evict pod as it would violate the pod's disruption budget.")
    );
    let causes = &refused.details.unwrap().causes;
    assert_eq!(causes[0].reason, "DisruptionBudget");
    world.advance(at(12));
    assert!(pods(&world).iter().all(|pod| super::name(pod) != names[0]), "the pod is gone");
    assert_eq!((running(&world), allowed(&world)), (2, 1.into()), "its replacement runs");
    write(&mut world, 13, evict(&names[1]));
}

#[test]
fn an_owner_that_is_deleted_in_the_foreground_goes_after_its_pods() {
    let mut world = lab();
    create(&mut world, 1, "replicasets.apps", "a", workload("300m", json!({"replicas": 2})));
    world.advance(at(6));
    let foreground = |propagation| with_propagation(delete("replicasets.apps", "a"), propagation);
    write(&mut world, 7, foreground(crate::objects::Propagation::Foreground));
    assert!(get(&world, "replicasets.apps", "a")["metadata"]["deletionTimestamp"].is_string());
    world.advance(at(20));
    assert_eq!((pods(&world).len(), world.cluster.count(&resource("replicasets.apps"))), (0, 0));
    create(&mut world, 21, "replicasets.apps", "a", workload("300m", json!({"replicas": 2})));
    world.advance(at(26));
    write(&mut world, 27, foreground(crate::objects::Propagation::Orphan));
    world.advance(at(40));
    assert_eq!((running(&world), world.cluster.count(&resource("replicasets.apps"))), (2, 0));
}

#[test]
fn a_world_without_workloads_leaves_pods_and_replica_sets_alone() {
    let mut world = lab_of(Topology::default().machines(2));
    create(&mut world, 1, "replicasets.apps", "a", workload("300m", json!({"replicas": 2})));
    create(&mut world, 1, "pods", "p", json!({"containers": [{"name": "c", "image": "i"}]}));
    world.advance(at(60));
    assert_eq!(pods(&world).len(), 1);
    assert_eq!(
        get(&world, "pods", "p")["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"})
    );
    assert!(world.workloads.is_default());
    let snapshot = serde_json::to_value(world.state()).unwrap();
    assert!(snapshot.get("cluster").is_some() && snapshot.get("workloads").is_none());
    world.apply(at(61), Command::SetWorkloads { run: true }).unwrap();
    world.advance(at(70));
    assert_eq!(running(&world), 3);
    world.apply(at(71), Command::SetWorkloads { run: false }).unwrap();
    write(&mut world, 72, delete("replicasets.apps", "a"));
    world.advance(at(90));
    assert_eq!(pods(&world).len(), 3);
}

#[test]
fn workloads_whose_steps_are_immediate_come_to_rest() {
    let mut topology = Topology::default().machines(2).workloads();
    topology.timing = crate::Timing::immediate();
    let mut world = lab_of(topology);
    create(&mut world, 1, "deployments.apps", "a", workload("200m", json!({"replicas": 4})));
    world.advance(at(1));
    assert_eq!(running(&world), 4);
    write(&mut world, 2, delete("deployments.apps", "a"));
    world.advance(at(2));
    assert_eq!(pods(&world).len(), 0);
}
