//! Tests of the reader of groups, one per row of the annotations and one per rule of precedence.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;

const MIN: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
const MAX: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";

/// A group of at most five machines, with these annotations; a name without `/` is a capacity
/// annotation.
fn group(annotations: &[(&str, &str)]) -> Value {
    let mut group = json!({"kind": "MachineDeployment", "metadata": {"annotations": {MAX: "5"}}});
    for (name, value) in annotations {
        let key = if name.contains('/') { (*name).to_owned() } else { format!("{CAPACITY}{name}") };
        group["metadata"]["annotations"][key] = (*value).into();
    }
    group
}

/// A template with this status.
fn template(status: Value) -> Value {
    json!({"kind": "VSphereMachineTemplate", "status": status})
}

fn read(group: &Value, template: GroupTemplate<'_>) -> Result<ReadGroup, NotScaled> {
    let objects = GroupObjects { group, template, live_labels: None, node_name: "new" };
    read_group(&objects, &ReaderSettings::default())
}

/// Reads the Node of a group with these annotations and a template of 4 CPUs and 8 GiB.
fn node(annotations: &[(&str, &str)]) -> Result<NodeTemplate, NoTemplate> {
    let template = template(json!({"capacity": {"cpu": "4", "memory": "8Gi"}}));
    read(&group(annotations), GroupTemplate::Object(&template)).unwrap().node
}

fn capacity(node: &NodeTemplate) -> Value {
    let texts = node.capacity.iter().map(|(name, amount)| (name.clone(), amount.to_string()));
    texts.map(|(name, text)| (name, Value::from(text))).collect::<serde_json::Map<_, _>>().into()
}

#[test]
fn bounds_are_whole_numbers_in_order_and_a_maximum_of_zero_means_no_group() {
    let bounds = |annotations: &[(&str, &str)]| {
        let mut group = group(&[]);
        group["metadata"]["annotations"] = json!({});
        for (name, value) in annotations {
            group["metadata"]["annotations"][*name] = (*value).into();
        }
        read(&group, GroupTemplate::Unnamed).map(|it| (it.bounds.min, it.bounds.max))
    };
    assert_eq!(bounds(&[(MIN, "2"), (MAX, "5")]), Ok((2, 5)));
    assert_eq!(bounds(&[(MAX, "5")]), Ok((0, 5)), "a missing minimum is zero");
    for annotations in [&[][..], &[(MAX, "0")], &[(MIN, "0")]] {
        assert_eq!(bounds(annotations), Err(NotScaled::NoMaximum), "{annotations:?}");
    }
    for annotations in [
        &[(MIN, "1")][..],
        &[(MIN, "-1"), (MAX, "5")],
        &[(MIN, "1.0"), (MAX, "5")],
        &[(MIN, ""), (MAX, "5")],
        &[(MAX, "many")],
        &[(MAX, "-1")],
        &[(MIN, "6"), (MAX, "5")],
    ] {
        assert!(matches!(bounds(annotations), Err(NotScaled::Bounds(_))), "{annotations:?}");
    }
    let refused = bounds(&[(MIN, "six"), (MAX, "5")]).unwrap_err().to_string();
    assert_eq!(refused, format!("{MIN}: \"six\" is not a number of machines; write 0 or more"));
}

#[test]
fn options_are_read_in_lower_case_and_wrong_ones_keep_the_default_with_a_note() {
    let option = |name: &str| format!("cluster.x-k8s.io/autoscaling-options-{name}");
    let names = [
        "scaledownutilizationthreshold",
        "scaledowngpuutilizationthreshold",
        "scaledownunneededtime",
        "scaledownunreadytime",
        "maxnodeprovisiontime",
        "maxnodestartuptime",
    ]
    .map(option);
    let of = |values: [&str; 6]| {
        let pairs: Vec<_> = names.iter().map(String::as_str).zip(values).collect();
        let read = read(&group(&pairs), GroupTemplate::Unnamed).unwrap();
        (read.options, read.notes.len())
    };
    let s = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(
        of(["0.5", "0.7", "10M", "20m0s", "15m", "1h"]),
        (
            GroupOptions {
                scale_down_utilization_threshold: Some(0.5),
                scale_down_gpu_utilization_threshold: Some(0.7),
                scale_down_unneeded_time: s(600),
                scale_down_unready_time: s(1200),
                max_node_provision_time: s(900),
                max_node_startup_time: s(3600),
            },
            0
        )
    );
    assert_eq!(of(["half", "x", "10", "x", "x", "x"]), (GroupOptions::default(), 6));
    assert_eq!(of([""; 6]), (GroupOptions::default(), 0));
    let unknown = option("unknown");
    let read = read(&group(&[(&unknown, "1")]), GroupTemplate::Unnamed).unwrap();
    assert_eq!((read.options, read.notes.len()), (GroupOptions::default(), 0));
}

