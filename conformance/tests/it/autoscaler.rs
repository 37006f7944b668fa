//! Tests our server for the Cluster Autoscaler over a Supervisor, in virtual time: a client of the
//! protocol changes groups, and the machines in vCenter must follow.

use std::time::Duration;

use conformance::lab::autoscaler::{
    Credentials, DeleteNodes, Empty, Endpoint as _, Groups, OfGroup, OfNode, OneGroup, Ours,
    Resize, SentNode, Template,
};
use prost::Message;
use sim::faults::{Action, KubeStatus, Rule};
use sim::world::objects::{self, GroupResource};
use sim::world::supervisor::OperatorChange;
use sim::world::vcenter::Power;
use sim::world::{Command, ControlPlane, World};
use sim::{RuleGuard, Sim};

use super::autoscaler_server::Server;

/// Machines of a group, in a file with groups.
pub(crate) const MACHINE: &str = "machine: {className: best-effort-small, \
                                  imageName: vmi-0123456789abcdef0, storageClass: gold, \
                                  bootstrap: {secretName: workers-bootstrap}}";
pub(crate) const GROUP: &str = "VirtualMachine/workloads/workers";
const OTHER: &str = "VirtualMachine/workloads/others";
const DEADLINE: Duration = Duration::from_secs(5);
const FAILED_PRECONDITION: i32 = 9;
const NOT_FOUND: i32 = 5;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A file with the groups `workers` and `others`.
fn file(min: u32) -> String {
    format!(
        "groups:\n- {{name: workers, min: {min}, max: 5, {MACHINE}}}\n\
         - {{name: others, max: 5, {MACHINE}}}\n"
    )
}

/// Starts our server over the Supervisor of a sim without machines.
async fn start(file: String, seed: u64) -> Server {
    let ours = Ours::start(file, seed, false).await.unwrap();
    Server::connected(&ours, GROUP).await
}

/// Returns the provider IDs of the machines in vCenter that are powered on, in order.
pub(crate) fn running(sim: &Sim) -> Vec<String> {
    let state = sim.world().read(|world| World::state(world).clone());
    let vcenter = state.vcenter("vc0").unwrap();
    let on = vcenter.inventory.machines().filter(|(_, _, it)| it.power == Power::PoweredOn);
    let mut ids: Vec<String> =
        on.map(|(_, _, it)| format!("vsphere://{}", it.config.uuid.unwrap())).collect();
    ids.sort();
    ids
}

/// Returns the number of VirtualMachine objects.
pub(crate) fn objects(sim: &Sim) -> usize {
    let machines = GroupResource::of("vmoperator.vmware.com", "virtualmachines");
    sim.world().read(|world| World::state(world).objects(ControlPlane::Supervisor).count(&machines))
}

/// Returns the events about machines as `REASON COUNT of NAME: MESSAGE`, in order.
fn events(sim: &Sim) -> Vec<String> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let shown = |event: &serde_json::Value| {
        let about = &event["involvedObject"];
        assert_eq!(
            (&*text(&about["kind"]), &*text(&about["namespace"]), &*text(&about["apiVersion"])),
            ("VirtualMachine", "workloads", "vmoperator.vmware.com/v1alpha5")
        );
        assert_eq!(event["metadata"]["namespace"], "workloads");
        let is_named = about["uid"].as_str().is_some_and(|uid| !uid.is_empty());
        let is_failed = event["reason"] == "ScaleUpFailed";
        assert_ne!(is_named, is_failed, "an object that was never made has no UID");
        let name = text(&about["name"]);
        let (reason, message) = (text(&event["reason"]), text(&event["message"]));
        format!("{reason} {} of {name}: {message}", event["count"])
    };
    let of_core = GroupResource::core("events");
    let mut events: Vec<String> = sim.world().read(|world| {
        let all = World::state(world).objects(ControlPlane::Supervisor).all(&of_core);
        all.filter(|it| it["source"]["component"] == "cluster-autoscaler-provider")
            .map(|it| shown(it))
            .collect()
    });
    events.sort();
    events
}

fn event_calls(sim: &Sim) -> usize {
    sim.ledger().records().iter().filter(|it| it.op == "create events").count()
}

