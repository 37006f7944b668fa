//! Templates of a Supervisor: the status that the controller writes.

use provider::{
    CapacitySettings,
    scale_from_zero::{GroupObjects, GroupTemplate, ReaderSettings, read_group},
};
use serde_json::{Value, json};
use sim::{
    Face,
    faults::{Action, KubeStatus, Rule},
};

use super::{Management, NAMESPACE, s};

const KIND: &str = "vspheremachinetemplates.vmware.infrastructure.cluster.x-k8s.io";
const GROUP: &str = "/apis/vmware.infrastructure.cluster.x-k8s.io/v1beta2";
const OPERATOR: &str = "/apis/vmoperator.vmware.com/v1alpha6";
const WRITE: &str = "patch vspheremachinetemplates/status";

fn templates(namespace: &str) -> String {
    format!("{GROUP}/namespaces/{namespace}/vspheremachinetemplates")
}

fn template(name: &str) -> String {
    format!("{}/{name}", templates(NAMESPACE))
}

fn classes(namespace: &str) -> String {
    format!("{OPERATOR}/namespaces/{namespace}/virtualmachineclasses")
}

fn defaults() -> CapacitySettings {
    CapacitySettings::default()
}

/// A Supervisor with the class `small` (4 CPUs, 8 GiB) and the image `vmi-1` (amd64, linux).
async fn world() -> Management {
    let management = Management::supervisor(&[KIND]).await;
    create_class(&management, NAMESPACE, "small", json!({"cpus": 4, "memory": "8Gi"})).await;
    create_image(&management, "vmi-1", "amd64", "linux").await;
    management
}

async fn create_class(management: &Management, namespace: &str, name: &str, hardware: Value) {
    let class = json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha6", "kind": "VirtualMachineClass",
        "metadata": {"name": name}, "spec": {"hardware": hardware},
    });
    management.create(&classes(namespace), class).await;
}

async fn create_image(management: &Management, name: &str, arch: &str, system: &str) {
    let path = format!("{OPERATOR}/clustervirtualmachineimages");
    create_image_at(management, &path, "ClusterVirtualMachineImage", name, arch, system).await;
}

async fn create_image_at(
    management: &Management,
    path: &str,
    kind: &str,
    name: &str,
    arch: &str,
    system: &str,
) {
    let image = json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha6", "kind": kind,
        "metadata": {"name": name}, "spec": {},
    });
    management.create(path, image).await;
    let properties = json!([
        {"key": "vmware-system.tkr.os-arch", "value": arch},
        {"key": "vmware-system.tkr.os-type", "value": system},
    ]);
    let status = json!({"status": {"vmwareSystemProperties": properties}});
    management.patch(&format!("{path}/{name}/status"), status).await;
}

async fn create_template(
    management: &Management,
    namespace: &str,
    name: &str,
    spec: Value,
) -> Value {
    let template = json!({
        "apiVersion": "vmware.infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "VSphereMachineTemplate",
        "metadata": {"name": name, "labels": {"set-by": "person"}},
        "spec": {"template": {"spec": spec}},
    });
    management.create(&templates(namespace), template).await
}

/// A template with the usual class and image.
async fn create_usual(management: &Management, name: &str) -> Value {
    let spec = json!({"className": "small", "imageName": "vmi-1"});
    create_template(management, NAMESPACE, name, spec).await
}

async fn status(management: &Management, name: &str) -> Value {
    management.get(&template(name)).await["status"].clone()
}

fn usual() -> Value {
    json!({
        "capacity": {"cpu": "4", "memory": "8Gi"},
        "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux"},
    })
}

