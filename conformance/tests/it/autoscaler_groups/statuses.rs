//! Writes of statuses: only after a change, limited in number, and without effect on the groups if
//! they fail.

use serde_json::json;
use sim::faults::{Action, KubeStatus};

use super::world::{ROLE, World, machine};
use super::{GROUP, s};

const WRITES: &str = "patch nodegroups/status";

#[tokio::test(start_paused = true)]
async fn a_quiet_hour_with_refreshes_writes_no_status_and_lists_nothing_again() {
    let world = World::new().await;
    world.create("workers", machine(0, 5)).await;
    world.create("inverted", machine(3, 2)).await;
    world.start().await;
    world.server().await.increase(2).await;
    tokio::time::sleep(s(180)).await;
    let writes = world.n_calls(WRITES);
    assert!(writes >= 2, "{writes}");
    assert_eq!(world.n_calls("list nodegroups"), 1);
    for _ in 0..360 {
        world.refresh().await.unwrap();
        tokio::time::sleep(s(10)).await;
    }
    assert_eq!((world.n_calls(WRITES), world.n_calls("list nodegroups")), (writes, 1));
    assert!(world.n_calls("watch nodegroups") <= 16, "one per 270 s");
    world.ours.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_size_that_changes_each_second_is_written_every_ten_seconds() {
    let world = World::new().await;
    world.create("workers", machine(0, 100)).await;
    world.start().await;
    tokio::time::sleep(s(30)).await;
    let before = world.n_calls(WRITES);
    let server = world.server().await;
    for _ in 0..60 {
        server.increase(1).await;
        tokio::time::sleep(s(1)).await;
    }
    let writes = world.n_calls(WRITES) - before;
    assert!((5..=8).contains(&writes), "{writes}");
    tokio::time::sleep(s(120)).await;
    assert_eq!(world.status("workers").await["targetSize"], 60);
    world.ours.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_that_another_client_changes_is_written_again() {
    let world = World::new().await;
    world.create("workers", machine(0, 5)).await;
    world.start().await;
    tokio::time::sleep(s(30)).await;
    let before = world.status("workers").await;
    let path = format!("{}/workers/status", super::world::collection(super::NAMESPACE));
    let wrong = json!({"status": {"targetSize": 77, "conditions": []}});
    world.send("PATCH", &path, Some(&wrong)).await.unwrap();
    tokio::time::sleep(s(15)).await;
    let mut after = world.status("workers").await;
    // The condition is a new one.
    after["conditions"][0]["lastTransitionTime"] =
        before["conditions"][0]["lastTransitionTime"].clone();
    assert_eq!(after, before);
    world.ours.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_created_again_never_gets_the_status_of_the_former_one() {
    let world = World::new().await;
    world.create("workers", machine(0, 5)).await;
    world.start().await;
    tokio::time::sleep(s(30)).await;
    let broken = world.fault(Action::Reset, &["list nodegroups", "watch nodegroups"]);
    world.end_watches();
    tokio::time::sleep(s(5)).await;
    world.delete("workers").await;
    world.create("workers", machine(0, 9)).await;
    world.server().await.increase(1).await;
    let before = world.n_calls(WRITES);
    tokio::time::sleep(s(120)).await;
    assert!(world.n_calls(WRITES) > before, "the server tries");
    assert_eq!(world.status("workers").await, json!(null));
    drop(broken);
    tokio::time::sleep(s(310)).await;
    assert_eq!(world.status("workers").await["targetSize"], 1);
    world.ours.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failed_writes_of_statuses_stop_nothing_and_are_repeated_with_pauses() {
    for action in [Action::Reset, Action::KubeStatus(KubeStatus::new(500))] {
        let world = World::new().await;
        world.create("workers", machine(0, 5)).await;
        world.create("others", machine(0, 5)).await;
        let broken = world.fault(action, &[WRITES]);
        world.start().await;
        world.server().await.increase(2).await;
        tokio::time::sleep(s(900)).await;
        assert_eq!((world.refresh().await, world.ours.trouble()), (Ok(()), None));
        assert_eq!(world.ids().await.len(), 2);
        assert_eq!(world.server().await.states().await, [1, 1]);
        let failed = world.n_calls(WRITES);
        assert!((4..=20).contains(&failed), "{failed}");
        let metrics = world.ours.metrics();
        let metric = "vsphere_autoscaler_node_group_status_writes_total{result=\"failed\"}";
        assert!(metrics.contains(metric), "{metrics}");
        drop(broken);
        tokio::time::sleep(s(310)).await;
        assert_eq!(world.status("workers").await["machines"], 2);
        world.ours.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_named_with_the_rule_to_grant() {
    let world = World::bare(provider::NodeGroupSettings::default()).await;
    world.define().await;
    world.create("workers", machine(0, 5)).await;
    world.start().await;
    tokio::time::sleep(s(60)).await;
    let why = world.ours.trouble().unwrap();
    for words in ["403", "grant list and watch of nodegroups.vsphere.cloud-provider to the account"]
    {
        assert!(why.contains(words), "{why}");
    }
    let (_, message) = world.refresh().await.unwrap_err();
    assert!(message.contains("grant list and watch"), "{message}");
    let without_status = ROLE.replace(
        "  resources: [nodegroups/status]\n  verbs: [patch]\n",
        "  resources: [x]\n  verbs: [get]\n",
    );
    assert_ne!(without_status, ROLE);
    world.grant(&without_status).await;
    tokio::time::sleep(s(120)).await;
    assert_eq!((world.refresh().await, world.ids().await), (Ok(()), vec![GROUP.to_owned()]));
    assert_eq!(world.status("workers").await, json!(null));
    world.grant(&ROLE.replace("name: vsphere-autoscaler-groups", "name: more")).await;
    tokio::time::sleep(s(310)).await;
    assert_eq!(world.status("workers").await["id"], GROUP);
    world.ours.stop().await;
}
