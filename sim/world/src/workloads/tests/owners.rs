//! Tests of deletions in the foreground and of orphans.

use super::*;
use crate::objects::Propagation;

#[test]
fn a_deployment_deleted_in_the_foreground_deletes_its_sets_in_the_foreground() {
    let mut world = lab();
    create(&mut world, 1, "deployments.apps", "a", workload("300m", json!({"replicas": 2})));
    world.advance(at(6));
    let deletion = delete("deployments.apps", "a");
    write(&mut world, 7, with_propagation(deletion, Propagation::Foreground));
    world.advance(Time::after_start(Duration::from_millis(7_500)));
    let set = world.cluster.all(&resource("replicasets.apps")).next().unwrap();
    assert_eq!(set["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    world.advance(at(20));
    for kind in ["deployments.apps", "replicasets.apps", "pods"] {
        assert_eq!(world.cluster.count(&resource(kind)), 0, "{kind}");
    }
}

#[test]
fn a_pod_deleted_in_the_foreground_or_as_an_owner_of_orphans_ends() {
    for propagation in [Propagation::Foreground, Propagation::Orphan] {
        let mut world = lab();
        create(&mut world, 1, "pods", "p", json!({"containers": [{"name": "c", "image": "i"}]}));
        world.advance(at(6));
        write(&mut world, 7, with_propagation(delete("pods", "p"), propagation));
        world.advance(at(20));
        assert_eq!(pods(&world).len(), 0, "{propagation:?}");
    }
}

#[test]
fn an_owner_of_orphans_goes_after_the_last_of_them_is_free() {
    let mut world = lab();
    create(&mut world, 1, "replicasets.apps", "a", workload("300m", json!({"replicas": 2})));
    world.advance(at(6));
    world.apply(at(6), Command::SetWorkloads { run: false }).unwrap();
    write(&mut world, 7, with_propagation(delete("replicasets.apps", "a"), Propagation::Orphan));
    let mut resources = Vec::new();
    for _ in 0..2 {
        let now = at(7).timestamp(world.epoch());
        for command in super::super::garbage::collect(&world.cluster, now) {
            resources.push(command.key.resource.to_string());
            write(&mut world, 7, command);
        }
        resources.push("end of the pass".to_owned());
    }
    let pass = "end of the pass";
    assert_eq!(resources, ["pods", "pods", pass, "replicasets.apps", pass]);
}