#[test]
fn a_paused_group_is_not_scaled() {
    let paused = read(&group(&[("cluster.x-k8s.io/paused", "")]), GroupTemplate::Unnamed);
    assert_eq!(paused, Err(NotScaled::Paused));
}

#[test]
fn another_api_group_changes_the_names_of_annotations() {
    let settings =
        ReaderSettings { api_group: "cluster.example.com".to_owned(), ..ReaderSettings::default() };
    let group = json!({"metadata": {"annotations": {
        "cluster.example.com/cluster-api-autoscaler-node-group-min-size": "1",
        "cluster.example.com/cluster-api-autoscaler-node-group-max-size": "3",
        "cluster.example.com/autoscaling-options-scaledownunneededtime": "1m",
        "cluster.x-k8s.io/paused": "", MAX: "9",
    }}});
    let template = GroupTemplate::Unnamed;
    let objects = GroupObjects { group: &group, template, live_labels: None, node_name: "new" };
    let read = read_group(&objects, &settings).unwrap();
    assert_eq!(read.bounds, Bounds { min: 1, max: 3 });
    assert_eq!(read.options.scale_down_unneeded_time, Some(Duration::from_secs(60)));
    assert_eq!(delete_machine_annotation(&settings), "cluster.example.com/delete-machine");
    let usual = delete_machine_annotation(&ReaderSettings::default());
    assert_eq!(usual, "cluster.x-k8s.io/delete-machine");
}

#[test]
fn capz_020_the_status_of_the_template_gives_capacity_and_platform() {
    let template = template(json!({
        "capacity": {"cpu": "4", "memory": "8Gi", "example.com/x": "1"},
        "nodeInfo": {"architecture": "arm64", "operatingSystem": "windows"},
    }));
    let read = read(&group(&[]), GroupTemplate::Object(&template)).unwrap();
    let node = read.node.clone().unwrap();
    assert_eq!(
        capacity(&node),
        json!({"cpu": "4", "example.com/x": "1", "memory": "8Gi", "pods": "110"})
    );
    assert_eq!(node.allocatable, node.capacity, "nothing is reserved");
    assert_eq!(node.labels["kubernetes.io/arch"], "arm64");
    assert_eq!(node.labels["kubernetes.io/os"], "windows");
    assert_eq!(node.labels["kubernetes.io/hostname"], "new");
    assert!(read.is_listed_at(0));
}

#[test]
fn capz_021_an_annotation_replaces_the_status_of_its_resource_only() {
    let annotated = [("cpu", "16"), ("ephemeral-disk", "40Gi")];
    assert_eq!(
        capacity(&node(&annotated).unwrap()),
        json!({"cpu": "16", "ephemeral-storage": "40Gi", "memory": "8Gi", "pods": "110"})
    );
    let unset = [("cpu", ""), ("memory", "0"), ("ephemeral-disk", "")];
    assert_eq!(
        capacity(&node(&unset).unwrap()),
        json!({"cpu": "4", "memory": "8Gi", "pods": "110"}),
        "empty and zero tell nothing"
    );
}

#[test]
fn capz_022_the_number_of_pods_never_comes_from_the_status() {
    let template = template(json!({"capacity": {"cpu": "4", "memory": "8Gi", "pods": "30"}}));
    for (annotations, pods) in [
        (&[][..], "110"),
        (&[("maxPods", "50")], "50"),
        (&[("maxPods", "")], "110"),
        (&[("maxPods", "0")], "110"),
    ] {
        let read = read(&group(annotations), GroupTemplate::Object(&template)).unwrap();
        assert_eq!(read.node.unwrap().capacity["pods"].to_string(), pods, "{annotations:?}");
    }
}

