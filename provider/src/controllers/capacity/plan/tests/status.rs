//! Status of templates whose machines are VirtualMachine objects.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::controllers::capacity::{
    plan::{Plan, Referent, StatusForm, Subject, plan_status},
    settings::CapacitySettings,
};

/// A template with class and image, and with this status.
fn template(status: Value) -> Value {
    let spec = json!({"className": "small", "imageName": "vmi-1"});
    json!({
        "metadata": {"namespace": "n", "name": "workers"},
        "spec": {"template": {"spec": spec}}, "status": status,
    })
}

fn object(value: Value) -> Referent {
    Referent::Object(Arc::new(value))
}

fn class(hardware: Value) -> Referent {
    object(json!({"metadata": {"name": "small"}, "spec": {"hardware": hardware}}))
}

fn image(arch: &str, system: &str) -> Referent {
    object(json!({"metadata": {"name": "vmi-1"}, "status": {"vmwareSystemProperties": [
        {"key": "vmware-system.tkr.os-name", "value": "photon"},
        {"key": "vmware-system.tkr.os-arch", "value": arch},
        {"key": "vmware-system.tkr.os-type", "value": system},
    ]}}))
}

fn usual_class() -> Referent {
    class(json!({"cpus": 4, "memory": "8Gi"}))
}

fn planned(
    template: &Value,
    class: &Referent,
    image: &Referent,
    settings: &CapacitySettings,
) -> Plan {
    let form = StatusForm::CapacityAndNodeInfo;
    plan_status(&Subject { template, form, class, image }, settings)
}

/// Returns the patch of a template without status.
fn patch(class: &Referent, image: &Referent) -> Value {
    let plan = planned(&template(json!({})), class, image, &CapacitySettings::default());
    assert_eq!(plan.problem, None);
    plan.patch.unwrap_or_default()
}

#[test]
fn capz_001_a_template_with_class_and_image_gets_capacity_and_node_info() {
    assert_eq!(
        patch(&usual_class(), &image("amd64", "linux")),
        json!({"status": {
            "capacity": {"cpu": "4", "memory": "8Gi"},
            "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux"},
        }})
    );
}

#[test]
fn capz_002_a_template_without_class_name_is_left_alone() {
    for spec in [json!({}), json!({"className": "", "imageName": "vmi-1"})] {
        let template = json!({"spec": {"template": {"spec": spec}}});
        let plan = planned(
            &template,
            &usual_class(),
            &image("amd64", "linux"),
            &CapacitySettings::default(),
        );
        assert_eq!(plan, Plan::default());
    }
}

#[test]
fn capz_003_a_missing_or_unread_class_is_a_problem_and_no_write() {
    let stale = template(json!({"capacity": {"cpu": "2"}}));
    for (class, problem) in [
        (Referent::Missing, "the namespace of the template has no VirtualMachineClass small"),
        (Referent::Unread("500".to_owned()), "cannot read the VirtualMachineClass small: 500"),
    ] {
        let plan = planned(&stale, &class, &image("amd64", "linux"), &CapacitySettings::default());
        assert_eq!(plan, Plan { patch: None, problem: Some(problem.to_owned()) });
    }
}

#[test]
fn capz_005_a_class_without_hardware_gives_only_node_info() {
    for hardware in [json!({}), json!({"cpus": 0, "memory": "0"}), json!({"cpus": -1})] {
        assert_eq!(
            patch(&class(hardware), &image("arm64", "windows")),
            json!({"status": {"nodeInfo": {"architecture": "arm64", "operatingSystem": "windows"}}})
        );
    }
}

#[test]
fn capz_006_changed_hardware_replaces_only_the_changed_values() {
    let status = json!({
        "capacity": {"cpu": "2", "memory": "8Gi", "ephemeral-storage": "9Gi"},
        "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux"},
    });
    let plan = planned(
        &template(status),
        &usual_class(),
        &image("arm64", "linux"),
        &CapacitySettings::default(),
    );
    let changes = json!({"capacity": {"cpu": "4"}, "nodeInfo": {"architecture": "arm64"}});
    assert_eq!(plan.patch, Some(json!({"status": changes})));
}

