//! Processes that die between two requests, answers that are lost, and processes that stall.

use serde_json::json;
use sim::faults::Action;

use super::{
    GROUP,
    changes::LOWER,
    world::{MARK, World, deployment, id, machine},
};
use crate::capacity::s;

/// Returns the Machines with a mark.
pub(super) async fn marked(world: &World) -> Vec<String> {
    let all = world.objects(super::world::NAMESPACE, "machines").await;
    let marked = all.iter().filter(|it| it["metadata"]["annotations"].get(MARK).is_some());
    marked.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

pub(super) async fn booted(n: u32) -> World {
    let world = World::with_workers(n).await;
    let names: Vec<String> = (0..n).map(|n| format!("m-{n}")).collect();
    world.boot(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    world
}

/// Has a process of the server die in a deletion of this Machine, before the size is lowered.
async fn die_before_lowering(world: &World, name: &str) {
    let server = world.start().await;
    let fault = world.fault(Action::Blackhole, LOWER, 1);
    let id = id(name);
    let victims = [id.as_str()];
    let deletion = server.delete(GROUP, &victims);
    let died = tokio::time::timeout(s(1), deletion).await;
    assert!(died.is_err(), "the process dies before it answers");
    server.kill().await;
    drop(fault);
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_mark_and_lower_size_changes_nothing_and_a_repetition_counts_once() {
    let world = booted(3).await;
    die_before_lowering(&world, "m-1").await;
    assert_eq!((marked(&world).await, world.replicas("workers").await), (vec!["m-1".into()], 3));
    let server = world.start().await;
    assert_eq!(marked(&world).await, [""; 0], "the next process takes the mark back");
    assert_eq!(server.target(GROUP).await, 3);
    server.delete(GROUP, &[&id("m-1")]).await.unwrap();
    assert_eq!((server.target(GROUP).await, world.replicas("workers").await), (2, 2));
    world.reconcile().await;
    assert_eq!(world.machines().await, ["m-0", "m-2"]);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_a_crash_left_is_gone_before_another_machine_is_deleted() {
    let world = booted(3).await;
    die_before_lowering(&world, "m-0").await;
    // The next process cannot take the mark back by itself: each of its attempts fails at first.
    let fault = world.fault(Action::Reset, LOWER, 1);
    let server = world.start().await;
    assert_eq!(marked(&world).await, ["m-0"]);
    // Cluster API alone chooses the Machine, by the marks, and before the server sweeps again.
    let slow = [
        world.fault(Action::Reset, "delete machines", 1000),
        world.fault_after(Action::Delay(s(1)), "get machinedeployments", 1),
    ];
    server.delete(GROUP, &[&id("m-2")]).await.unwrap();
    world.reconcile().await;
    assert_eq!(world.machines().await, ["m-0", "m-1"]);
    assert_eq!(marked(&world).await, [""; 0]);
    drop((fault, slow));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_the_size_is_lowered_deletes_the_machine_and_counts_it_once() {
    let world = booted(3).await;
    let server = world.start().await;
    // The size is lowered, its answer is lost, and the next read hangs.
    let lost = world.fault(Action::truncate(0), LOWER, 1);
    let id = id("m-1");
    let victims = [id.as_str()];
    let hang = world.fault_after(Action::Blackhole, "get machinedeployments", 1);
    let died = tokio::time::timeout(s(2), server.delete(GROUP, &victims)).await;
    assert!(died.is_err(), "the process dies before it answers");
    server.kill().await;
    drop((lost, hang));
    assert_eq!(world.replicas("workers").await, 2);
    let server = world.start().await;
    server.delete(GROUP, &victims).await.unwrap();
    assert_eq!((server.target(GROUP).await, world.replicas("workers").await), (2, 2));
    // Another client raises the size before Cluster API acts on the lower one.
    world.management.patch(&deployment("workers"), json!({"spec": {"replicas": 3}})).await;
    tokio::time::sleep(s(1)).await;
    world.reconcile().await;
    world.reconcile().await;
    assert_eq!(world.machines().await, ["m-0", "m-2", "m-3"]);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lower_size_whose_answer_is_lost_counts_once() {
    let world = booted(4).await;
    let server = world.start().await;
    for (lost, name, left) in [(Action::truncate(0), "m-1", 3), (Action::Reset, "m-2", 2)] {
        let fault = world.fault(lost, LOWER, 1);
        server.delete(GROUP, &[&id(name)]).await.unwrap();
        assert_eq!(
            (server.target(GROUP).await, world.replicas("workers").await),
            (left, left as u64)
        );
        drop(fault);
    }
    world.reconcile().await;
    assert_eq!(world.machines().await, ["m-0", "m-3"]);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stalls_cannot_lower_a_size_without_its_marks() {
    let world = booted(3).await;
    let first = world.start().await;
    // The first process has marked m-1, and its request to lower the size is on its way.
    let ms = std::time::Duration::from_millis;
    let slow = world.fault(Action::Delay(ms(1200)), LOWER, 1);
    let id = id("m-1");
    let victims = [id.as_str()];
    let deletion = first.delete(GROUP, &victims);
    let second = async {
        tokio::time::sleep(ms(100)).await;
        assert_eq!(marked(&world).await, ["m-1"]);
        let second = world.start_for(ms(900)).await;
        assert_eq!(marked(&world).await, [""; 0], "the second process takes the mark back");
        second.kill().await;
    };
    let (deleted, ()) = tokio::join!(deletion, second);
    deleted.unwrap();
    assert_eq!(world.management.n_calls(LOWER), 3, "lower, take the mark back, lower again");
    drop(slow);
    world.reconcile().await;
    assert_eq!(world.machines().await, ["m-0", "m-2"]);
    assert_eq!(world.replicas("workers").await, 2);
    first.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_sizes_and_instances() {
    let world = booted(3).await;
    let server = world.start().await;
    server.delete(GROUP, &[&id("m-2")]).await.unwrap();
    let before = (server.groups().await, server.target(GROUP).await, server.instances(GROUP).await);
    server.stop().await;
    let server = world.start().await;
    let after = (server.groups().await, server.target(GROUP).await, server.instances(GROUP).await);
    assert_eq!(before, after);
    assert_eq!(before.2[2], format!("{} deleting", id("m-2")));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_raise_during_a_deletion_gets_a_new_machine() {
    let world = booted(2).await;
    let server = world.start().await;
    server.delete(GROUP, &[&id("m-1")]).await.unwrap();
    server.increase(GROUP, 1).await.unwrap();
    assert_eq!(server.target(GROUP).await, 2);
    tokio::time::sleep(s(1)).await;
    world.reconcile().await;
    world.reconcile().await;
    assert_eq!(world.machines().await, ["m-0", "m-2"]);
    let gone = world.management.get(&machine("m-0")).await;
    assert!(gone["metadata"]["deletionTimestamp"].is_null());
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn machines_that_are_gone_leave_the_annotation_of_the_group() {
    let world = booted(4).await;
    let server = world.start().await;
    server.delete(GROUP, &[&id("m-1")]).await.unwrap();
    world.reconcile().await;
    server.stop().await;
    // The next process has never seen m-1.
    let server = world.start().await;
    for (name, counted) in [("m-2", &["m-2"][..]), ("m-3", &["m-2", "m-3"])] {
        server.delete(GROUP, &[&id(name)]).await.unwrap();
        let group = world.management.get(&deployment("workers")).await;
        let text = &group["metadata"]["annotations"]["vsphere.cloud-provider/counted-deletions"];
        let ledger: serde_json::Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
        let names: Vec<&str> = ledger.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, counted, "m-2 waits for its finalizer");
    }
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_never_answered_fails_in_time_and_is_undone() {
    let world = booted(2).await;
    let server = world.start().await;
    let fault = world.fault(Action::Blackhole, LOWER, 1000);
    let (code, _) = server.delete(GROUP, &[&id("m-1")]).await.unwrap_err();
    assert_eq!(code, 14, "unavailable");
    assert_eq!(marked(&world).await, ["m-1"]);
    drop(fault);
    tokio::time::sleep(s(30)).await;
    assert_eq!((marked(&world).await, server.target(GROUP).await), (Vec::new(), 2));
    world.reconcile().await;
    assert_eq!(world.machines().await, ["m-0", "m-1"]);
    server.stop().await;
}