#[test]
fn capz_023_gpus_need_a_whole_number_and_a_type() {
    for (annotations, gpus) in [
        (&[("gpu-count", "2"), ("gpu-type", "nvidia.com/gpu")][..], Some("2")),
        (&[("gpu-count", "2")], None),
        (&[("gpu-type", "nvidia.com/gpu")], None),
        (&[("gpu-count", "0"), ("gpu-type", "nvidia.com/gpu")], None),
        (&[("gpu-count", "2"), ("gpu-type", "")], None),
    ] {
        let node = node(annotations).unwrap();
        let found = node.capacity.get("nvidia.com/gpu").map(ToString::to_string);
        assert_eq!(found.as_deref(), gpus, "{annotations:?}");
        assert_eq!(node.capacity.len(), 3 + usize::from(gpus.is_some()), "{annotations:?}");
    }
    for (key, text) in [
        ("gpu-count", "1.5"),
        ("gpu-count", "2k"),
        ("gpu-count", "-1"),
        ("maxPods", "1.5"),
        ("cpu", "four"),
        ("memory", "8GiB"),
        ("ephemeral-disk", "x"),
    ] {
        let refused = node(&[(key, text)]);
        assert!(matches!(&refused, Err(NoTemplate::Annotation(_))), "{key} {text}: {refused:?}");
        assert!(refused.unwrap_err().to_string().starts_with(&format!("{key}: {text:?} ")));
    }
}

#[test]
fn capz_024_without_cpu_and_memory_a_group_is_not_listed_at_zero() {
    for (name, status, missing) in [
        ("only CPU", json!({"capacity": {"cpu": "4"}}), "memory"),
        ("only memory", json!({"capacity": {"memory": "8Gi"}}), "cpu"),
        ("no capacity", json!({}), "cpu"),
        ("a number", json!({"capacity": {"cpu": 4, "memory": "8Gi"}}), "cpu"),
        ("no quantity", json!({"capacity": {"cpu": "4", "memory": "x"}}), "memory"),
    ] {
        let template = template(status);
        let read = read(&group(&[]), GroupTemplate::Object(&template)).unwrap();
        assert_eq!(read.node, Err(NoTemplate::Unknown(missing)), "{name}");
        assert_eq!((read.is_listed_at(0), read.is_listed_at(1)), (false, true), "{name}");
    }
}

#[test]
fn a_template_that_cannot_be_read_matters_only_without_annotations() {
    let both = [("cpu", "4"), ("memory", "8Gi")];
    for (name, template, annotations, outcome) in [
        ("both", GroupTemplate::Unread("403"), &both[..], Ok(())),
        (
            "none",
            GroupTemplate::Unread("403"),
            &[("maxPods", "50")],
            Err(NoTemplate::Unread("403".to_owned())),
        ),
        ("one", GroupTemplate::Unread("403"), &both[..1], Err(NoTemplate::Unknown("memory"))),
        ("no template", GroupTemplate::Unnamed, &[], Err(NoTemplate::Unknown("cpu"))),
        ("no template, both", GroupTemplate::Unnamed, &both, Ok(())),
    ] {
        let read = read(&group(annotations), template).unwrap();
        assert_eq!(read.node.map(|_| ()), outcome, "{name}");
    }
}

#[test]
fn capz_025_empty_node_info_never_replaces_the_defaults() {
    let capacity = json!({"cpu": "4", "memory": "8Gi"});
    for (info, arch, system) in [
        (Value::Null, "amd64", "linux"),
        (json!({}), "amd64", "linux"),
        (json!({"architecture": "", "operatingSystem": ""}), "amd64", "linux"),
        (json!({"architecture": "arm64"}), "arm64", "linux"),
        (json!({"operatingSystem": "windows"}), "amd64", "windows"),
    ] {
        let template = template(json!({"capacity": capacity, "nodeInfo": info}));
        let read = read(&group(&[]), GroupTemplate::Object(&template)).unwrap();
        let labels = read.node.unwrap().labels;
        let platform = (&*labels["kubernetes.io/arch"], &*labels["kubernetes.io/os"]);
        assert_eq!(platform, (arch, system), "{info}");
    }
}

