//! Which groups the server lists, and what it says about a new machine.

use externalgrpc::{kubernetes::Node, protocol as p};
use prost::Message as _;
use provider::ClusterApiSettings;
use serde_json::{Value, json};

use super::{
    GROUP,
    world::{
        CAPACITY, MAX, MIN, NAMESPACE, Server, World, annotations, deployment, infrastructure,
    },
};
use crate::capacity::s;

async fn ids(server: &Server) -> Vec<String> {
    server.groups().await.into_iter().map(|(id, ..)| id).collect()
}

async fn template(server: &Server, group: &str) -> Result<Node, (i32, String)> {
    let request = p::NodeGroupTemplateNodeInfoRequest { id: group.to_owned() };
    let answer: p::NodeGroupTemplateNodeInfoResponse =
        server.channel.call("NodeGroupTemplateNodeInfo", request).await?;
    Ok(Node::decode(&*answer.node_bytes).unwrap())
}

fn amounts(node: &Node, names: &[&str]) -> Vec<String> {
    let allocatable = &node.status.as_ref().unwrap().allocatable;
    let text = |name: &&str| {
        let amount = allocatable.get(*name).and_then(|it| it.string.clone());
        format!("{name} {}", amount.unwrap_or_default())
    };
    names.iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn groups_are_the_objects_with_a_maximum_that_are_not_paused_and_can_grow() {
    let world = World::new().await;
    let mut paused = annotations(0, 3);
    paused["cluster.x-k8s.io/paused"] = "".into();
    for (name, annotations, replicas) in [
        ("plain", annotations(1, 4), 2),
        ("paused", paused, 2),
        ("unlimited", json!({}), 2),
        ("no-maximum", json!({MAX: "0"}), 2),
        ("at-zero", json!({MAX: "3"}), 0),
        ("above-zero", json!({MAX: "3"}), 1),
    ] {
        world.create_deployment(NAMESPACE, name, &annotations, replicas).await;
    }
    world.create_set("own", None, 1, &annotations(0, 2)).await;
    let server = world.start().await;
    world.reconcile().await;
    let want = [
        ("MachineDeployment/workloads/above-zero".to_owned(), 0, 3),
        ("MachineDeployment/workloads/plain".to_owned(), 1, 4),
        ("MachineSet/workloads/own".to_owned(), 0, 2),
    ];
    assert_eq!(server.groups().await, want, "and no MachineSet of a MachineDeployment");
    assert_eq!(server.target("MachineDeployment/workloads/plain").await, 2);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_wrong_annotation_refuses_its_group_by_name_and_the_others_go_on() {
    crate::capacity::keep_log();
    let world = World::with_workers(0).await;
    world.create_deployment(NAMESPACE, "wrong", &json!({MIN: "one", MAX: "3"}), 1).await;
    let mut capacity = annotations(0, 3);
    capacity[format!("{CAPACITY}/cpu")] = "two".into();
    world.create_deployment(NAMESPACE, "strange", &capacity, 0).await;
    let server = world.start().await;
    assert_eq!(ids(&server).await, [GROUP]);
    let refused = |text: &str| {
        crate::capacity::n_logged(&["ignoring a group", "MachineDeployment/workloads/wrong", text])
    };
    let why = "cluster-api-autoscaler-node-group-min-size: \"one\" is not a number of machines; write 0 or more";
    assert_eq!(refused(why), 1);
    assert!(server.telemetry.metrics().contains("vsphere_autoscaler_groups_refused 2\n"));
    tokio::time::sleep(s(600)).await;
    world
        .management
        .patch(&deployment("workers"), json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    tokio::time::sleep(s(5)).await;
    assert_eq!(refused(why), 1, "said once");
    let corrected = json!({"metadata": {"annotations": {MIN: "1"}}});
    world.management.patch(&deployment("wrong"), corrected).await;
    tokio::time::sleep(s(1)).await;
    assert_eq!(ids(&server).await, [GROUP, "MachineDeployment/workloads/wrong"]);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_machine_offers_what_annotations_and_the_status_of_the_template_say() {
    let world = World::new().await;
    let create_template = async |name: &str, status: Value| {
        let object = json!({
            "apiVersion": "vmware.infrastructure.cluster.x-k8s.io/v1beta2",
            "kind": "VSphereMachineTemplate", "metadata": {"name": name},
        });
        let path = infrastructure("vspheremachinetemplates");
        world.management.create(&path, object).await;
        world.management.patch(&format!("{path}/{name}/status"), json!({"status": status})).await;
    };
    let status = json!({
        "capacity": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"},
        "nodeInfo": {"architecture": "arm64"},
    });
    create_template("by-status", status.clone()).await;
    create_template("by-both", status).await;
    let mut both = json!({MAX: "3"});
    both[format!("{CAPACITY}/cpu")] = "16".into();
    both[format!("{CAPACITY}/maxPods")] = "30".into();
    both[format!("{CAPACITY}/labels")] = "tier=batch".into();
    both[format!("{CAPACITY}/taints")] = "batch=yes:NoSchedule,strange=x:Never".into();
    world.create_deployment(NAMESPACE, "by-annotations", &annotations(0, 3), 0).await;
    world.create_deployment(NAMESPACE, "by-status", &json!({MAX: "3"}), 0).await;
    world.create_deployment(NAMESPACE, "by-both", &both, 0).await;
    let settings = ClusterApiSettings {
        reserved: "cpu=500m,memory=924Mi".parse().unwrap(),
        ..ClusterApiSettings::default()
    };
    let server = world.start_with(settings).await;
    let names = ["cpu", "memory", "pods", "nvidia.com/gpu"];
    for (name, want, arch) in [
        ("by-annotations", ["cpu 1500m", "memory 3Gi", "pods 110", "nvidia.com/gpu "], "amd64"),
        ("by-status", ["cpu 3500m", "memory 7Gi", "pods 110", "nvidia.com/gpu 1"], "arm64"),
        ("by-both", ["cpu 15500m", "memory 7Gi", "pods 30", "nvidia.com/gpu 1"], "arm64"),
    ] {
        let id = format!("MachineDeployment/workloads/{name}");
        let node = template(&server, &id).await.unwrap();
        assert_eq!(amounts(&node, &names), want, "{name}");
        let labels = &node.metadata.as_ref().unwrap().labels;
        assert_eq!(labels["kubernetes.io/arch"], arch, "{name}");
        assert_eq!(labels["kubernetes.io/os"], "linux", "{name}");
        assert_eq!(labels.get("tier").is_some(), name == "by-both");
        assert_eq!(labels["kubernetes.io/hostname"], format!("{name}-template"));
        let taints = &node.spec.as_ref().unwrap().taints;
        assert_eq!(taints.len(), usize::from(name == "by-both"), "{taints:?}");
    }
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn groups_of_two_clusters_are_refused_until_flags_choose_one() {
    crate::capacity::keep_log();
    let world = World::with_workers(1).await;
    world.create_namespace("other").await;
    world.create_deployment("other", "workers", &annotations(0, 5), 2).await;
    let server = world.start().await;
    let (code, message) = server.refresh().await.unwrap_err();
    assert_eq!(code, 14, "unavailable");
    assert!(message.contains("(other/blue, workloads/blue); set --cluster-name"), "{message}");
    assert_eq!(server.groups().await, []);
    server.stop().await;
    for (namespace, size) in [("other", 2), (NAMESPACE, 1)] {
        let settings = ClusterApiSettings {
            namespace: Some(namespace.to_owned()),
            cluster_name: Some("blue".to_owned()),
            ..ClusterApiSettings::default()
        };
        let server = world.start_with(settings).await;
        server.refresh().await.unwrap();
        let id = format!("MachineDeployment/{namespace}/workers");
        assert_eq!(ids(&server).await, [id.as_str()]);
        assert_eq!(server.target(&id).await, size);
        server.stop().await;
    }
    let settings = ClusterApiSettings {
        cluster_name: Some("green".to_owned()),
        ..ClusterApiSettings::default()
    };
    let server = world.start_with(settings).await;
    assert_eq!((ids(&server).await, server.refresh().await), (Vec::new(), Ok(())));
    tokio::time::sleep(s(4000)).await;
    let words = ["WARN", "found no group", "--cluster-name", "--namespace"];
    assert_eq!(crate::capacity::n_logged(&words), 1, "and not for two Clusters");
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_quiet_hour_costs_one_list_of_each_kind_and_refreshes_cost_nothing() {
    let world = World::with_workers(3).await;
    let server = world.start().await;
    let lists = || {
        let kinds = [
            "machinedeployments",
            "machinesets",
            "machines",
            "vspheremachinetemplates",
            "vspheremachines",
        ];
        kinds.map(|kind| world.management.n_calls(&format!("list {kind}")))
    };
    let calls = || {
        let records = world.management.sim.ledger().records();
        records.iter().filter(|it| it.client.client == "controller").count()
    };
    assert_eq!(lists(), [1; 5]);
    let before = calls();
    for _ in 0..30 {
        server.refresh().await.unwrap();
        server.instances(GROUP).await;
        ids(&server).await;
    }
    assert_eq!(calls(), before);
    tokio::time::sleep(s(3500)).await;
    assert_eq!(lists(), [1; 5]);
    // Five watches, each of 270 s.
    let n_watches = calls() - before;
    assert!(n_watches <= 5 * 14, "{n_watches}");
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_cluster_api_cannot_be_used_and_says_so() {
    let management = crate::capacity::Management::new(include_str!("role.yaml")).await;
    let world = World::over(management);
    let server = world.start().await;
    let (_, message) = server.refresh().await.unwrap_err();
    assert_eq!(message, "the API server does not serve machinedeployments.cluster.x-k8s.io");
    server.stop().await;
}
