//! Changes of sizes by increases, deletions and decreases, as the objects show them.

use serde_json::{Value, json};
use sim::faults::{Action, KubeStatus};

use super::{
    FAILED_PRECONDITION, GROUP, NOT_FOUND,
    world::{MARK, NAMESPACE, World, annotations, deployment, id, machine},
};
use crate::capacity::s;

/// Operation of the requests that lower a size.
pub(super) const LOWER: &str = "patch machinedeployments";
/// Operation of the requests that raise a size.
pub(super) const RAISE: &str = "patch machinedeployments/scale";

/// Returns the events of the server as `REASON of KIND NAME: MESSAGE`, in order.
async fn events(world: &World) -> Vec<String> {
    let list = world.management.get(&format!("/api/v1/namespaces/{NAMESPACE}/events")).await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let shown = |it: &Value| {
        assert_eq!(it["source"]["component"], "cluster-autoscaler-provider");
        let about = &it["involvedObject"];
        assert_eq!(about["apiVersion"], "cluster.x-k8s.io/v1beta2");
        let (kind, name) = (text(&about["kind"]), text(&about["name"]));
        format!("{} of {kind} {name}: {}", text(&it["reason"]), text(&it["message"]))
    };
    list["items"].as_array().unwrap().iter().map(shown).collect()
}