#[test]
fn capz_007_values_that_became_unknown_stay_unless_the_setting_clears_them() {
    let status = json!({"capacity": {"cpu": "2", "memory": "8Gi", "pods": "9"}, "phase": "x"});
    let clearing = CapacitySettings { clear_unknown: true, ..CapacitySettings::default() };
    for (name, class, image, kept, cleared) in [
        (
            "no CPUs",
            class(json!({"cpus": 0, "memory": "8Gi"})),
            Referent::Missing,
            None,
            Some(json!({"status": {"capacity": {"cpu": null}}})),
        ),
        (
            "no class",
            Referent::Missing,
            Referent::Missing,
            None,
            Some(json!({"status": {"capacity": {"cpu": null, "memory": null}}})),
        ),
    ] {
        let template = template(status.clone());
        let plan = planned(&template, &class, &image, &CapacitySettings::default());
        assert_eq!(plan.patch, kept, "{name}");
        assert_eq!(planned(&template, &class, &image, &clearing).patch, cleared, "{name}");
    }
}

#[test]
fn a_status_of_which_nothing_is_left_is_removed_as_a_whole() {
    let clearing = CapacitySettings { clear_unknown: true, ..CapacitySettings::default() };
    let (nothing, no_image) = (class(json!({})), Referent::Missing);
    let info = json!({"architecture": "amd64", "operatingSystem": "linux"});
    for (status, patch) in [
        (json!({"capacity": {"cpu": "2"}, "nodeInfo": info}), json!({"status": null})),
        (
            json!({"capacity": {"cpu": "2", "pods": "9"}, "nodeInfo": info}),
            json!({"status": {"capacity": {"cpu": null}, "nodeInfo": null}}),
        ),
    ] {
        let plan = planned(&template(status), &nothing, &no_image, &clearing);
        assert_eq!(plan.patch, Some(patch));
    }
}

#[test]
fn capz_008_and_011_without_an_image_only_the_capacity_is_written() {
    let capacity = json!({"status": {"capacity": {"cpu": "4", "memory": "8Gi"}}});
    assert_eq!(patch(&usual_class(), &Referent::Missing), capacity);
    let mut without_name = template(json!({}));
    without_name["spec"]["template"]["spec"]["imageName"] = "".into();
    for image in [Referent::Missing, image("amd64", "linux"), Referent::Unread("x".to_owned())] {
        let plan = planned(&without_name, &usual_class(), &image, &CapacitySettings::default());
        assert_eq!(plan, Plan { patch: Some(capacity.clone()), problem: None });
    }
}

#[test]
fn capz_009_and_010_only_known_architectures_and_systems_are_written() {
    for (arch, system, info) in [
        ("amd64", "linux", json!({"architecture": "amd64", "operatingSystem": "linux"})),
        ("arm64", "windows", json!({"architecture": "arm64", "operatingSystem": "windows"})),
        ("s390x", "linux", json!({"architecture": "s390x", "operatingSystem": "linux"})),
        ("ppc64le", "linux", json!({"architecture": "ppc64le", "operatingSystem": "linux"})),
        ("x86", "linux", json!({"operatingSystem": "linux"})),
        ("amd64", "macos", json!({"architecture": "amd64"})),
        ("AMD64", "Linux", Value::Null),
        ("x86", "macos", Value::Null),
        ("", "", Value::Null),
    ] {
        let patch = patch(&usual_class(), &image(arch, system));
        assert_eq!(patch["status"]["nodeInfo"], info, "{arch} {system}");
        assert_eq!(patch["status"]["capacity"]["cpu"], "4", "{arch} {system}");
    }
    let bare = object(json!({"metadata": {"name": "vmi-1"}}));
    assert_eq!(patch(&usual_class(), &bare)["status"]["nodeInfo"], Value::Null);
}

#[test]
fn capz_012_an_unread_image_is_a_problem_and_does_not_hold_the_capacity_back() {
    let unread = Referent::Unread("500".to_owned());
    let bare = template(json!({}));
    let plan = planned(&bare, &usual_class(), &unread, &CapacitySettings::default());
    let problem = Some("cannot read the image vmi-1: 500".to_owned());
    let patch = json!({"status": {"capacity": {"cpu": "4", "memory": "8Gi"}}});
    assert_eq!(plan, Plan { patch: Some(patch), problem: problem.clone() });
    let as_upstream =
        CapacitySettings { capacity_without_image: false, ..CapacitySettings::default() };
    let plan = planned(&bare, &usual_class(), &unread, &as_upstream);
    assert_eq!(plan, Plan { patch: None, problem });
}

