//! Wrong objects: refused by name, while the others go on.

use serde_json::json;

use super::super::autoscaler::running;
use super::world::{World, clone, machine};
use super::{CLONES, GROUP, NAMESPACE, NOT_FOUND, s};
use conformance::lab::autoscaler::OfGroup;

const INVERTED: &str = "spec: max: 2 is less than min, which is 3; write at least min";

#[tokio::test(start_paused = true)]
async fn a_wrong_object_is_refused_by_name_in_status_and_event_and_the_others_go_on() {
    let world = World::new().await;
    world.create("workers", machine(0, 5)).await;
    world.create("inverted", machine(3, 2)).await;
    world.create("clones", clone(2)).await;
    world.start().await;
    tokio::time::sleep(s(30)).await;
    assert_eq!(world.ids().await, [GROUP]);
    assert_eq!(world.accepted(NAMESPACE, "inverted").await, ["False", "Invalid", INVERTED]);
    let other =
        "spec: clone: the key belongs to another --backend; write machine instead".to_owned();
    assert_eq!(world.accepted(NAMESPACE, "clones").await, ["False", "Invalid", &other]);
    let status = world.status("inverted").await;
    assert_eq!((&status["targetSize"], &status["id"]), (&json!(null), &json!(null)));
    let of = |name: &str, why: &str| format!("Warning Invalid kube-system/{name} 1: {why}");
    let events = world.events().await;
    assert!(events.contains(&of("inverted", INVERTED)), "{events:?}");
    assert!(events.contains(&of("clones", &other)) && events.len() == 3, "{events:?}");
    assert!(world.ours.metrics().contains("vsphere_autoscaler_groups_refused 2\n"));
    world.server().await.increase(1).await;
    world.patch("inverted", json!({"spec": {"max": 4}})).await;
    world.settle().await;
    let want = [("VirtualMachine/workloads/inverted".to_owned(), 3, 4), (GROUP.to_owned(), 0, 5)];
    assert_eq!(world.groups().await, want);
    assert_eq!(world.accepted(NAMESPACE, "inverted").await[0], "True");
    assert!(world.ours.metrics().contains("vsphere_autoscaler_groups_refused 1\n"));
    world.ours.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_becomes_wrong_is_unlisted_and_its_machines_stay_until_it_is_corrected() {
    let world = World::new().await;
    world.create("workers", machine(0, 5)).await;
    world.start().await;
    let server = world.server().await;
    server.increase(2).await;
    tokio::time::sleep(s(120)).await;
    let machines = running(server.sim());
    world.patch("workers", json!({"spec": {"min": 3, "max": 2}})).await;
    world.refresh().await.unwrap();
    tokio::time::sleep(s(11)).await;
    assert_eq!(world.ids().await, Vec::<String>::new());
    assert_eq!(server.target().await, 2, "it answers for a minute");
    tokio::time::sleep(s(61)).await;
    assert_eq!(server.code("NodeGroupTargetSize", OfGroup::new(GROUP)).await, NOT_FOUND);
    assert_eq!(world.accepted(NAMESPACE, "workers").await, ["False", "Invalid", INVERTED]);
    let status = world.status("workers").await;
    let shown = ["observedGeneration", "targetSize", "machines"].map(|it| status[it].clone());
    assert_eq!(shown, [json!(2), json!(null), json!(null)]);
    world.patch("workers", json!({"spec": {"min": 0, "max": 5}})).await;
    world.settle().await;
    assert_eq!((server.target().await, running(server.sim())), (2, machines));
    let status = world.status("workers").await;
    assert_eq!((&status["observedGeneration"], &status["machines"]), (&json!(3), &json!(2)));
    world.ours.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_object_of_a_name_is_refused_by_the_name_of_the_first() {
    for (world, spec, id) in
        [(World::new().await, machine(0, 5), GROUP), (World::of_clones().await, clone(5), CLONES)]
    {
        world.create_namespace("team").await;
        world.create("workers", spec.clone()).await;
        tokio::time::sleep(s(5)).await;
        let mut second = spec.clone();
        second["max"] = 9.into();
        world.try_create("team", "workers", second).await.unwrap();
        world.start().await;
        world.settle().await;
        assert_eq!(world.groups().await, [(id.to_owned(), 0, 5)]);
        let why = "metadata.name: \"workers\" is the group of NodeGroup kube-system/workers, which is older; \
                   create this object with another name";
        assert_eq!(world.accepted("team", "workers").await, ["False", "Duplicate", why]);
        assert_eq!(world.accepted(NAMESPACE, "workers").await[0], "True");
        world.patch("workers", json!({"spec": {"min": 7}})).await;
        world.settle().await;
        assert_eq!(world.ids().await, Vec::<String>::new(), "also while the first is wrong");
        world.delete("workers").await;
        world.settle().await;
        assert_eq!(world.groups().await, [(id.to_owned(), 0, 9)]);
        assert_eq!(world.accepted("team", "workers").await[0], "True");
        world.ours.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_clone_may_not_name_a_file_beyond_the_directory_of_bootstrap_data() {
    let world = World::of_clones().await;
    let with = |file: &str| {
        let mut spec = clone(2);
        spec["clone"]["bootstrap"]["file"] = file.into();
        spec
    };
    for file in ["/etc/passwd", "../token", ""] {
        let refused = world.try_create(NAMESPACE, "workers", with(file)).await.unwrap_err();
        assert!(refused.contains("spec.clone.bootstrap.file"), "{refused}");
    }
    world.create("workers", with("..")).await;
    world.start().await;
    world.settle().await;
    let why = "spec: clone: bootstrap: file: \"..\" is not the name of a file; write the name of a file in the \
               directory of --bootstrap-directory";
    assert_eq!(world.accepted(NAMESPACE, "workers").await, ["False", "Invalid", why]);
    assert_eq!(world.ids().await, Vec::<String>::new());
    world.ours.stop().await;
}
