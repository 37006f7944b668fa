//! Annotations of groups whose machines Cluster API clones in vCenter.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::controllers::capacity::{
    keys::{CAPACITY, MANAGED, MAX_SIZE, PAUSED},
    plan::{Plan, Referent, plan_group, template_name},
    settings::CapacitySettings,
};

fn template(spec: Value) -> Referent {
    Referent::Object(Arc::new(json!({
        "metadata": {"namespace": "n", "name": "t"}, "spec": {"template": {"spec": spec}},
    })))
}

fn usual_template() -> Referent {
    template(json!({"numCPUs": 4, "memoryMiB": 8192}))
}

/// A group with these annotations; a name without `/` is a capacity annotation.
fn group(annotations: &[(&str, &str)]) -> Value {
    let key = |name: &str| match name {
        name if name.contains('/') => name.to_owned(),
        name => format!("{CAPACITY}{name}"),
    };
    let annotations: Map<String, Value> =
        annotations.iter().map(|(name, value)| (key(name), (*value).into())).collect();
    let reference = json!({
        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "VSphereMachineTemplate", "name": "t",
    });
    json!({
        "kind": "MachineDeployment",
        "metadata": {
            "namespace": "n", "name": "g", "resourceVersion": "7", "annotations": annotations,
        },
        "spec": {"template": {"spec": {"infrastructureRef": reference}}},
    })
}

/// Returns the annotations of the patch, without the prefix of capacity annotations; null without a
/// patch.
fn changes(plan: &Plan) -> Value {
    let Some(patch) = &plan.patch else { return Value::Null };
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    assert_eq!(patch["metadata"].as_object().unwrap().len(), 2);
    let annotations = patch["metadata"]["annotations"].as_object().unwrap();
    let short = |key: &String| key.strip_prefix(CAPACITY).unwrap_or(key).to_owned();
    annotations.iter().map(|(key, value)| (short(key), value.clone())).collect::<Map<_, _>>().into()
}

fn planned(annotations: &[(&str, &str)], template: &Referent) -> Value {
    changes(&plan_group(&group(annotations), template, &CapacitySettings::default()))
}

const LINUX: &str = "kubernetes.io/arch=amd64,kubernetes.io/os=linux";

#[test]
fn capz_028_cpus_memory_and_disk_are_those_that_a_clone_gets() {
    let (small, full) = (json!({"numCPUs": 1}), json!({"diskGiB": 40, "cloneMode": "fullClone"}));
    for (spec, cpu, memory, disk) in [
        (json!({}), "2", "2Gi", Value::Null),
        (json!({"numCPUs": 0, "memoryMiB": 0, "diskGiB": 0}), "2", "2Gi", Value::Null),
        (small, "2", "2Gi", Value::Null),
        (json!({"numCPUs": 8, "memoryMiB": 1000}), "8", "1000Mi", Value::Null),
        (full, "2", "2Gi", "40Gi".into()),
        (json!({"diskGiB": 0, "cloneMode": "fullClone"}), "2", "2Gi", Value::Null),
        (json!({"diskGiB": 40, "cloneMode": "linkedClone"}), "2", "2Gi", Value::Null),
        (json!({"diskGiB": 40}), "2", "2Gi", Value::Null),
    ] {
        let written = planned(&[(MAX_SIZE, "5")], &template(spec.clone()));
        assert_eq!((&written["cpu"], &written["memory"]), (&cpu.into(), &memory.into()), "{spec}");
        assert_eq!(written["ephemeral-disk"], disk, "{spec}");
    }
}

#[test]
fn a_group_gets_the_annotations_and_the_list_of_what_was_written() {
    assert_eq!(
        planned(&[(MAX_SIZE, "5")], &usual_template()),
        json!({
            "cpu": "4", "memory": "8Gi", "labels": LINUX,
            MANAGED: json!({"cpu": "4", "labels": LINUX, "memory": "8Gi"}).to_string(),
        })
    );
    for (system, labels) in [
        ("Linux", LINUX.into()),
        ("Windows", "kubernetes.io/arch=amd64,kubernetes.io/os=windows".into()),
        ("Plan9", Value::Null),
    ] {
        let written = planned(&[(MAX_SIZE, "5")], &template(json!({"os": system})));
        assert_eq!(written["labels"], labels, "{system}");
    }
}

