//! Templates for vCenter: the annotations that the controller writes to the groups.

use provider::{
    CapacitySettings,
    scale_from_zero::{GroupObjects, GroupTemplate, ReaderSettings, read_group},
};
use serde_json::{Map, Value, json};
use sim::{
    Face,
    faults::{Action, Rule},
};

use super::{Management, NAMESPACE, s};

const KINDS: [&str; 3] = [
    "vspheremachinetemplates.infrastructure.cluster.x-k8s.io",
    "machinedeployments.cluster.x-k8s.io",
    "machinesets.cluster.x-k8s.io",
];
const MAX: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io/";
const MANAGED: &str = "vsphere.cloud-provider/managed-capacity";

fn defaults() -> CapacitySettings {
    CapacitySettings::default()
}

fn path(group: &str, resource: &str) -> String {
    format!("/apis/{group}/namespaces/{NAMESPACE}/{resource}")
}

fn deployment(name: &str) -> String {
    format!("{}/{name}", path("cluster.x-k8s.io/v1beta2", "machinedeployments"))
}

async fn create_template(management: &Management, name: &str, spec: Value) {
    let template = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VSphereMachineTemplate",
        "metadata": {"name": name}, "spec": {"template": {"spec": spec}},
    });
    let templates = path("infrastructure.cluster.x-k8s.io/v1beta1", "vspheremachinetemplates");
    management.create(&templates, template).await;
}

/// Creates a group whose machines come from the template `small`, with these annotations.
async fn create_group(
    management: &Management,
    kind: &str,
    name: &str,
    annotations: Value,
    owners: Value,
) {
    let reference = json!({
        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "VSphereMachineTemplate", "name": "small",
    });
    let group = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
        "metadata": {"name": name, "annotations": annotations, "ownerReferences": owners},
        "spec": {"replicas": 0, "template": {"spec": {"infrastructureRef": reference}}},
    });
    let resource = format!("{}s", kind.to_lowercase());
    management.create(&path("cluster.x-k8s.io/v1beta2", &resource), group).await;
}

async fn create_deployment(management: &Management, name: &str, annotations: Value) {
    create_group(management, "MachineDeployment", name, annotations, json!([])).await;
}

/// A management cluster with the templates `small` and `big`.
async fn world() -> Management {
    let management = Management::cluster(&KINDS).await;
    create_template(&management, "small", json!({"numCPUs": 4, "memoryMiB": 8192})).await;
    let big = json!({"numCPUs": 16, "memoryMiB": 8192, "diskGiB": 40, "cloneMode": "fullClone"});
    create_template(&management, "big", big).await;
    management
}

/// Returns the capacity annotations of an object, without their prefix.
async fn capacity(management: &Management, path: &str) -> Value {
    let object = management.get(path).await;
    let all = object["metadata"]["annotations"].as_object().into_iter().flatten();
    let own = all
        .filter_map(|(key, value)| Some((key.strip_prefix(CAPACITY)?.to_owned(), value.clone())));
    own.collect::<Map<_, _>>().into()
}

fn usual() -> Value {
    json!({"cpu": "4", "labels": "kubernetes.io/arch=amd64,kubernetes.io/os=linux", "memory": "8Gi"})
}

fn annotate(key: &str, value: Value) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