/// Returns the number of VirtualMachines that were created.
fn objects_made(sim: &Sim) -> usize {
    let records = sim.ledger().records();
    let made = |it: &&sim::ledger::Record| {
        it.op == "create virtualmachines"
            && it.ended.as_ref().is_some_and(|it| it.status == Some(201))
    };
    records.iter().filter(made).count()
}

/// Returns the names of the VirtualMachine objects, in order.
fn names(sim: &Sim) -> Vec<String> {
    let machines = GroupResource::of("vmoperator.vmware.com", "virtualmachines");
    let name = |it: &serde_json::Value| it["metadata"]["name"].as_str().unwrap().to_owned();
    let mut names: Vec<String> = sim.world().read(|world| {
        let all = World::state(world).objects(ControlPlane::Supervisor).all(&machines);
        all.map(|it| name(it)).collect()
    });
    names.sort();
    names
}

/// Makes VM Operator reconcile, or not.
fn reconciles(sim: &Sim, reconciles: bool) {
    let change = OperatorChange { reconciles: Some(reconciles), ..OperatorChange::default() };
    sim.apply(Command::SetVmOperator(change)).unwrap();
}

fn fake(id: &str) -> SentNode {
    SentNode::fake(id, "unregistered")
}

#[tokio::test(start_paused = true)]
async fn a_group_grows_from_zero_and_shrinks_to_zero() {
    let server = start(file(0), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    let groups = server.call::<Groups>("NodeGroups", Empty {}).await.groups;
    let shown: Vec<_> = groups.iter().map(|it| (&*it.id, it.min_size, it.max_size)).collect();
    assert_eq!(shown, [(GROUP, 0, 5), (OTHER, 0, 5)]);
    let template = server.call::<Template>("NodeGroupTemplateNodeInfo", OfGroup::new(GROUP)).await;
    assert!(!template.old.is_empty() && template.old == template.new);

    server.increase(3).await;
    assert_eq!((server.target().await, server.states().await), (3, vec![2, 2, 2]));
    tokio::time::sleep(s(120)).await;
    assert_eq!(server.states().await, [1, 1, 1]);
    let instances = server.ids().await;
    assert_eq!(running(sim), instances, "the ids are those of the machines");

    let delete = |ids: &[String]| DeleteNodes::new(GROUP, ids.iter().map(|id| fake(id)));
    server.call::<Empty>("NodeGroupDeleteNodes", delete(&instances[..2])).await;
    assert_eq!(server.target().await, 1, "at once");
    server.call::<Empty>("NodeGroupDeleteNodes", delete(&instances[..2])).await;
    assert_eq!(server.target().await, 1, "a repeated deletion changes nothing");
    tokio::time::sleep(s(60)).await;
    assert_eq!(running(sim), instances[2..], "the machine that was not named stays");
    server.call::<Empty>("NodeGroupDeleteNodes", delete(&instances)).await;
    tokio::time::sleep(s(60)).await;
    assert_eq!((server.target().await, running(sim), objects(sim)), (0, Vec::new(), 0));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn new_machines_join_the_cluster_with_the_bootstrap_data_of_their_group() {
    let server = start(file(0), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    let token = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bootstrap-token-abcdef"},
        "stringData": {
            "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
        },
    });
    let secrets = GroupResource::core("secrets");
    let create = objects::Command::create(secrets.clone(), "kube-system", token);
    sim.apply(Command::Cluster(create)).unwrap();
    let data = "runcmd:\n- kubeadm join 192.0.2.1:6443 --token abcdef.0123456789abcdef\n";
    let patch = serde_json::json!({"stringData": {"user-data": data}});
    let key = objects::Key::new(secrets, "workloads", "workers-bootstrap");
    let patch = objects::Command::patch(key, objects::PatchKind::Merge, patch);
    sim.apply(Command::Supervisor(patch)).unwrap();

    server.increase(2).await;
    tokio::time::sleep(s(120)).await;
    let nodes: Vec<String> = sim.world().read(|world| {
        let nodes = GroupResource::core("nodes");
        let all = World::state(world).objects(ControlPlane::Workload).all(&nodes);
        all.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    });
    assert_eq!(nodes, names(sim));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_wrong_request_changes_nothing() {
    let server = start(file(1), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    server.increase(2).await;
    tokio::time::sleep(s(120)).await;
    let before = server.ids().await;
    let (first, unknown) =
        (fake(&before[0]), fake("vsphere://42290000-0000-4000-8000-000000000009"));
    let delete =
        |group: &str, nodes: &[&SentNode]| DeleteNodes::new(group, nodes.iter().copied().cloned());
    for (method, request, code) in [
        ("NodeGroupDeleteNodes", delete(GROUP, &[&first, &unknown]), NOT_FOUND),
        ("NodeGroupDeleteNodes", delete(OTHER, &[&first]), FAILED_PRECONDITION),
        ("NodeGroupDeleteNodes", delete("nowhere", &[&first]), NOT_FOUND),
        ("NodeGroupDeleteNodes", delete(GROUP, &[&first, &fake(&before[1])]), FAILED_PRECONDITION),
    ] {
        assert_eq!(server.code(method, request).await, code);
    }
    for (delta, code) in
        [(4, FAILED_PRECONDITION), (i32::MAX, FAILED_PRECONDITION), (0, 3), (-1, 3)]
    {
        let request = Resize::new(GROUP, delta);
        assert_eq!(server.code("NodeGroupIncreaseSize", request).await, code, "{delta}");
    }
    for (delta, code) in [(-1, FAILED_PRECONDITION), (0, 3), (1, 3)] {
        let request = Resize::new(GROUP, delta);
        assert_eq!(server.code("NodeGroupDecreaseTargetSize", request).await, code, "{delta}");
    }
    assert_eq!(server.ids().await, before);
    assert_eq!((server.target().await, running(sim)), (2, before));
    let foreign = OfNode { node: Some(SentNode::new("kind://x/y", "workers-abcde")) };
    let answer = server.call::<OneGroup>("NodeGroupForNode", foreign).await;
    assert_eq!(answer.group.unwrap_or_default().id, "", "a foreign node is no error");
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_increase_that_fails_leaves_no_machine() {
    // The fault: the second creation is refused, breaks before its effect, or breaks after it.
    let refused = || Rule::new("fault", [Action::KubeStatus(KubeStatus::new(500))]);
    let cut = || Rule::new("fault", [Action::Reset]);
    for (name, rule) in [
        ("refused", refused().nth(2)),
        ("cut before", cut().after(1)),
        ("cut after", cut().after(1).applied()),
    ] {
        let server = start(file(0), 1).await;
        let ours = server.ours.clone();
        let sim = ours.sim();
        let rule =
            sim.fault(rule.on(sim::Face::Supervisor).op(["create virtualmachines"])).unwrap();
        let failed = server.try_call::<Empty>("NodeGroupIncreaseSize", Resize::new(GROUP, 3)).await;
        assert!(failed.is_err(), "{name}");
        assert_eq!((server.target().await, server.states().await), (0, Vec::new()), "{name}");
        drop(rule);
        tokio::time::sleep(s(180)).await;
        assert_eq!((objects(sim), running(sim)), (0, Vec::new()), "{name}");
        assert_eq!(server.target().await, 0, "{name}");
        server.increase(1).await;
        assert_eq!(server.target().await, 1, "{name}: the server still works");
        server.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_the_groups_and_repeats_no_name() {
    let server = start(file(0), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    server.increase(2).await;
    let before = server.ids().await;
    ours.kill();
    let server = Server::started(&ours, GROUP, 1).await;
    assert_eq!(server.ids().await, before, "with the same seed");
    server.increase(2).await;
    assert_eq!((server.target().await, objects(sim)), (4, 4));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_increase_undoes_no_machine_of_an_earlier_process_with_the_same_names() {
    let server = start(file(0), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    server.increase(2).await;
    tokio::time::sleep(s(120)).await;
    let before = server.ids().await;
    server.stop().await;
    // With the same seed at the same time, the new process draws the names of the old one first.
    let server = Server::started(&ours, GROUP, 1).await;
    for rule in [
        Rule::new("refused", [Action::KubeStatus(KubeStatus::new(500))])
            .op(["create virtualmachines"]),
        Rule::new("unread", [Action::Reset]).op(["get virtualmachines", "create virtualmachines"]),
    ] {
        let rule = sim.fault(rule.on(sim::Face::Supervisor)).unwrap();
        let failed = server.try_call::<Empty>("NodeGroupIncreaseSize", Resize::new(GROUP, 2)).await;
        assert!(failed.is_err());
        drop(rule);
        tokio::time::sleep(s(180)).await;
        assert_eq!(running(sim), before);
        assert_eq!((server.target().await, server.ids().await), (2, before.clone()));
    }
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_machines_that_do_not_exist_yet_are_given_up() {
    let server = start(file(0), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    server.increase(1).await;
    tokio::time::sleep(s(120)).await;
    let made = server.ids().await;
    sim.apply(Command::SetVmOperator(OperatorChange {
        reconciles: Some(false),
        ..OperatorChange::default()
    }))
    .unwrap();
    server.increase(2).await;
    let decrease = |delta| Resize::new(GROUP, delta);
    assert_eq!(server.code("NodeGroupDecreaseTargetSize", decrease(-3)).await, FAILED_PRECONDITION);
    server.call::<Empty>("NodeGroupDecreaseTargetSize", decrease(-2)).await;
    assert_eq!((server.target().await, server.ids().await), (1, made.clone()));
    sim.apply(Command::SetVmOperator(OperatorChange {
        reconciles: Some(true),
        ..OperatorChange::default()
    }))
    .unwrap();
    tokio::time::sleep(s(120)).await;
    assert_eq!((objects(sim), running(sim)), (1, made));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_quiet_hour_costs_one_list_and_changes_are_seen_in_each_watch() {
    let server = start(file(0), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    server.increase(1).await;
    tokio::time::sleep(s(3600)).await;
    let calls = |operation: &str| {
        let records = sim.ledger().records();
        records.iter().filter(|it| it.op == operation).count()
    };
    assert_eq!(calls("list virtualmachines"), 1);
    assert!(calls("watch virtualmachines") > 10, "each ends after five minutes");
    let instances = server.ids().await;
    let nodes = [fake(&instances[0])];
    server.call::<Empty>("NodeGroupDeleteNodes", DeleteNodes::new(GROUP, nodes)).await;
    tokio::time::sleep(s(60)).await;
    assert_eq!((server.states().await, objects(sim)), (Vec::new(), 0));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn refreshes_and_reads_cost_no_call_to_the_supervisor() {
    let server = start(file(0), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    server.increase(5).await;
    tokio::time::sleep(s(120)).await;
    let before = sim.ledger().next_seq();
    for _ in 0..20 {
        server.call::<Empty>("Refresh", Empty {}).await;
        server.call::<Groups>("NodeGroups", Empty {}).await;
        server.target().await;
        server.instances().await;
    }
    assert_eq!(sim.ledger().next_seq(), before);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_machine_has_an_event_that_names_the_call() {
    let server = start(file(0), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    server.increase(2).await;
    tokio::time::sleep(s(120)).await;
    let names = names(sim);
    let up = |name: &String| {
        format!(
            "ScaledUp 1 of {name}: Created the machine for NodeGroupIncreaseSize by 2 of group {GROUP}"
        )
    };
    assert_eq!(events(sim), names.iter().map(up).collect::<Vec<_>>());

    let instances = server.instances().await;
    let mut node = fake(&instances[0].id);
    node.name = "a-node".to_owned();
    let delete = DeleteNodes::new(GROUP, [node]);
    server.call::<Empty>("NodeGroupDeleteNodes", delete.clone()).await;
    server.call::<Empty>("NodeGroupDeleteNodes", delete).await;
    tokio::time::sleep(s(60)).await;
    let down: Vec<String> = events(sim).into_iter().filter(|it| it.contains("Down")).collect();
    let want =
        format!("Deleted the machine for NodeGroupDeleteNodes of node a-node in group {GROUP}");
    assert_eq!(down.len(), 1, "a repeated deletion has no event: {down:?}");
    assert!(down[0].ends_with(&want), "{down:?}");

    reconciles(sim, false);
    server.increase(1).await;
    server.call::<Empty>("NodeGroupDecreaseTargetSize", Resize::new(GROUP, -1)).await;
    tokio::time::sleep(s(1)).await;
    let want = format!("NodeGroupDecreaseTargetSize by -1 of group {GROUP}");
    let gave_up = events(sim).into_iter().filter(|it| it.ends_with(&want)).count();
    assert_eq!((gave_up, events(sim).len()), (1, 5));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_change_has_one_event_per_machine_and_says_why() {
    let server = start(file(0), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    let refused = Rule::new("refused", [Action::KubeStatus(KubeStatus::new(500))]).nth(2);
    let rule = sim.fault(refused.on(sim::Face::Supervisor).op(["create virtualmachines"])).unwrap();
    assert!(
        server.try_call::<Empty>("NodeGroupIncreaseSize", Resize::new(GROUP, 3)).await.is_err()
    );
    drop(rule);
    tokio::time::sleep(s(180)).await;
    let reasons = |sim: &Sim| -> Vec<String> {
        let reason = |it: &String| it.split(" of ").next().unwrap_or_default().to_owned();
        events(sim).iter().map(reason).collect()
    };
    let of_failure = reasons(sim);
    let count = |reason: &str| of_failure.iter().filter(|it| **it == format!("{reason} 1")).count();
    assert_eq!(count("ScaleUpFailed"), 1, "{of_failure:?}");
    assert_eq!(count("ScaleUpUndone"), objects_made(sim), "{of_failure:?}");
    let why = events(sim).into_iter().find(|it| it.starts_with("ScaleUpFailed")).unwrap();
    assert!(why.contains("was answered with 500"), "{why}");

    server.increase(1).await;
    let cut = Rule::new("cut", [Action::Reset]).applied();
    let rule = sim.fault(cut.on(sim::Face::Supervisor).op(["delete virtualmachines"])).unwrap();
    let instances = server.ids().await;
    let delete = DeleteNodes::new(GROUP, [fake(&instances[0])]);
    assert!(server.try_call::<Empty>("NodeGroupDeleteNodes", delete.clone()).await.is_err());
    drop(rule);
    tokio::time::sleep(s(60)).await;
    server.call::<Empty>("NodeGroupDeleteNodes", delete).await;
    let last = events(sim);
    let failed = last.iter().filter(|it| it.starts_with("ScaleDownFailed")).count();
    assert_eq!((failed, objects(sim)), (1, 0), "{last:?}");
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn events_that_cannot_be_written_fail_no_call_and_are_not_repeated() {
    let server = start(file(0), 1).await;
    let ours = server.ours.clone();
    let sim = ours.sim();
    for code in [403, 429] {
        let before = event_calls(sim);
        let refused = Rule::new("refused", [Action::KubeStatus(KubeStatus::new(code))]);
        let rule = sim.fault(refused.on(sim::Face::Supervisor).op(["create events"])).unwrap();
        server.increase(2).await;
        tokio::time::sleep(s(3600)).await;
        assert_eq!(server.target().await, if code == 403 { 2 } else { 4 });
        let n_calls = event_calls(sim) - before;
        let most = if code == 403 { 2 } else { 2 * 9 };
        assert!((2..=most).contains(&n_calls), "{code}: {n_calls} calls");
        drop(rule);
    }
    assert_eq!(events(sim), Vec::<String>::new());
    server.stop().await;
}

/// Makes the Supervisor silent about creations.
fn silence(sim: &Sim) -> RuleGuard {
    let silent = Rule::new("silent", [Action::Blackhole]).on(sim::Face::Supervisor);
    sim.fault(silent.op(["create virtualmachines"])).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_increase_that_is_not_answered_in_time_has_an_event() {
    let server = start(file(0), 1).await;
    let ours = server.ours.clone();
    let rule = silence(ours.sim());
    let increase = Resize::new(GROUP, 3);
    assert!(server.try_call::<Empty>("NodeGroupIncreaseSize", increase).await.is_err());
    drop(rule);
    tokio::time::sleep(s(180)).await;
    let all = events(ours.sim());
    assert!(all.len() == 1 && all[0].starts_with("ScaleUpFailed"), "{all:?}");
    let failures = format!("vsphere_autoscaler_machine_failures_total{{group=\"{GROUP}\"}} 1");
    assert!(ours.metrics().lines().any(|it| it == failures), "{}", ours.metrics());
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_drops_a_change_that_hangs() {
    let server = start(file(0), 1).await;
    let ours = server.ours.clone();
    let _rule = silence(ours.sim());
    let increase = Resize::new(GROUP, 3);
    let stop = async {
        tokio::time::sleep(s(1)).await;
        let before = tokio::time::Instant::now();
        ours.stop().await;
        before.elapsed()
    };
    let call = server.channel.call::<Empty>("NodeGroupIncreaseSize", &increase, s(60));
    let (_, took) = futures::join!(call, stop);
    assert!(took < s(12), "the stop took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn events_of_the_last_change_are_written_before_the_server_stops() {
    let server = start(file(0), 1).await;
    let ours = server.ours.clone();
    server.increase(5).await;
    let before = tokio::time::Instant::now();
    server.stop().await;
    assert_eq!(events(ours.sim()).len(), 5);
    assert!(before.elapsed() < s(5), "the stop took {:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn metrics_show_the_groups_and_the_calls_and_cost_no_call() {
    let server = start(file(0), 1).await;
    let ours = server.ours.clone();
    server.increase(2).await;
    assert_eq!(server.code("NodeGroupTargetSize", OfGroup::new("nowhere")).await, NOT_FOUND);
    assert_eq!(server.code("NoSuchMethod", Empty {}).await, 12);
    tokio::time::sleep(s(120)).await;
    let before = ours.sim().ledger().next_seq();
    let text = ours.metrics();
    assert_eq!(ours.sim().ledger().next_seq(), before);
    let service = "grpc_service=\"clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider\"";
    for line in [
        format!(
            "grpc_server_handled_total{{{service},grpc_method=\"NodeGroupIncreaseSize\",grpc_code=\"OK\"}} 1"
        ),
        format!(
            "grpc_server_handled_total{{{service},grpc_method=\"NodeGroupTargetSize\",grpc_code=\"NotFound\"}} 1"
        ),
        format!(
            "grpc_server_handled_total{{{service},grpc_method=\"other\",grpc_code=\"Unimplemented\"}} 1"
        ),
        format!("vsphere_autoscaler_machines_created_total{{group=\"{GROUP}\"}} 2"),
        format!("vsphere_autoscaler_machines_deleted_total{{group=\"{GROUP}\"}} 0"),
        format!("vsphere_autoscaler_group_size{{group=\"{GROUP}\"}} 2"),
        format!("vsphere_autoscaler_group_size{{group=\"{OTHER}\"}} 0"),
        format!("vsphere_autoscaler_group_max{{group=\"{OTHER}\"}} 5"),
        "rest_client_requests_total{server=\"supervisor\",method=\"POST\",code=\"201\"} 4"
            .to_owned(),
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\nin\n{text}");
    }
    assert!(!text.contains("nowhere") && !text.contains("NoSuchMethod"), "{text}");
    server.stop().await;
}

/// `ServerReflectionRequest` of gRPC reflection.
#[derive(Clone, PartialEq, Message)]
struct ReflectionRequest {
    #[prost(string, optional, tag = "4")]
    file_containing_symbol: Option<String>,
    #[prost(string, optional, tag = "7")]
    list_services: Option<String>,
}

#[tokio::test(start_paused = true)]
async fn reflection_describes_the_service_to_clients_with_a_certificate_only() {
    let ours = Ours::start(file(0), 1, true).await.unwrap();
    const PATH: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    let ask = async |request: ReflectionRequest| {
        let channel = Server::connected(&ours, GROUP).await.channel;
        let request = request.encode_to_vec().into();
        let answer = channel.call_path(PATH, request, DEADLINE).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let service = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider";
    let list = ReflectionRequest { list_services: Some(String::new()), ..Default::default() };
    let listed = ask(list.clone()).await;
    for name in [service, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"] {
        assert!(listed.contains(name), "{name} is not in {listed}");
    }
    let symbol = ReflectionRequest {
        file_containing_symbol: Some(service.to_owned()),
        ..Default::default()
    };
    assert!(ask(symbol).await.contains("NodeGroupIncreaseSize"));
    for credentials in [Credentials::None, Credentials::Stranger] {
        if let Ok(connection) = ours.connect(credentials).await {
            let request = list.encode_to_vec().into();
            assert!(connection.channel.call_path(PATH, request, DEADLINE).await.is_err());
        }
    }
    ours.stop().await;
}
