//! Tests of strategies of Deployments and DaemonSets.

use super::*;

fn new_image() -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}})
}

fn images(world: &World) -> Vec<&str> {
    pods(world).iter().map(|pod| text(pod, "/spec/containers/0/image")).collect()
}

#[test]
fn a_deployment_that_recreates_ends_its_old_pods_before_it_makes_new_ones() {
    let mut world = lab();
    let more = json!({"replicas": 2, "strategy": {"type": "Recreate"}});
    create(&mut world, 1, "deployments.apps", "a", workload("100m", more));
    world.advance(at(6));
    let key = Key::new("deployments.apps", "default", "a");
    write(&mut world, 7, Write::patch(key, PatchKind::StrategicMerge, new_image()));
    for tenth in 70..200 {
        world.advance(Time::after_start(Duration::from_millis(tenth * 100)));
        let mut seen = images(&world);
        seen.dedup();
        assert!(seen.len() < 2, "old and new pods at {tenth} tenths of a second");
    }
    assert_eq!(images(&world), ["i:2", "i:2"]);
    let status = &get(&world, "deployments.apps", "a")["status"];
    assert_eq!(status["updatedReplicas"], 2, "{status}");
}

#[test]
fn a_paused_deployment_scales_and_makes_no_new_set() {
    let mut world = lab();
    create(&mut world, 1, "deployments.apps", "a", workload("100m", json!({"replicas": 2})));
    world.advance(at(6));
    let key = Key::new("deployments.apps", "default", "a");
    let mut patch = new_image();
    patch["spec"]["paused"] = true.into();
    patch["spec"]["replicas"] = 3.into();
    write(&mut world, 7, Write::patch(key.clone(), PatchKind::StrategicMerge, patch));
    world.advance(at(20));
    assert_eq!(images(&world), ["i:1", "i:1", "i:1"]);
    assert_eq!(world.cluster.count(&resource("replicasets.apps")), 1);
    let deployment = get(&world, "deployments.apps", "a");
    let observed = &deployment["status"]["observedGeneration"];
    assert_eq!(observed, &deployment["metadata"]["generation"]);
    let progress = &deployment["status"]["conditions"][1];
    assert_eq!(
        (&progress["status"], &progress["reason"]),
        (&"Unknown".into(), &"DeploymentPaused".into())
    );
    let resume = json!({"spec": {"paused": false}});
    write(&mut world, 21, Write::patch(key, PatchKind::Merge, resume));
    world.advance(at(40));
    assert_eq!(images(&world), ["i:2", "i:2", "i:2"]);
}

#[test]
fn a_daemon_set_that_updates_on_delete_keeps_its_old_pods() {
    let mut world = lab();
    let more = json!({"updateStrategy": {"type": "OnDelete"}});
    create(&mut world, 1, "daemonsets.apps", "a", workload("100m", more));
    world.advance(at(6));
    let key = Key::new("daemonsets.apps", "default", "a");
    write(&mut world, 7, Write::patch(key, PatchKind::StrategicMerge, new_image()));
    world.advance(at(20));
    assert_eq!(images(&world), ["i:1", "i:1"]);
    let name = super::super::name(pods(&world)[0]).to_owned();
    write(&mut world, 21, delete("pods", &name));
    world.advance(at(40));
    let mut seen = images(&world);
    seen.sort_unstable();
    assert_eq!(seen, ["i:1", "i:2"]);
}