#[tokio::test(start_paused = true)]
async fn capz_029_a_group_is_annotated_while_an_autoscaler_scales_it() {
    let management = world().await;
    create_deployment(&management, "g", json!({})).await;
    let controller = management.start(defaults()).await;
    assert_eq!(capacity(&management, &deployment("g")).await, json!({}));
    management.patch(&deployment("g"), annotate(MAX, "3".into())).await;
    tokio::time::sleep(s(2)).await;
    assert_eq!(capacity(&management, &deployment("g")).await, usual());

    let group = management.get(&deployment("g")).await;
    let template = GroupTemplate::Unread("the autoscaler may not read it");
    let objects = GroupObjects { group: &group, template, live_labels: None, node_name: "new" };
    let node = read_group(&objects, &ReaderSettings::default()).unwrap().node.unwrap();
    assert_eq!(node.capacity["memory"].to_string(), "8Gi");

    let cpu = format!("{CAPACITY}cpu");
    management.patch(&deployment("g"), annotate(&cpu, "32".into())).await;
    let reference = json!({"infrastructureRef": {"name": "big"}});
    management.patch(&deployment("g"), json!({"spec": {"template": {"spec": reference}}})).await;
    tokio::time::sleep(s(2)).await;
    let mut expected = usual();
    expected["cpu"] = "32".into();
    expected["ephemeral-disk"] = "40Gi".into();
    assert_eq!(capacity(&management, &deployment("g")).await, expected, "a person set the CPUs");

    management.patch(&deployment("g"), annotate(MAX, Value::Null)).await;
    tokio::time::sleep(s(2)).await;
    assert_eq!(capacity(&management, &deployment("g")).await, json!({"cpu": "32"}));
    let annotations = management.get(&deployment("g")).await["metadata"]["annotations"].clone();
    assert_eq!(annotations[MANAGED], Value::Null);
    let n_writes = management.n_calls("patch machinedeployments");
    tokio::time::sleep(s(7200)).await;
    assert_eq!(management.n_calls("patch machinedeployments"), n_writes);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn capz_030_a_machine_set_is_annotated_only_without_a_machine_deployment() {
    let management = world().await;
    let owner = json!([{
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "name": "g",
        "uid": "42290000-0000-4000-8000-000000000009", "controller": true,
    }]);
    create_group(&management, "MachineSet", "owned", json!({MAX: "3"}), owner).await;
    create_group(&management, "MachineSet", "free", json!({MAX: "3"}), json!([])).await;
    let controller = management.start(defaults()).await;
    let set = |name: &str| format!("{}/{name}", path("cluster.x-k8s.io/v1beta2", "machinesets"));
    assert_eq!(capacity(&management, &set("free")).await, usual());
    assert_eq!(capacity(&management, &set("owned")).await, json!({}));
    assert_eq!(management.n_calls("patch machinesets"), 1);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_value_that_a_person_sets_during_a_write_stays() {
    let management = world().await;
    create_deployment(&management, "g", json!({MAX: "3"})).await;
    let slow = Rule::new("slow", [Action::Delay(s(6))]).on(Face::Cluster);
    let slow = slow.op(["patch machinedeployments"]).client("controller").first(1);
    let _fault = management.sim.fault(slow).unwrap();
    let controller = management.start(defaults()).await;
    assert_eq!(capacity(&management, &deployment("g")).await, json!({}), "on its way");
    let cpu = format!("{CAPACITY}cpu");
    management.patch(&deployment("g"), annotate(&cpu, "32".into())).await;
    tokio::time::sleep(s(30)).await;
    let mut expected = usual();
    expected["cpu"] = "32".into();
    assert_eq!(capacity(&management, &deployment("g")).await, expected);
    assert_eq!(management.n_calls("patch machinedeployments"), 2, "the first was a conflict");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_waits_for_its_template() {
    let management = Management::cluster(&KINDS).await;
    create_deployment(&management, "g", json!({MAX: "3"})).await;
    let controller = management.start(defaults()).await;
    tokio::time::sleep(s(600)).await;
    assert_eq!(capacity(&management, &deployment("g")).await, json!({}));
    create_template(&management, "small", json!({"numCPUs": 4, "memoryMiB": 8192})).await;
    tokio::time::sleep(s(2)).await;
    assert_eq!(capacity(&management, &deployment("g")).await, usual());
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_switch_groups_are_neither_read_nor_annotated() {
    let management = world().await;
    create_deployment(&management, "g", json!({MAX: "3"})).await;
    let controller = management.start(CapacitySettings { govmomi: false, ..defaults() }).await;
    assert_eq!(capacity(&management, &deployment("g")).await, json!({}));
    assert_eq!(management.n_calls("list machinedeployments"), 0);
    controller.stop().await;
}