#[test]
fn capz_026_labels_have_an_order_of_precedence() {
    let mut group = group(&[
        ("cpu", "4"),
        ("memory", "8Gi"),
        (
            "labels",
            "node-role.kubernetes.io/b=annotation,no-value,x=a=b,empty=,kubernetes.io/os=bsd",
        ),
    ]);
    group["spec"]["template"]["metadata"]["labels"] = json!({
        "node-role.kubernetes.io/a": "machine", "node-role.kubernetes.io/b": "machine",
        "node-restriction.kubernetes.io/c": "machine", "sub.node.cluster.x-k8s.io/d": "machine",
        "kubernetes.io/arch": "not copied", "notnode.cluster.x-k8s.io/e": "not copied",
        "sub.node-role.kubernetes.io/f": "not copied",
    });
    group["spec"]["template"]["spec"]["metadata"]["labels"] = json!({"node.cluster.x-k8s.io/g": "older place", "node-role.kubernetes.io/a": "older place"});
    let template = template(json!({"nodeInfo": {"architecture": "arm64"}}));
    let read = |live: Option<&Labels>| {
        let objects = GroupObjects {
            group: &group,
            template: GroupTemplate::Object(&template),
            live_labels: live,
            node_name: "new",
        };
        read_group(&objects, &ReaderSettings::default()).unwrap().node.unwrap().labels
    };
    let expected = [
        ("empty", ""),
        ("kubernetes.io/arch", "arm64"),
        ("kubernetes.io/hostname", "new"),
        ("kubernetes.io/os", "bsd"),
        ("node-restriction.kubernetes.io/c", "machine"),
        ("node-role.kubernetes.io/a", "machine"),
        ("node-role.kubernetes.io/b", "annotation"),
        ("node.cluster.x-k8s.io/g", "older place"),
        ("sub.node.cluster.x-k8s.io/d", "machine"),
        ("x", "a=b"),
    ];
    let labels = |pairs: &[(&str, &str)]| -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    assert_eq!(read(None), labels(&expected));
    let live = labels(&[
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/hostname", "old"),
        ("topology.kubernetes.io/zone", "z"),
        ("topology.kubernetes.io/region", "r"),
        ("node.kubernetes.io/instance-type", "small"),
        ("x", "live"),
    ]);
    let with_live = read(Some(&live));
    assert_eq!(with_live["kubernetes.io/os"], "linux");
    assert_eq!(with_live["topology.kubernetes.io/zone"], "z");
    assert_eq!((&*with_live["x"], &*with_live["kubernetes.io/hostname"]), ("a=b", "new"));
    assert_eq!(with_live.len(), expected.len() + 3);
}

#[test]
fn the_default_architecture_is_a_setting() {
    let settings =
        ReaderSettings { default_architecture: "arm64".to_owned(), ..ReaderSettings::default() };
    let group = group(&[("cpu", "4"), ("memory", "8Gi")]);
    let template = GroupTemplate::Unnamed;
    let objects = GroupObjects { group: &group, template, live_labels: None, node_name: "new" };
    let node = read_group(&objects, &settings).unwrap().node.unwrap();
    assert_eq!(node.labels["kubernetes.io/arch"], "arm64");
}

#[test]
fn capz_026_taints_of_the_annotation_replace_those_of_the_same_key_and_effect() {
    let mut group = group(&[
        ("cpu", "4"),
        ("memory", "8Gi"),
        (
            "taints",
            "a=new:NoSchedule,a=x:NoExecute,key,b:Odd,=v:NoSchedule,a=b=c:NoSchedule,a:b:c,bad key:X,c=bad value:X,",
        ),
    ]);
    group["spec"]["template"]["spec"]["taints"] = json!([
        {"key": "a", "value": "old", "effect": "NoSchedule", "propagation": "Always"},
        {"key": "z", "effect": "NoExecute"}, "not a taint",
    ]);
    let read = read(&group, GroupTemplate::Unnamed).unwrap();
    let taints = read.node.unwrap().taints;
    let texts: Vec<String> =
        taints.iter().map(|it| format!("{}={}:{}", it.key, it.value, it.effect)).collect();
    assert_eq!(texts, ["a=new:NoSchedule", "z=:NoExecute", "a=x:NoExecute", "key=:", "b=:Odd"]);
    assert_eq!(read.notes.len(), 6, "{:?}", read.notes);
}