#[test]
fn capz_015_equal_values_in_another_notation_are_not_written() {
    for (cpu, memory) in [("4", "8Gi"), ("4000m", "8192Mi"), ("4", "8589934592")] {
        let status = json!({
            "capacity": {"cpu": cpu, "memory": memory},
            "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux"},
        });
        let plan = planned(
            &template(status),
            &usual_class(),
            &image("amd64", "linux"),
            &CapacitySettings::default(),
        );
        assert_eq!(plan, Plan::default(), "{cpu} {memory}");
    }
}

#[test]
fn a_status_of_another_form_is_replaced() {
    let status = json!({"capacity": {"cpu": 4, "memory": "much"}, "nodeInfo": "x"});
    let plan = planned(
        &template(status),
        &usual_class(),
        &image("amd64", "linux"),
        &CapacitySettings::default(),
    );
    let capacity = json!({"cpu": "4", "memory": "8Gi"});
    assert_eq!(plan.patch.unwrap()["status"]["capacity"], capacity);
}

#[test]
fn capz_018_in_v1beta1_only_the_capacity_is_written() {
    let template = template(json!({}));
    let (class, image) = (usual_class(), Referent::Unread("500".to_owned()));
    let form = StatusForm::Capacity;
    let subject = Subject { template: &template, form, class: &class, image: &image };
    let plan = plan_status(&subject, &CapacitySettings::default());
    let patch = json!({"status": {"capacity": {"cpu": "4", "memory": "8Gi"}}});
    assert_eq!(plan, Plan { patch: Some(patch), problem: None });
}

#[test]
fn assumed_node_info_fills_what_the_image_does_not_tell() {
    let assuming = CapacitySettings { assume_node_info: true, ..CapacitySettings::default() };
    let both = json!({"architecture": "amd64", "operatingSystem": "linux"});
    let windows = json!({"architecture": "amd64", "operatingSystem": "windows"});
    for (name, class, image, status, info) in [
        ("no image", usual_class(), Referent::Missing, json!({}), both.clone()),
        ("only the system", usual_class(), image("x86", "windows"), json!({}), windows),
        ("no capacity", class(json!({})), Referent::Missing, json!({}), Value::Null),
        (
            "a published value",
            usual_class(),
            Referent::Missing,
            json!({"nodeInfo": {"architecture": "arm64"}}),
            json!({"operatingSystem": "linux"}),
        ),
        (
            "an unread image",
            usual_class(),
            Referent::Unread("500".to_owned()),
            json!({}),
            Value::Null,
        ),
    ] {
        let patch = planned(&template(status), &class, &image, &assuming).patch.unwrap_or_default();
        assert_eq!(patch["status"]["nodeInfo"], info, "{name}");
    }
}

#[test]
fn capz_031_mapped_devices_are_counted_by_resource_and_others_are_left_out() {
    let devices = json!({
        "vgpuDevices": [{"profileName": "t4-8q"}, {"profileName": "t4-16q"}, {"profileName": "other"}],
        "dynamicDirectPathIODevices": [{"vendorID": 0x10de, "deviceID": 0x1eb8}],
    });
    let class = class(json!({"cpus": 4, "memory": "8Gi", "devices": devices}));
    let gpus = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    for (map, capacity) in [
        (&[][..], json!({"cpu": "4", "memory": "8Gi"})),
        (
            &["t4-8q=nvidia.com/gpu", "t4-16q=nvidia.com/gpu"],
            json!({"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"}),
        ),
        (
            &["10de:1eb8=nvidia.com/gpu", "absent=example.com/gpu"],
            json!({"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}),
        ),
    ] {
        let settings = CapacitySettings { gpus: gpus(map), ..CapacitySettings::default() };
        let plan = planned(&template(json!({})), &class, &Referent::Missing, &settings);
        assert_eq!(plan.patch.unwrap()["status"]["capacity"], capacity, "{map:?}");
    }
}

#[test]
fn a_class_whose_number_is_a_text_is_a_problem_that_names_the_key() {
    let plan = planned(
        &template(json!({})),
        &class(json!({"cpus": "four"})),
        &Referent::Missing,
        &CapacitySettings::default(),
    );
    assert_eq!(
        plan.problem.unwrap(),
        "cannot read the VirtualMachineClass small: spec: hardware: cpus: \"four\" is not a whole \
         number; write a number such as 4, without quotes"
    );
}