#[test]
fn capz_029_values_of_people_stay_and_ours_follow_the_template() {
    let managed = |text: &'static str| (MANAGED, text);
    for (name, annotations, expected) in [
        ("no maximum", vec![], Value::Null),
        (
            "a value of a person",
            vec![(MAX_SIZE, "5"), ("cpu", "16"), ("labels", "a=b")],
            json!({"memory": "8Gi", MANAGED: r#"{"memory":"8Gi"}"#}),
        ),
        (
            "an empty value of a person",
            vec![(MAX_SIZE, "5"), ("cpu", ""), ("labels", ""), ("memory", "")],
            Value::Null,
        ),
        (
            "an own value that is old",
            vec![
                (MAX_SIZE, "5"),
                ("cpu", "2"),
                ("memory", "8Gi"),
                ("labels", "x=y"),
                managed(r#"{"cpu":"2","memory":"8Gi"}"#),
            ],
            json!({"cpu": "4", MANAGED: r#"{"cpu":"4","memory":"8Gi"}"#}),
        ),
        (
            "own values in another notation",
            vec![
                (MAX_SIZE, "5"),
                ("cpu", "4000m"),
                ("memory", "8192Mi"),
                ("labels", LINUX),
                managed(
                    r#"{"cpu":"4000m","labels":"kubernetes.io/arch=amd64,kubernetes.io/os=linux","memory":"8192Mi"}"#,
                ),
            ],
            Value::Null,
        ),
        (
            "an own value that a person has changed",
            vec![
                (MAX_SIZE, "5"),
                ("cpu", "16"),
                ("memory", "8Gi"),
                ("labels", "x=y"),
                managed(r#"{"cpu":"4","memory":"8Gi"}"#),
            ],
            json!({MANAGED: r#"{"memory":"8Gi"}"#}),
        ),
        (
            "an own value that a person has deleted",
            vec![
                (MAX_SIZE, "5"),
                ("memory", "8Gi"),
                ("labels", "x=y"),
                managed(r#"{"cpu":"4","memory":"8Gi"}"#),
            ],
            json!({"cpu": "4"}),
        ),
        (
            "a list that cannot be read",
            vec![(MAX_SIZE, "5"), ("cpu", "2"), ("labels", "x=y"), managed("{")],
            json!({"memory": "8Gi", MANAGED: r#"{"memory":"8Gi"}"#}),
        ),
        (
            "own values after the maximum is gone",
            vec![("cpu", "4"), ("memory", "1Gi"), managed(r#"{"cpu":"4","memory":"8Gi"}"#)],
            json!({"cpu": null, MANAGED: null}),
        ),
        (
            "an own disk that the template no longer tells",
            vec![
                (MAX_SIZE, "5"),
                ("cpu", "16"),
                ("memory", "1Gi"),
                ("labels", "x=y"),
                ("ephemeral-disk", "40Gi"),
                managed(r#"{"ephemeral-disk":"40Gi"}"#),
            ],
            json!({"ephemeral-disk": null, MANAGED: null}),
        ),
    ] {
        assert_eq!(planned(&annotations, &usual_template()), expected, "{name}");
    }
}

#[test]
fn what_was_written_is_not_written_again() {
    let first =
        plan_group(&group(&[(MAX_SIZE, "5")]), &usual_template(), &CapacitySettings::default());
    let mut written = group(&[(MAX_SIZE, "5")]);
    let annotations = first.patch.unwrap()["metadata"]["annotations"].clone();
    for (key, value) in annotations.as_object().unwrap() {
        written["metadata"]["annotations"][key] = value.clone();
    }
    let again = plan_group(&written, &usual_template(), &CapacitySettings::default());
    assert_eq!(again, Plan::default());
}

#[test]
fn capz_030_a_machine_set_of_a_machine_deployment_is_never_annotated() {
    let copied = [(MAX_SIZE, "5"), ("cpu", "2"), (MANAGED, r#"{"cpu":"2"}"#)];
    let mut owned = group(&copied);
    owned["metadata"]["ownerReferences"] = json!([{"kind": "MachineDeployment", "name": "d"}]);
    let plan = plan_group(&owned, &usual_template(), &CapacitySettings::default());
    assert_eq!(plan, Plan::default());
    owned["metadata"]["ownerReferences"] = json!([{"kind": "Cluster", "name": "c"}]);
    let plan = plan_group(&owned, &usual_template(), &CapacitySettings::default());
    assert_eq!(changes(&plan)["cpu"], "4");
}

#[test]
fn capz_013_a_paused_group_or_template_is_left_alone() {
    assert_eq!(planned(&[(MAX_SIZE, "5"), (PAUSED, "")], &usual_template()), Value::Null);
    let paused = |annotations: Value, labels: Value| {
        Referent::Object(Arc::new(json!({
            "metadata": {"annotations": annotations, "labels": labels}, "spec": {},
        })))
    };
    let filter = |value: &str| CapacitySettings {
        watch_filter: Some(value.to_owned()),
        ..CapacitySettings::default()
    };
    let labelled = json!({"cluster.x-k8s.io/watch-filter": "a"});
    for (name, template, settings, is_written) in [
        ("paused", paused(json!({PAUSED: ""}), json!({})), CapacitySettings::default(), false),
        ("the label", paused(json!({}), labelled.clone()), filter("a"), true),
        ("another label", paused(json!({}), labelled), filter("b"), false),
        ("no label", paused(json!({}), json!({})), filter("a"), false),
    ] {
        let plan = plan_group(&group(&[(MAX_SIZE, "5")]), &template, &settings);
        assert_eq!(plan.patch.is_some(), is_written, "{name}");
        assert_eq!(plan.problem, None, "{name}");
    }
}

#[test]
fn a_missing_template_is_a_problem_and_keeps_the_annotations() {
    let annotations = [(MAX_SIZE, "5"), ("cpu", "2"), (MANAGED, r#"{"cpu":"2"}"#)];
    let clearing = CapacitySettings { clear_unknown: true, ..CapacitySettings::default() };
    for (name, template, settings, expected) in [
        ("missing", Referent::Missing, CapacitySettings::default(), Value::Null),
        ("unread", Referent::Unread("500".to_owned()), clearing.clone(), Value::Null),
        ("missing, and cleared", Referent::Missing, clearing, json!({"cpu": null, MANAGED: null})),
    ] {
        let plan = plan_group(&group(&annotations), &template, &settings);
        assert!(plan.problem.as_ref().unwrap().contains("VSphereMachineTemplate t"), "{name}");
        assert_eq!(changes(&plan), expected, "{name}");
    }
}

#[test]
fn the_reference_names_a_template_in_both_versions_of_cluster_api() {
    for (reference, name) in [
        (json!({"apiGroup": "infrastructure.cluster.x-k8s.io"}), Some("t")),
        (json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1"}), Some("t")),
        (json!({"apiGroup": "vmware.infrastructure.cluster.x-k8s.io"}), None),
        (json!({"apiVersion": "v1"}), None),
        (json!({}), None),
    ] {
        let mut reference = reference;
        reference["kind"] = "VSphereMachineTemplate".into();
        reference["name"] = "t".into();
        let group = json!({"spec": {"template": {"spec": {"infrastructureRef": reference}}}});
        assert_eq!(template_name(&group), name, "{reference}");
    }
    let mut other = group(&[(MAX_SIZE, "5"), ("cpu", "2"), (MANAGED, r#"{"cpu":"2"}"#)]);
    other["spec"]["template"]["spec"]["infrastructureRef"]["kind"] = "DockerMachineTemplate".into();
    let plan = plan_group(&other, &Referent::Missing, &CapacitySettings::default());
    assert_eq!(changes(&plan), json!({"cpu": null, MANAGED: null}), "the group changed its kind");
}

#[test]
fn mapped_devices_become_one_gpu_type() {
    let devices = json!([
        {"vendorId": 0x10de, "deviceId": 0x1eb8}, {"vGPUProfile": "t4-8q"}, {"customLabel": "x"},
    ]);
    let template = template(json!({"pciDevices": devices}));
    let planned = |map: &[&str]| {
        let gpus = map.iter().map(|text| text.parse().unwrap()).collect();
        let settings = CapacitySettings { gpus, ..CapacitySettings::default() };
        plan_group(&group(&[(MAX_SIZE, "5")]), &template, &settings)
    };
    for (map, count, kind) in [
        (&[][..], Value::Null, Value::Null),
        (&["absent=nvidia.com/gpu"], Value::Null, Value::Null),
        (&["t4-8q=nvidia.com/gpu"], "1".into(), "nvidia.com/gpu".into()),
        (
            &["t4-8q=nvidia.com/gpu", "10de:1eb8=nvidia.com/gpu"],
            "2".into(),
            "nvidia.com/gpu".into(),
        ),
        (&["t4-8q=nvidia.com/gpu", "10de:1eb8=example.com/gpu"], Value::Null, Value::Null),
    ] {
        let plan = planned(map);
        let written = changes(&plan);
        assert_eq!((&written["gpu-count"], &written["gpu-type"]), (&count, &kind), "{map:?}");
    }
    let two = planned(&["t4-8q=nvidia.com/gpu", "10de:1eb8=example.com/gpu"]);
    assert!(two.problem.unwrap().contains("(example.com/gpu, nvidia.com/gpu)"));
}