#[tokio::test(start_paused = true)]
async fn capz_001_a_template_gets_its_status_and_an_autoscaler_reads_a_node_from_it() {
    let management = world().await;
    create_usual(&management, "workers").await;
    let controller = management.start(defaults()).await;
    let read = management.get(&template("workers")).await;
    assert_eq!(read["status"], usual(), "the definition of the kind accepts it (CAPZ-019)");
    let size = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
    let group = json!({"kind": "MachineDeployment", "metadata": {"annotations": {size: "3"}}});
    let template = GroupTemplate::Object(&read);
    let objects = GroupObjects { group: &group, template, live_labels: None, node_name: "new" };
    let group = read_group(&objects, &ReaderSettings::default()).unwrap();
    assert!(group.is_listed_at(0));
    let node = group.node.unwrap();
    let capacity: Vec<String> = node.capacity.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(capacity, ["cpu=4", "memory=8Gi", "pods=110"], "CAPZ-020");
    assert_eq!(node.labels["kubernetes.io/arch"], "amd64");
    // A template that is created while the controller runs.
    create_usual(&management, "later").await;
    tokio::time::sleep(s(2)).await;
    assert_eq!(status(&management, "later").await, usual());
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn capz_002_a_template_without_class_name_is_not_written() {
    let management = world().await;
    let spec = json!({"className": "", "imageName": "vmi-1"});
    let before = create_template(&management, NAMESPACE, "workers", spec).await;
    let controller = management.start(defaults()).await;
    tokio::time::sleep(s(3600)).await;
    let after = management.get(&template("workers")).await;
    assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    assert_eq!(management.n_calls(WRITE), 0);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn capz_003_and_004_a_template_waits_for_a_class_of_its_own_namespace() {
    let management = Management::supervisor(&[KIND]).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    management.create("/api/v1/namespaces", namespace).await;
    create_class(&management, "other", "small", json!({"cpus": 2, "memory": "2Gi"})).await;
    let spec = json!({"className": "small"});
    create_template(&management, NAMESPACE, "workers", spec).await;
    let controller = management.start(defaults()).await;
    tokio::time::sleep(s(1000)).await;
    assert_eq!(status(&management, "workers").await, Value::Null);
    create_class(&management, NAMESPACE, "small", json!({"cpus": 4, "memory": "8Gi"})).await;
    tokio::time::sleep(s(2)).await;
    let capacity = json!({"capacity": {"cpu": "4", "memory": "8Gi"}});
    assert_eq!(status(&management, "workers").await, capacity, "at once, without the delay");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn capz_006_and_007_a_changed_class_updates_the_templates_that_name_it() {
    let management = world().await;
    create_class(&management, NAMESPACE, "big", json!({"cpus": 8, "memory": "8Gi"})).await;
    create_usual(&management, "one").await;
    create_usual(&management, "two").await;
    let big = json!({"className": "big", "imageName": "vmi-1"});
    create_template(&management, NAMESPACE, "three", big).await;
    let controller = management.start(defaults()).await;
    assert_eq!(management.n_calls(WRITE), 3);
    let class = format!("{}/small", classes(NAMESPACE));
    management.patch(&class, json!({"spec": {"hardware": {"cpus": 6}}})).await;
    tokio::time::sleep(s(2)).await;
    for (name, cpu) in [("one", "6"), ("two", "6"), ("three", "8")] {
        assert_eq!(status(&management, name).await["capacity"]["cpu"], cpu, "{name}");
    }
    assert_eq!(management.n_calls(WRITE), 5);
    management.patch(&class, json!({"spec": {"hardware": {"cpus": 0}}})).await;
    tokio::time::sleep(s(2)).await;
    assert_eq!(status(&management, "one").await["capacity"]["cpu"], "6", "the old value stays");
    assert_eq!(management.n_calls(WRITE), 5);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn cleared_values_leave_the_status_with_the_class() {
    let management = world().await;
    create_usual(&management, "workers").await;
    let settings = CapacitySettings { clear_unknown: true, ..defaults() };
    let controller = management.start(settings).await;
    assert_eq!(status(&management, "workers").await, usual());
    management.delete(&format!("{}/small", classes(NAMESPACE))).await;
    tokio::time::sleep(s(2)).await;
    let info = json!({"nodeInfo": usual()["nodeInfo"]});
    assert_eq!(status(&management, "workers").await, info);
    create_class(&management, NAMESPACE, "small", json!({})).await;
    management.delete(&format!("{OPERATOR}/clustervirtualmachineimages/vmi-1")).await;
    tokio::time::sleep(s(2)).await;
    assert_eq!(status(&management, "workers").await, Value::Null);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn capz_008_an_image_that_appears_or_changes_is_noticed() {
    let management = world().await;
    for image in ["vmi-2", "vmi-3"] {
        let spec = json!({"className": "small", "imageName": image});
        create_template(&management, NAMESPACE, image, spec).await;
    }
    let controller = management.start(defaults()).await;
    let capacity = json!({"capacity": {"cpu": "4", "memory": "8Gi"}});
    assert_eq!(status(&management, "vmi-2").await, capacity);
    create_image(&management, "vmi-2", "arm64", "linux").await;
    let own = format!("{OPERATOR}/namespaces/{NAMESPACE}/virtualmachineimages");
    create_image_at(&management, &own, "VirtualMachineImage", "vmi-3", "amd64", "windows").await;
    tokio::time::sleep(s(2)).await;
    let info = json!({"architecture": "arm64", "operatingSystem": "linux"});
    assert_eq!(status(&management, "vmi-2").await["nodeInfo"], info);
    let info = json!({"architecture": "amd64", "operatingSystem": "windows"});
    assert_eq!(status(&management, "vmi-3").await["nodeInfo"], info, "of the namespace");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn capz_012_an_image_that_cannot_be_read_does_not_hold_the_capacity_back() {
    let refuse = |op: &str| {
        let rule = Rule::new("refused", [Action::KubeStatus(KubeStatus::new(500))]);
        rule.on(Face::Supervisor).op([op])
    };
    for (watch_images, op) in
        [(true, "list clustervirtualmachineimages"), (false, "get clustervirtualmachineimages")]
    {
        let management = world().await;
        create_usual(&management, "workers").await;
        let fault = management.sim.fault(refuse(op)).unwrap();
        let settings = CapacitySettings { watch_images, ..defaults() };
        let controller = management.start(settings).await;
        let written = status(&management, "workers").await;
        assert_eq!(written, json!({"capacity": {"cpu": "4", "memory": "8Gi"}}), "{op}");
        drop(fault);
        tokio::time::sleep(s(60)).await;
        assert_eq!(status(&management, "workers").await, usual(), "{op}");
        assert_eq!(management.n_calls(WRITE), 2, "{op}");
        controller.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_watch_of_images_the_image_is_read_with_the_template() {
    let management = world().await;
    create_usual(&management, "workers").await;
    let settings = CapacitySettings { watch_images: false, ..defaults() };
    let controller = management.start(settings).await;
    assert_eq!(status(&management, "workers").await, usual());
    let reads = |op: &str| management.n_calls(op);
    assert_eq!(reads("list clustervirtualmachineimages"), 0);
    assert_eq!(reads("watch clustervirtualmachineimages"), 0);
    assert!(reads("get clustervirtualmachineimages") > 0);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn capz_013_a_paused_template_is_written_after_the_pause() {
    let management = world().await;
    create_usual(&management, "workers").await;
    let pause =
        |value: Value| json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}});
    management.patch(&template("workers"), pause("".into())).await;
    let controller = management.start(defaults()).await;
    tokio::time::sleep(s(600)).await;
    assert_eq!(status(&management, "workers").await, Value::Null);
    management.patch(&template("workers"), pause(Value::Null)).await;
    tokio::time::sleep(s(2)).await;
    assert_eq!(status(&management, "workers").await, usual());
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn capz_014_the_watch_filter_selects_templates_and_on_request_classes() {
    let label =
        |value: &str| json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": value}}});
    for (filter_classes, cpu_after) in [(false, "6"), (true, "4")] {
        let management = world().await;
        for (name, value) in [("one", Some("a")), ("two", Some("b")), ("three", None)] {
            create_usual(&management, name).await;
            if let Some(value) = value {
                management.patch(&template(name), label(value)).await;
            }
        }
        let watch_filter = Some("a".to_owned());
        let settings = CapacitySettings { watch_filter, filter_classes, ..defaults() };
        let controller = management.start(settings).await;
        let class = format!("{}/small", classes(NAMESPACE));
        management.patch(&class, json!({"spec": {"hardware": {"cpus": 6}}})).await;
        tokio::time::sleep(s(2)).await;
        assert_eq!(status(&management, "one").await["capacity"]["cpu"], cpu_after);
        for name in ["two", "three"] {
            assert_eq!(status(&management, name).await, Value::Null, "{name}");
        }
        controller.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn capz_015_what_is_published_is_not_written_again() {
    let management = world().await;
    create_usual(&management, "workers").await;
    let controller = management.start(defaults()).await;
    assert_eq!(management.n_calls(WRITE), 1);
    let class = format!("{}/small", classes(NAMESPACE));
    management.patch(&class, json!({"spec": {"hardware": {"memory": "8192Mi"}}})).await;
    management.patch(&template("workers"), json!({"metadata": {"labels": {"x": "y"}}})).await;
    let before = management.get(&template("workers")).await;
    tokio::time::sleep(s(4 * 3600)).await;
    controller.stop().await;
    let controller = management.start(defaults()).await;
    let after = management.get(&template("workers")).await;
    assert_eq!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    assert_eq!(management.n_calls(WRITE), 1);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_quiet_hour_costs_one_list_of_each_kind() {
    let management = world().await;
    create_usual(&management, "workers").await;
    let controller = management.start(defaults()).await;
    tokio::time::sleep(s(3500)).await;
    for kind in ["vspheremachinetemplates", "virtualmachineclasses", "clustervirtualmachineimages"]
    {
        assert_eq!(management.n_calls(&format!("list {kind}")), 1, "{kind}");
    }
    tokio::time::sleep(s(200)).await;
    assert_eq!(management.n_calls("list vspheremachinetemplates"), 2, "once an hour");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn capz_016_a_write_changes_only_its_own_keys_of_the_status() {
    let management = world().await;
    create_usual(&management, "workers").await;
    let foreign = json!({
        "capacity": {"cpu": "2", "ephemeral-storage": "20Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    });
    let path = format!("{}/status", template("workers"));
    management.patch(&path, json!({"status": foreign})).await;
    let mut before = management.get(&template("workers")).await;
    let controller = management.start(defaults()).await;
    let mut after = management.get(&template("workers")).await;
    assert_eq!(
        after["status"],
        json!({
            "capacity": {"cpu": "4", "ephemeral-storage": "20Gi", "memory": "8Gi"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux"},
        })
    );
    let managers = after["metadata"]["managedFields"].as_array().unwrap();
    let own = managers.iter().find(|it| it["manager"] == "vsphere-capacity").unwrap();
    assert_eq!(own["subresource"], "status");
    for object in [&mut before, &mut after] {
        object["status"] = Value::Null;
        object["metadata"]["resourceVersion"] = Value::Null;
        object["metadata"]["managedFields"] = Value::Null;
    }
    assert_eq!(before, after);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn capz_017_a_conflict_is_retried_and_both_changes_survive() {
    let management = world().await;
    create_usual(&management, "workers").await;
    let late = Rule::new("late", [Action::Delay(s(6))]);
    let late = late.on(Face::Supervisor).op([WRITE]).client("controller").first(1);
    let _fault = management.sim.fault(late).unwrap();
    let controller = management.start(defaults()).await;
    // The first write of the controller is under way, and conflicts with this one.
    let path = format!("{}/status", template("workers"));
    management.patch(&path, json!({"status": {"capacity": {"pods": "30"}}})).await;
    tokio::time::sleep(s(30)).await;
    let mut both = usual();
    both["capacity"]["pods"] = "30".into();
    assert_eq!(status(&management, "workers").await, both);
    assert_eq!(management.n_calls(WRITE), 2, "the refused write and its repetition");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_that_the_watch_tells_late_is_not_lost_by_an_earlier_write() {
    let management = world().await;
    create_class(&management, NAMESPACE, "big", json!({"cpus": 16, "memory": "64Gi"})).await;
    create_usual(&management, "workers").await;
    let late = Rule::new("late", [Action::WatchDelay(s(20))]);
    let late = late.on(Face::Supervisor).op(["watch vspheremachinetemplates"]).client("controller");
    let _fault = management.sim.fault(late).unwrap();
    let controller = management.start(defaults()).await;
    let spec = json!({"spec": {"template": {"spec": {"className": "big"}}}});
    management.patch(&template("workers"), spec).await;
    // The controller learns of this first, and still knows the template with the former class.
    let small = format!("{}/small", classes(NAMESPACE));
    management.patch(&small, json!({"spec": {"hardware": {"cpus": 8}}})).await;
    tokio::time::sleep(s(90)).await;
    assert_eq!(status(&management, "workers").await["capacity"]["cpu"], "16");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn capz_018_node_info_survives_a_client_of_v1beta1() {
    let management = world().await;
    create_usual(&management, "workers").await;
    let controller = management.start(defaults()).await;
    let older = template("workers").replace("v1beta2", "v1beta1");
    let read = management.get(&older).await;
    assert_eq!(read["status"]["capacity"], usual()["capacity"]);
    management.send("PUT", &format!("{older}/status"), Some(&read)).await;
    tokio::time::sleep(s(2)).await;
    assert_eq!(status(&management, "workers").await, usual());
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_serves_only_v1beta1_gets_only_the_capacity() {
    let management = world().await;
    let path = format!("{}/{KIND}", super::DEFINITIONS);
    let mut definition = management.get(&path).await;
    let versions = definition["spec"]["versions"].as_array_mut().unwrap();
    for version in versions {
        let is_older = version["name"] == "v1beta1";
        version["served"] = is_older.into();
    }
    management.send("PUT", &path, Some(&definition)).await;
    let older = templates(NAMESPACE).replace("v1beta2", "v1beta1");
    let spec = json!({"template": {"spec": {"className": "small", "imageName": "vmi-1"}}});
    let object = json!({
        "apiVersion": "vmware.infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "VSphereMachineTemplate", "metadata": {"name": "workers"}, "spec": spec,
    });
    management.create(&older, object).await;
    let controller = management.start(defaults()).await;
    tokio::time::sleep(s(600)).await;
    let read = management.get(&format!("{older}/workers")).await;
    assert_eq!(read["status"], json!({"capacity": {"cpu": "4", "memory": "8Gi"}}));
    assert_eq!(management.n_calls(WRITE), 1);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn capz_032_a_template_that_is_deleted_during_a_write_causes_no_further_request() {
    let management = world().await;
    create_usual(&management, "workers").await;
    let slow = Rule::new("slow", [Action::Delay(s(5))]).on(Face::Supervisor).op([WRITE]);
    let _fault = management.sim.fault(slow).unwrap();
    let controller = management.start(defaults()).await;
    management.delete(&template("workers")).await;
    tokio::time::sleep(s(3600)).await;
    assert_eq!(management.n_calls(WRITE), 1);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_retried_with_growing_delays() {
    let management = world().await;
    create_usual(&management, "workers").await;
    let refused = Rule::new("refused", [Action::KubeStatus(KubeStatus::new(500))]);
    let fault = management.sim.fault(refused.on(Face::Supervisor).op([WRITE])).unwrap();
    let controller = management.start(defaults()).await;
    tokio::time::sleep(s(1000)).await;
    let n_refused = management.n_calls(WRITE);
    assert!((8..20).contains(&n_refused), "{n_refused} requests in 1000 s");
    drop(fault);
    tokio::time::sleep(s(600)).await;
    assert_eq!(status(&management, "workers").await, usual());
    assert_eq!(management.n_calls(WRITE), n_refused + 1);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn capz_031_mapped_gpus_of_a_class_are_published() {
    let management = world().await;
    let vgpus = json!([{"profileName": "t4-8q"}, {"profileName": "t4-16q"}, {"profileName": "x"}]);
    let hardware = json!({"cpus": 4, "memory": "8Gi", "devices": {"vgpuDevices": vgpus}});
    create_class(&management, NAMESPACE, "gpus", hardware).await;
    create_template(&management, NAMESPACE, "workers", json!({"className": "gpus"})).await;
    let gpus = ["t4-8q=nvidia.com/gpu", "t4-16q=nvidia.com/gpu"].map(|text| text.parse().unwrap());
    let settings = CapacitySettings { gpus: gpus.to_vec(), ..defaults() };
    let controller = management.start(settings).await;
    let capacity = json!({"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"});
    assert_eq!(status(&management, "workers").await["capacity"], capacity);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn assumed_node_info_passes_the_schema_and_gives_way_to_the_image() {
    let management = world().await;
    let spec = json!({"className": "small", "imageName": "vmi-9"});
    create_template(&management, NAMESPACE, "workers", spec).await;
    let settings = CapacitySettings { assume_node_info: true, ..defaults() };
    let controller = management.start(settings).await;
    assert_eq!(status(&management, "workers").await, usual());
    create_image(&management, "vmi-9", "arm64", "linux").await;
    tokio::time::sleep(s(2)).await;
    assert_eq!(status(&management, "workers").await["nodeInfo"]["architecture"], "arm64");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_of_one_namespace_leaves_the_others_alone() {
    let management = world().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    management.create("/api/v1/namespaces", namespace).await;
    create_class(&management, "other", "small", json!({"cpus": 2, "memory": "2Gi"})).await;
    create_template(&management, "other", "workers", json!({"className": "small"})).await;
    create_usual(&management, "workers").await;
    let settings = CapacitySettings { namespace: Some(NAMESPACE.to_owned()), ..defaults() };
    let controller = management.start(settings).await;
    assert_eq!(status(&management, "workers").await, usual());
    let other = management.get(&format!("{}/workers", templates("other"))).await;
    assert_eq!(other["status"], Value::Null);
    controller.stop().await;
}
