//! Lives of objects: created, deleted while machines exist, changed while the watch is broken, and
//! read again by a new process.

use conformance::lab::autoscaler::{OfGroup, Resize};
use provider::NodeGroupSettings;
use serde_json::json;
use sim::faults::{Action, KubeStatus};
use sim::world::Command;
use sim::world::supervisor::OperatorChange;

use super::super::autoscaler::running;
use super::super::autoscaler_vcenter;
use super::world::{ROLE, World, clone, machine};
use super::{CLONES, GROUP, NAMESPACE, NOT_FOUND, UNAVAILABLE, s};

#[tokio::test(start_paused = true)]
async fn a_group_of_virtual_machines_is_an_object_whose_status_follows_its_size() {
    let world = World::new().await;
    world.create("workers", machine(0, 5)).await;
    world.start().await;
    assert_eq!(world.groups().await, [(GROUP.to_owned(), 0, 5)]);
    let server = world.server().await;
    let reconciles = |is: bool| {
        let change = OperatorChange { reconciles: Some(is), ..OperatorChange::default() };
        server.sim().apply(Command::SetVmOperator(change)).unwrap();
    };
    reconciles(false);
    server.increase(2).await;
    tokio::time::sleep(s(20)).await;
    let status = world.status("workers").await;
    assert_eq!((&status["targetSize"], &status["machines"]), (&json!(2), &json!(0)), "none runs");
    reconciles(true);
    tokio::time::sleep(s(120)).await;
    assert_eq!(running(server.sim()).len(), 2);
    let status = world.status("workers").await;
    let sizes = ["id", "targetSize", "machines", "observedGeneration"].map(|it| status[it].clone());
    assert_eq!(sizes, [json!(GROUP), json!(2), json!(2), json!(1)]);
    let accepted = ["True", "Accepted", "The server scales VirtualMachine/workloads/workers"];
    assert_eq!(world.accepted(NAMESPACE, "workers").await, accepted);
    let events = world.events().await;
    let want = "Normal Accepted kube-system/workers 1: The server accepts the group \
                VirtualMachine/workloads/workers";
    assert_eq!(events, [want]);
    let began = tokio::time::Instant::now();
    world.ours.stop().await;
    assert!(began.elapsed() < s(5), "the writer of events ends with the server");
}