#[test]
fn capz_027_csi_drivers_have_limits_and_wrong_entries_are_left_out() {
    let annotations = [("cpu", "4"), ("memory", "8Gi"), ("csi-driver", "a=25,b=0, c=-1,d,=3,e=x")];
    let read = read(&group(&annotations), GroupTemplate::Unnamed).unwrap();
    let driver = |name: &str, limit| CsiDriver { name: name.to_owned(), limit };
    assert_eq!(read.node.unwrap().csi_drivers, [driver("a", Some(25)), driver("b", None)]);
    assert_eq!(read.notes.len(), 4, "{:?}", read.notes);
    assert_eq!(node(&[("csi-driver", "")]).unwrap().csi_drivers, []);
}

#[test]
fn a_dra_driver_has_a_device_per_gpu() {
    let slice = node(&[("gpu-count", "2"), ("dra-driver", "gpu.example.com")]).unwrap().devices;
    assert_eq!(
        slice.unwrap(),
        DeviceSlice {
            name: "new-gpu.example.com".to_owned(),
            driver: "gpu.example.com".to_owned(),
            pool: "new".to_owned(),
            devices: vec!["gpu-0".to_owned(), "gpu-1".to_owned()],
        }
    );
    for annotations in [
        &[("dra-driver", "gpu.example.com")][..],
        &[("gpu-count", "2")],
        &[("gpu-count", "2"), ("dra-driver", "")],
    ] {
        assert_eq!(node(annotations).unwrap().devices, None, "{annotations:?}");
    }
}

#[test]
fn reserved_resources_are_not_allocatable() {
    let reserved = [("cpu", "500m"), ("memory", "1Gi"), ("nvidia.com/gpu", "1")];
    let reserved = reserved.map(|(name, text)| (name.to_owned(), text.parse().unwrap()));
    let settings =
        ReaderSettings { reserved: Resources::from(reserved), ..ReaderSettings::default() };
    let group = group(&[("cpu", "4"), ("memory", "8Gi")]);
    let template = GroupTemplate::Unnamed;
    let objects = GroupObjects { group: &group, template, live_labels: None, node_name: "new" };
    let node = read_group(&objects, &settings).unwrap().node.unwrap();
    let texts: Vec<_> = node.allocatable.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(texts, ["cpu=3500m", "memory=7Gi", "pods=110"]);
    assert_eq!(node.capacity["cpu"].to_string(), "4");
}

#[test]
fn the_template_of_a_group_is_named_in_both_versions_of_cluster_api() {
    let read = |reference: Value| {
        let spec = json!({"infrastructureRef": reference});
        template_reference(&json!({"spec": {"template": {"spec": spec}}}))
    };
    let reference = |api_group: &str, version: Option<&str>| {
        Ok(Some(TemplateReference {
            api_group: api_group.to_owned(),
            version: version.map(str::to_owned),
            resource: "dockermachinetemplates".to_owned(),
            name: "t".to_owned(),
        }))
    };
    let kind = "DockerMachineTemplate";
    let group = "infrastructure.cluster.x-k8s.io";
    assert_eq!(read(Value::Null), Ok(None));
    assert_eq!(read(json!({"apiGroup": group, "kind": kind, "name": "t"})), reference(group, None));
    let older = json!({"apiVersion": format!("{group}/v1beta1"), "kind": kind, "name": "t"});
    assert_eq!(read(older), reference(group, Some("v1beta1")));
    let core = json!({"apiVersion": "v1", "kind": kind, "name": "t"});
    assert_eq!(read(core), reference("", Some("v1")));
    for (incomplete, key) in [
        (json!({"kind": kind, "name": "t"}), "apiGroup"),
        (json!({"apiGroup": group, "name": "t"}), "kind"),
        (json!({"apiGroup": group, "kind": kind, "name": ""}), "name"),
    ] {
        let refused = read(incomplete).unwrap_err().to_string();
        assert_eq!(refused, format!("infrastructureRef: {key}: is missing; correct the group"));
    }
}
