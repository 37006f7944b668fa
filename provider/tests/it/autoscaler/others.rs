//! Objects that other clients pause, mark, damage or create again, and controllers of Cluster API
//! that lag.

use serde_json::{Value, json};

use super::{
    FAILED_PRECONDITION, GROUP,
    changes::{LOWER, RAISE},
    crashes::{booted, marked},
    world::{MARK, NAMESPACE, World, annotations, collection, deployment, id, machine},
};
use crate::capacity::s;

const MARKED: &str = "vsphere.cloud-provider/marked-for-deletion";
const COUNTED: &str = "vsphere.cloud-provider/counted-deletions";

async fn annotate(world: &World, path: &str, key: &str, value: Value) {
    let patch = json!({"metadata": {"annotations": {key: value}}});
    world.management.patch(path, patch).await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_is_paused_before_the_server_sees_it_is_not_made_smaller() {
    let world = booted(2).await;
    let server = world.start().await;
    let slow = world.delay_watch("machinedeployments").await;
    annotate(&world, &deployment("workers"), "cluster.x-k8s.io/paused", "".into()).await;
    let (code, message) = server.delete(GROUP, &[&id("m-1")]).await.unwrap_err();
    assert_eq!(code, FAILED_PRECONDITION);
    assert!(message.contains("annotation cluster.x-k8s.io/paused"), "{message}");
    assert_eq!(world.replicas("workers").await, 2);
    for operation in [LOWER, "patch machines", "delete machines"] {
        assert_eq!(world.management.n_calls(operation), 0, "{operation}");
    }
    drop(slow);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_not_deleted_before_its_machine_set_is_lowered() {
    let world = booted(3).await;
    let server = world.start().await;
    server.delete(GROUP, &[&id("m-1")]).await.unwrap();
    // The controller of MachineDeployments lags: the MachineSet would replace a deleted Machine.
    tokio::time::sleep(s(30)).await;
    assert_eq!(world.management.n_calls("delete machines"), 0);
    assert_eq!((world.replicas("workers").await, marked(&world).await), (2, vec!["m-1".into()]));
    let set = format!("{}/workers-a", collection(NAMESPACE, "machinesets"));
    world.management.patch(&set, json!({"spec": {"replicas": 2}})).await;
    tokio::time::sleep(s(1)).await;
    assert_eq!(world.management.n_calls("delete machines"), 1, "soon after the set follows");
    world.reconcile().await;
    assert_eq!(world.machines().await, ["m-0", "m-2"]);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_decrease_gives_up_the_replica_of_a_machine_whose_deletion_is_stuck() {
    let world = booted(3).await;
    let status = json!({"status": {"replicas": 3}});
    world.management.patch(&format!("{}/status", deployment("workers")), status).await;
    // Another client deletes the Machine, and its finalizer stays.
    world.management.delete(&machine("m-1")).await;
    let server = world.start().await;
    assert_eq!(server.instances(GROUP).await[1], format!("{} deleting", id("m-1")));
    server.decrease(GROUP, -1).await.unwrap();
    assert_eq!((server.target(GROUP).await, world.replicas("workers").await), (2, 2));
    assert_eq!(server.decrease(GROUP, -1).await.unwrap_err().0, FAILED_PRECONDITION);
    world.reconcile().await;
    assert_eq!(world.machines().await, ["m-0", "m-2"]);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_was_created_again_is_not_changed_for_the_former_one() {
    let world = booted(2).await;
    let server = world.start().await;
    let slow = world.delay_watch("machinedeployments").await;
    world.management.delete(&deployment("workers")).await;
    world.create_deployment(NAMESPACE, "workers", &annotations(0, 5), 2).await;
    let refusals = [server.delete(GROUP, &[&id("m-1")]).await, server.increase(GROUP, 1).await];
    for refusal in refusals {
        let (code, message) = refusal.unwrap_err();
        assert_eq!(code, FAILED_PRECONDITION, "{message}");
        assert!(message.contains("was deleted and created again"), "{message}");
    }
    for operation in [LOWER, RAISE, "patch machines"] {
        assert_eq!(world.management.n_calls(operation), 0, "{operation}");
    }
    drop(slow);
    server.stop().await;
    // The MachineSet names the former MachineDeployment as its owner.
    let server = world.start().await;
    assert_eq!((server.target(GROUP).await, server.instances(GROUP).await), (2, Vec::new()));
    assert_eq!(server.group_of(&id("m-1"), "m-1").await, "");
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_mark_of_another_client_outlives_a_failed_deletion() {
    let world = booted(2).await;
    annotate(&world, &machine("m-1"), MARK, "theirs".into()).await;
    let server = world.start().await;
    let refused = sim::faults::Action::KubeStatus(sim::faults::KubeStatus::new(403));
    let fault = world.fault(refused, LOWER, 1);
    server.delete(GROUP, &[&id("m-1")]).await.unwrap_err();
    drop(fault);
    tokio::time::sleep(s(15)).await;
    let annotations = &world.management.get(&machine("m-1")).await["metadata"]["annotations"];
    assert_eq!((&annotations[MARK], annotations.get(MARKED)), (&json!("theirs"), None));
    let (code, _) = server.delete(GROUP, &[&id("m-0")]).await.unwrap_err();
    assert_eq!(code, FAILED_PRECONDITION, "Cluster API would delete m-1");
    server.delete(GROUP, &[&id("m-1")]).await.unwrap();
    world.reconcile().await;
    assert_eq!(world.machines().await, ["m-0"]);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_with_an_unreadable_ledger_keeps_its_size_and_marks() {
    crate::capacity::keep_log();
    let world = booted(3).await;
    let server = world.start().await;
    server.delete(GROUP, &[&id("m-1")]).await.unwrap();
    annotate(&world, &deployment("workers"), COUNTED, "m-1".into()).await;
    tokio::time::sleep(s(30)).await;
    assert_eq!(marked(&world).await, ["m-1"], "the size was lowered for it");
    for name in ["m-1", "m-2"] {
        let (code, message) = server.delete(GROUP, &[&id(name)]).await.unwrap_err();
        assert_eq!(code, FAILED_PRECONDITION);
        assert!(message.contains(COUNTED), "{message}");
    }
    assert_eq!((world.replicas("workers").await, marked(&world).await), (2, vec!["m-1".into()]));
    tokio::time::sleep(s(600)).await;
    assert_eq!(crate::capacity::n_logged(&["WARN", GROUP, COUNTED, "cannot be read"]), 1);
    let corrected = json!({"m-1": world.management.get(&machine("m-1")).await["metadata"]["uid"]});
    annotate(&world, &deployment("workers"), COUNTED, corrected.to_string().into()).await;
    world.reconcile().await;
    server.delete(GROUP, &[&id("m-2")]).await.unwrap();
    assert_eq!(world.replicas("workers").await, 1);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_another_client_sets_between_two_attempts_prevents_a_lower_size() {
    let world = booted(3).await;
    let server = world.start().await;
    let slow = world.fault(sim::faults::Action::Delay(s(1)), LOWER, 1);
    let id = id("m-1");
    let victims = [id.as_str()];
    let other = async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        annotate(&world, &machine("m-0"), MARK, "theirs".into()).await;
        annotate(&world, &deployment("workers"), "conflict", "yes".into()).await;
    };
    let (deleted, ()) = tokio::join!(server.delete(GROUP, &victims), other);
    let (code, message) = deleted.unwrap_err();
    assert_eq!(code, FAILED_PRECONDITION);
    assert!(message.contains("Machine m-0 has the annotation"), "{message}");
    assert_eq!(world.replicas("workers").await, 3);
    drop(slow);
    tokio::time::sleep(s(15)).await;
    assert_eq!(marked(&world).await, ["m-0"]);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn machines_that_are_known_to_be_gone_leave_the_ledger_behind_many_unknown_ones() {
    let world = booted(3).await;
    let server = world.start().await;
    server.delete(GROUP, &[&id("m-1")]).await.unwrap();
    world.reconcile().await;
    let ledger = || async {
        let annotations = &world.management.get(&deployment("workers")).await["metadata"];
        let text = annotations["annotations"][COUNTED].as_str().unwrap().to_owned();
        serde_json::from_str::<serde_json::Map<String, Value>>(&text).unwrap()
    };
    let mut counted = ledger().await;
    counted.extend((0..25).map(|n| (format!("a-{n:02}"), format!("uid-{n}").into())));
    annotate(&world, &deployment("workers"), COUNTED, Value::from(counted).to_string().into())
        .await;
    tokio::time::sleep(s(1)).await;
    server.delete(GROUP, &[&id("m-2")]).await.unwrap();
    let left: Vec<String> = ledger().await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(left, ["a-20", "a-21", "a-22", "a-23", "a-24", "m-2"], "20 of them were looked up");
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_conflicts_is_repeated_and_its_machine_stays_an_instance() {
    let world = booted(2).await;
    let server = world.start().await;
    let conflict = sim::faults::Action::KubeStatus(sim::faults::KubeStatus::new(409));
    let fault = world.fault(conflict, "delete machines", 1);
    server.delete(GROUP, &[&id("m-1")]).await.unwrap();
    let set = format!("{}/workers-a", collection(NAMESPACE, "machinesets"));
    world.management.patch(&set, json!({"spec": {"replicas": 1}})).await;
    tokio::time::sleep(s(1)).await;
    assert_eq!(world.management.n_calls("delete machines"), 1);
    assert_eq!(server.instances(GROUP).await[1], format!("{} deleting", id("m-1")));
    tokio::time::sleep(s(15)).await;
    assert_eq!(world.machines().await, ["m-0"]);
    drop(fault);
    server.stop().await;
}