#[tokio::test(start_paused = true)]
async fn a_server_over_a_vcenter_is_ready_without_groups_and_takes_them_as_they_come() {
    let world = World::of_clones().await;
    world.start().await;
    tokio::time::sleep(s(400)).await;
    assert_eq!((world.refresh().await, world.ours.trouble()), (Ok(()), None));
    assert_eq!(world.groups().await, []);
    world.create("workers", clone(5)).await;
    world.settle().await;
    assert_eq!(world.groups().await, [(CLONES.to_owned(), 0, 5)]);
    let server = world.server().await;
    server.increase(2).await;
    tokio::time::sleep(s(120)).await;
    assert_eq!(autoscaler_vcenter::running(server.sim()).len(), 2);
    let status = world.status("workers").await;
    assert_eq!((&status["targetSize"], &status["machines"]), (&json!(2), &json!(2)));
    world.delete("workers").await;
    tokio::time::sleep(s(900)).await;
    assert_eq!((world.refresh().await, world.ids().await), (Ok(()), Vec::new()));
    assert_eq!(autoscaler_vcenter::running(server.sim()).len(), 2, "the machines stay");
    world.create("workers", clone(5)).await;
    world.settle().await;
    assert_eq!((server.target().await, server.states().await), (2, vec![1, 1]));
    world.ours.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_whose_object_is_deleted_answers_for_a_minute_and_its_machines_stay() {
    let world = World::new().await;
    world.create("workers", machine(0, 5)).await;
    world.create("others", machine(0, 5)).await;
    world.start().await;
    let server = world.server().await;
    server.increase(2).await;
    tokio::time::sleep(s(120)).await;
    let machines = running(server.sim());
    world.delete("workers").await;
    world.refresh().await.unwrap();
    tokio::time::sleep(s(11)).await;
    assert_eq!(world.ids().await, ["VirtualMachine/workloads/others"]);
    assert_eq!((server.target().await, server.ids().await), (2, machines.clone()));
    server.increase(1).await;
    tokio::time::sleep(s(61)).await;
    let size = server.code("NodeGroupTargetSize", OfGroup::new(GROUP)).await;
    let increase = server.code("NodeGroupIncreaseSize", Resize::new(GROUP, 1)).await;
    assert_eq!((size, increase), (NOT_FOUND, NOT_FOUND));
    tokio::time::sleep(s(600)).await;
    assert_eq!(running(server.sim()).len(), 3, "no machine is deleted");
    world.create("workers", machine(0, 5)).await;
    world.settle().await;
    assert_eq!(
        (server.target().await, world.status("workers").await["machines"].as_u64()),
        (3, Some(3))
    );
    world.ours.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_waits_for_a_finalizer_is_no_group_any_more() {
    let world = World::new().await;
    world.create("workers", machine(0, 5)).await;
    world.patch("workers", json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    world.start().await;
    world.delete("workers").await;
    world.settle().await;
    assert_eq!(world.ids().await, Vec::<String>::new());
    let deleting = ["False", "Deleting", "the object is being deleted; its machines stay"];
    assert_eq!(world.accepted(NAMESPACE, "workers").await, deleting);
    assert!(world.ours.metrics().contains("vsphere_autoscaler_groups_refused 0\n"), "no mistake");
    world.patch("workers", json!({"metadata": {"finalizers": null}})).await;
    world.settle().await;
    world.create("workers", machine(0, 3)).await;
    world.settle().await;
    assert_eq!(world.groups().await, [(GROUP.to_owned(), 0, 3)]);
    world.ours.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_while_the_watch_is_broken_takes_effect_after_it() {
    let world = World::new().await;
    world.create("workers", machine(0, 5)).await;
    world.create("others", machine(0, 5)).await;
    world.start().await;
    for action in [Action::Reset, Action::KubeStatus(KubeStatus::new(503))] {
        let broken = world.fault(action, &["list nodegroups", "watch nodegroups"]);
        world.end_watches();
        tokio::time::sleep(s(5)).await;
        world.patch("workers", json!({"spec": {"max": 7}})).await;
        world.delete("others").await;
        tokio::time::sleep(s(900)).await;
        assert_eq!(world.refresh().await, Ok(()), "the known groups stay in use");
        let known = ["VirtualMachine/workloads/others", GROUP].map(str::to_owned);
        assert_eq!(world.ids().await, known);
        drop(broken);
        tokio::time::sleep(s(60)).await;
        assert_eq!(world.groups().await, [(GROUP.to_owned(), 0, 7)]);
        world.patch("workers", json!({"spec": {"max": 5}})).await;
        world.create("others", machine(0, 5)).await;
        world.settle().await;
    }
    world.ours.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_waits_for_the_definition_says_so_and_is_ready_once_it_is_there() {
    let world = World::bare(NodeGroupSettings::default()).await;
    world.grant(ROLE).await;
    world.start().await;
    let why = "the API server does not serve nodegroups.vsphere.cloud-provider; install the definition that \
               `provider autoscaler --print-crd` prints";
    for _ in 0..3 {
        assert_eq!(world.ours.trouble().as_deref(), Some(why));
        let (code, message) = world.refresh().await.unwrap_err();
        assert!(code == UNAVAILABLE && message.contains(why), "{code} {message}");
        tokio::time::sleep(s(300)).await;
    }
    world.define().await;
    world.create("workers", machine(0, 5)).await;
    tokio::time::sleep(s(70)).await;
    assert_eq!((world.refresh().await, world.ours.trouble()), (Ok(()), None));
    assert_eq!(world.ids().await, [GROUP]);
    let path =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodegroups.vsphere.cloud-provider";
    world.send("DELETE", path, None).await.unwrap();
    tokio::time::sleep(s(300)).await;
    assert_eq!(world.ours.trouble().as_deref(), Some(why), "also if it is removed later");
    world.define().await;
    world.create("workers", machine(0, 4)).await;
    tokio::time::sleep(s(70)).await;
    assert_eq!(world.groups().await, [(GROUP.to_owned(), 0, 4)]);
    world.ours.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_the_objects_of_the_chosen_namespace_are_groups() {
    let namespace = Some(NAMESPACE.to_owned());
    let settings = NodeGroupSettings { namespace, ..NodeGroupSettings::default() };
    let world = World::bare(settings).await;
    world.define().await;
    world.grant(ROLE).await;
    world.create_namespace("team").await;
    world.create("workers", machine(0, 5)).await;
    world.try_create("team", "others", machine(0, 5)).await.unwrap();
    world.start().await;
    world.settle().await;
    assert_eq!(world.ids().await, [GROUP]);
    assert_eq!(world.object("team", "others").await["status"], json!(null));
    world.ours.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_groups_and_machines_and_writes_nothing() {
    let world = World::new().await;
    world.create("workers", machine(0, 5)).await;
    world.create("wrong", json!({"min": 3, "max": 2, "machine": machine(0, 1)["machine"]})).await;
    world.start().await;
    world.server().await.increase(2).await;
    tokio::time::sleep(s(120)).await;
    let (status, events) = (world.status("workers").await, world.events().await);
    assert_eq!(events.len(), 2, "{events:?}");
    let before = (world.n_calls("patch nodegroups/status"), world.n_calls("create events"));
    world.kill();
    world.start().await;
    tokio::time::sleep(s(120)).await;
    assert_eq!(world.ids().await, [GROUP]);
    assert_eq!(world.server().await.target().await, 2);
    let after = (world.n_calls("patch nodegroups/status"), world.n_calls("create events"));
    assert_eq!((before, world.status("workers").await), (after, status));
    world.ours.stop().await;
}