#[tokio::test(start_paused = true)]
async fn a_group_grows_from_zero_and_shrinks_to_zero_by_the_named_machines() {
    let world = World::with_workers(0).await;
    let server = world.start().await;
    server.increase(GROUP, 3).await.unwrap();
    assert_eq!((server.target(GROUP).await, world.replicas("workers").await), (3, 3));
    assert_eq!(server.instances(GROUP).await, [""; 0]);
    world.reconcile().await;
    let pending =
        ["m-0", "m-1", "m-2"].map(|name| format!("pending-machine-workloads_{name} creating"));
    assert_eq!(server.instances(GROUP).await, pending);
    world.boot(&["m-0", "m-1", "m-2"]).await;
    let running = ["m-0", "m-1", "m-2"].map(|name| format!("{} running", id(name)));
    assert_eq!(server.instances(GROUP).await, running);
    assert_eq!(server.group_of(&id("m-1"), "any").await, GROUP);
    assert_eq!(server.group_of("", "m-1").await, GROUP);
    assert_eq!(server.group_of(&id("m-1").to_uppercase(), "m-1").await, "");

    server.delete(GROUP, &[&id("m-1"), &id("m-2")]).await.unwrap();
    assert_eq!((server.target(GROUP).await, world.replicas("workers").await), (1, 1));
    let left =
        [running[0].clone(), format!("{} deleting", id("m-1")), format!("{} deleting", id("m-2"))];
    assert_eq!(server.instances(GROUP).await, left);
    world.reconcile().await;
    assert_eq!(world.machines().await, ["m-0"]);
    assert_eq!(server.instances(GROUP).await, running[..1]);
    server.delete(GROUP, &[&id("m-0")]).await.unwrap();
    world.reconcile().await;
    assert_eq!((world.machines().await.len(), server.target(GROUP).await), (0, 0));
    tokio::time::sleep(s(5)).await;
    let deleted = |name: &str| {
        let id = id(name);
        format!(
            "ScaledDown of Machine {name}: Deleted the machine for NodeGroupDeleteNodes of node {id} in group {GROUP}"
        )
    };
    let raised = format!(
        "ScaledUp of MachineDeployment workers: Raised the size to 3 for NodeGroupIncreaseSize by 3 of group {GROUP}"
    );
    let mut said = events(&world).await;
    said.sort();
    assert_eq!(said, [deleted("m-0"), deleted("m-1"), deleted("m-2"), raised]);
    let metrics = server.telemetry.metrics();
    for name in ["created", "deleted"] {
        let line = format!("vsphere_autoscaler_machines_{name}_total{{group=\"{GROUP}\"}} 3\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_wrong_request_changes_nothing() {
    let world = World::with_workers(3).await;
    world.create_deployment(NAMESPACE, "others", &annotations(0, 5), 1).await;
    world.reconcile().await;
    world.boot(&["m-0", "m-1", "m-2", "m-3"]).await;
    let server = world.start().await;
    assert_eq!(server.instances("MachineDeployment/workloads/others").await.len(), 1);
    let code = async |ids: &[&str]| server.delete(GROUP, ids).await.unwrap_err().0;
    assert_eq!(code(&[&id("m-0"), &id("m-3")]).await, FAILED_PRECONDITION, "of another group");
    assert_eq!(code(&[&id("m-0"), &id("m-9")]).await, NOT_FOUND);
    assert_eq!(code(&["pending-machine-workloads_m-0"]).await, NOT_FOUND, "it has a provider ID");
    assert_eq!(server.increase(GROUP, 3).await.unwrap_err().0, FAILED_PRECONDITION);
    assert_eq!(server.decrease(GROUP, -1).await.unwrap_err().0, FAILED_PRECONDITION);
    let bound = json!({"metadata": {"annotations": annotations(3, 5)}});
    world.management.patch(&deployment("workers"), bound).await;
    tokio::time::sleep(s(1)).await;
    assert_eq!(code(&[&id("m-0")]).await, FAILED_PRECONDITION, "below the minimum");
    for operation in [LOWER, RAISE, "patch machines", "delete machines"] {
        assert_eq!(world.management.n_calls(operation), 0, "{operation}");
    }
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_repeated_deletion_changes_nothing() {
    let world = World::with_workers(3).await;
    world.boot(&["m-0", "m-1", "m-2"]).await;
    let server = world.start().await;
    for _ in 0..3 {
        server.delete(GROUP, &[&id("m-1"), &id("m-1")]).await.unwrap();
    }
    world.reconcile().await;
    server.delete(GROUP, &[&id("m-1")]).await.unwrap();
    assert_eq!((server.target(GROUP).await, world.machines().await.len()), (2, 2));
    assert_eq!(world.management.n_calls(LOWER), 1);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_raise_whose_answer_is_lost_takes_effect_once() {
    let world = World::with_workers(0).await;
    let server = world.start().await;
    for (lost, is_applied) in [(Action::truncate(0), true), (Action::Reset, false)] {
        let before = world.replicas("workers").await;
        let n_calls = world.management.n_calls(RAISE);
        let fault = world.fault(lost, RAISE, 1);
        server.increase(GROUP, 2).await.unwrap();
        assert_eq!(world.replicas("workers").await, before + 2);
        let n_sent = if is_applied { 1 } else { 2 };
        assert_eq!(world.management.n_calls(RAISE) - n_calls, n_sent);
        drop(fault);
    }
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_raise_that_conflicts_counts_the_size_of_the_other_client() {
    let world = World::with_workers(1).await;
    let server = world.start().await;
    let slow = world.fault(Action::Delay(s(1)), RAISE, 1);
    let raise = server.increase(GROUP, 2);
    let other = async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        world.management.patch(&deployment("workers"), json!({"spec": {"replicas": 2}})).await;
    };
    let (raised, ()) = tokio::join!(raise, other);
    raised.unwrap();
    assert_eq!((world.replicas("workers").await, server.target(GROUP).await), (4, 4));
    drop(slow);
    // Another client raises the size during the next raise, which then exceeds the maximum.
    let slow = world.fault(Action::Delay(s(1)), RAISE, 1);
    let raise = server.increase(GROUP, 1);
    let other = async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        world.management.patch(&deployment("workers"), json!({"spec": {"replicas": 5}})).await;
    };
    let (raised, ()) = tokio::join!(raise, other);
    assert_eq!(raised.unwrap_err().0, FAILED_PRECONDITION);
    assert_eq!(world.replicas("workers").await, 5);
    drop(slow);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_that_rolls_out_is_not_made_smaller() {
    let world = World::with_workers(2).await;
    world.boot(&["m-0", "m-1"]).await;
    let owner = world.management.get(&deployment("workers")).await;
    let uid = &owner["metadata"]["uid"];
    world.create_set("workers-b", Some(("workers", uid)), 1, &json!({})).await;
    let server = world.start().await;
    let (code, message) = server.delete(GROUP, &[&id("m-0")]).await.unwrap_err();
    assert_eq!(code, FAILED_PRECONDITION);
    assert!(message.contains("rolls out"), "{message}");
    assert_eq!(
        (world.replicas("workers").await, world.management.n_calls("patch machines")),
        (2, 0)
    );
    server.increase(GROUP, 1).await.unwrap();
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_mark_of_another_client_prevents_a_lower_size() {
    let world = World::with_workers(2).await;
    world.boot(&["m-0", "m-1"]).await;
    let mark = json!({"metadata": {"annotations": {MARK: "yes"}}});
    world.management.patch(&machine("m-0"), mark).await;
    let server = world.start().await;
    let (code, message) = server.delete(GROUP, &[&id("m-1")]).await.unwrap_err();
    assert_eq!(code, FAILED_PRECONDITION);
    assert!(message.contains("Machine m-0 has the annotation"), "{message}");
    assert_eq!(
        (world.replicas("workers").await, world.management.n_calls("patch machines")),
        (2, 0)
    );
    server.delete(GROUP, &[&id("m-0")]).await.unwrap();
    world.reconcile().await;
    assert_eq!(world.machines().await, ["m-1"]);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_decrease_gives_up_machines_without_machine_object_and_then_pending_ones() {
    let world = World::with_workers(3).await;
    world.boot(&["m-0"]).await;
    let more = json!({"spec": {"replicas": 5}});
    world.management.patch(&deployment("workers"), more).await;
    let server = world.start().await;
    server.decrease(GROUP, -2).await.unwrap();
    assert_eq!(world.management.n_calls("patch machines"), 0);
    server.decrease(GROUP, -1).await.unwrap();
    world.reconcile().await;
    assert_eq!(
        (server.target(GROUP).await, world.machines().await),
        (2, vec!["m-0".into(), "m-1".into()])
    );
    // The infrastructure makes the last pending machine, before the server knows.
    let slow = world.delay_watch("machines").await;
    world.boot(&["m-1"]).await;
    assert_eq!(server.decrease(GROUP, -1).await.unwrap_err().0, FAILED_PRECONDITION);
    assert_eq!((world.replicas("workers").await, world.machines().await.len()), (2, 2));
    drop(slow);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_machine_is_told_and_is_replaced_in_a_group_at_its_minimum() {
    let world = World::new().await;
    world.create_deployment(NAMESPACE, "workers", &annotations(2, 5), 2).await;
    world.reconcile().await;
    world.boot(&["m-0"]).await;
    let failed = |message: &str| {
        json!({"status": {"phase": "Failed", "deprecated": {"v1beta1": {
            "failureReason": "CreateError", "failureMessage": message}}}})
    };
    let path = format!("{}/status", machine("m-1"));
    let server = world.start().await;
    let instance = "failed-machine-workloads_m-1";
    for (message, want) in [
        ("no such template", "ProvisioningFailed 99"),
        ("Insufficient CPU", "INSUFFICIENT_RESOURCES 1"),
    ] {
        world.management.patch(&path, failed(message)).await;
        tokio::time::sleep(s(1)).await;
        let told = server.instances(GROUP).await;
        assert_eq!(told[1], format!("{instance} creating {want}"));
    }
    server.delete(GROUP, &[instance]).await.unwrap();
    server.delete(GROUP, &[instance]).await.unwrap();
    assert_eq!(server.instances(GROUP).await[1], "deleting-machine-workloads_m-1 deleting");
    tokio::time::sleep(s(15)).await;
    assert_eq!(world.machines().await, ["m-0", "m-1"], "not before 30 s");
    tokio::time::sleep(s(30)).await;
    world.reconcile().await;
    world.reconcile().await;
    assert_eq!(
        (server.target(GROUP).await, world.machines().await),
        (2, vec!["m-0".into(), "m-2".into()])
    );
    assert_eq!(world.management.n_calls(LOWER), 0);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_provider_id_of_the_infrastructure_machine_is_used_as_soon_as_it_has_one() {
    let world = World::with_workers(1).await;
    let object = json!({
        "apiVersion": "vmware.infrastructure.cluster.x-k8s.io/v1beta2", "kind": "VSphereMachine",
        "metadata": {"name": "m-0"}, "spec": {"providerID": id("m-0")},
    });
    let server = world.start().await;
    assert_eq!(server.instances(GROUP).await, ["pending-machine-workloads_m-0 creating"]);
    world.management.create(&super::world::infrastructure("vspheremachines"), object).await;
    tokio::time::sleep(s(1)).await;
    assert_eq!(server.instances(GROUP).await, [format!("{} creating", id("m-0"))]);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_size_that_cannot_be_lowered_takes_the_marks_back() {
    let world = World::with_workers(2).await;
    world.boot(&["m-0", "m-1"]).await;
    let server = world.start().await;
    let refused = Action::KubeStatus(KubeStatus::new(403));
    let fault = world.fault(refused, LOWER, 1);
    let (code, _) = server.delete(GROUP, &[&id("m-0")]).await.unwrap_err();
    assert_eq!(code, 7, "permission denied");
    drop(fault);
    tokio::time::sleep(s(15)).await;
    let machine = world.management.get(&machine("m-0")).await;
    assert_eq!(machine["metadata"]["annotations"].get(MARK), None);
    assert_eq!((server.target(GROUP).await, world.machines().await.len()), (2, 2));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_decrease_gives_up_no_machine_that_cluster_api_has_made_meanwhile() {
    let world = World::with_workers(1).await;
    world.boot(&["m-0"]).await;
    let server = world.start().await;
    server.increase(GROUP, 2).await.unwrap();
    let status = json!({"status": {"replicas": 2}});
    world.management.patch(&format!("{}/status", deployment("workers")), status).await;
    assert_eq!(server.decrease(GROUP, -2).await.unwrap_err().0, FAILED_PRECONDITION);
    server.decrease(GROUP, -1).await.unwrap();
    assert_eq!(world.replicas("workers").await, 2);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_set_without_machine_deployment_is_a_group() {
    let world = World::new().await;
    world.create_set("own", None, 0, &annotations(0, 5)).await;
    let server = world.start().await;
    let group = "MachineSet/workloads/own";
    server.increase(group, 3).await.unwrap();
    world.reconcile().await;
    world.boot(&["m-0", "m-1", "m-2"]).await;
    server.delete(group, &[&id("m-1")]).await.unwrap();
    world.reconcile().await;
    assert_eq!(
        (server.target(group).await, world.machines().await),
        (2, vec!["m-0".into(), "m-2".into()])
    );
    server.stop().await;
}
