//! Compares conversions with the results of VM Operator's own code, which the program
//! `conformance/peers/vm-conversion` has recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{ANNOTATION, GROUP, KINDS, convert, number, version};
use crate::Ids;
use crate::objects::{Command, GroupResource, Key, PatchKind, Store, json_type};

/// The output of the program `vm-conversion` for a kind.
#[derive(Deserialize)]
struct File {
    kind: String,
    /// Values of [`ANNOTATION`]; an object refers to one of them as `@` and its number.
    texts: Vec<String>,
    /// Each object in full, or as the number of an earlier object and a merge patch.
    objects: Vec<Value>,
    /// For each conversion: number of the object, wanted version, and number of the result; `None`
    /// if VM Operator refuses the conversion.
    conversions: Vec<(usize, String, Option<usize>)>,
}

impl File {
    fn read(text: &str) -> Self {
        let mut file: Self = serde_json::from_str(text).unwrap();
        for at in 0..file.objects.len() {
            if let Value::Array(parts) = &file.objects[at] {
                let (other, patch) = (parts[0].as_u64().unwrap(), parts[1].clone());
                let mut whole = file.objects[usize::try_from(other).unwrap()].clone();
                json_patch::merge(&mut whole, &patch);
                file.objects[at] = whole;
            }
        }
        for object in &mut file.objects {
            let annotations = object.pointer_mut("/metadata/annotations");
            let Some(annotation) = annotations.and_then(|it| it.get_mut(ANNOTATION)) else {
                continue;
            };
            let number = annotation.as_str().and_then(|it| it.strip_prefix('@'));
            if let Some(number) = number.and_then(|it| it.parse::<usize>().ok()) {
                *annotation = file.texts[number].as_str().into();
            }
        }
        file
    }

    /// Checks that [`convert`] gives the recorded result of every conversion. Returns the number of
    /// conversions by wanted version.
    fn hold(&self) -> BTreeMap<&str, usize> {
        let mut held = BTreeMap::new();
        let mut wrong = Vec::new();
        for (from, to, want) in &self.conversions {
            let given = &self.objects[*from];
            assert_eq!(given["kind"], *self.kind);
            let found = convert(given, &format!("{GROUP}/{to}"));
            let differences = match (&found, want) {
                (Err(_), None) => Vec::new(),
                (Ok(found), Some(want)) => differences(found, &self.objects[*want]),
                (found, want) => vec![format!("got {found:?}, expected {want:?}")],
            };
            if !differences.is_empty() {
                let list = differences.join("\n    ");
                wrong.push(format!("{} {from} to {to}:\n    {list}", given["apiVersion"]));
            }
            *held.entry(to.as_str()).or_default() += 1;
        }
        let (n, all) = (wrong.len(), self.conversions.len());
        wrong.truncate(20);
        assert!(wrong.is_empty(), "{n} of {all} conversions differ\n{}", wrong.join("\n"));
        held
    }
}

/// The paths at which two values differ, with both values.
fn differences(found: &Value, want: &Value) -> Vec<String> {
    fn walk(path: &str, found: &Value, want: &Value, out: &mut Vec<String>) {
        match (found, want) {
            (Value::Object(a), Value::Object(b)) => {
                for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                    let null = json!("(nothing)");
                    let (a, b) = (a.get(key).unwrap_or(&null), b.get(key).unwrap_or(&null));
                    walk(&format!("{path}.{key}"), a, b, out);
                }
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                for (at, (a, b)) in a.iter().zip(b).enumerate() {
                    walk(&format!("{path}[{at}]"), a, b, out);
                }
            }
            _ if found == want => {}
            _ => out.push(format!(
                "{path}: got {:.300}, expected {:.300}",
                found.to_string(),
                want.to_string()
            )),
        }
    }
    let mut out = Vec::new();
    walk("", found, want, &mut out);
    out
}

macro_rules! kinds {
    ($($test:ident: $kind:literal;)*) => {
        const FILES: &[(&str, &str)] = &[
            $(($kind, include_str!(concat!("../../../tests/vm-conversion/", $kind, ".json"))),)*
        ];

        $(
            #[test]
            fn $test() {
                let (_, text) = FILES.iter().find(|(kind, _)| *kind == $kind).unwrap();
                let file = File::read(text);
                let held = file.hold();
                // The file has conversions to every version.
                let first = if $kind == "VirtualMachineGroup" { 2 } else { 1 };
                let wanted: Vec<String> = (first..=6).map(|n| format!("v1alpha{n}")).collect();
                assert!(held.keys().eq(&wanted), "{held:?}");
            }
        )*
    };
}

kinds! {
    machines_are_converted_as_by_the_vm_operator: "VirtualMachine";
    services_are_converted_as_by_the_vm_operator: "VirtualMachineService";
    classes_are_converted_as_by_the_vm_operator: "VirtualMachineClass";
    images_are_converted_as_by_the_vm_operator: "VirtualMachineImage";
    images_of_the_cluster_are_converted_as_by_the_vm_operator: "ClusterVirtualMachineImage";
    policies_are_converted_as_by_the_vm_operator: "VirtualMachineSetResourcePolicy";
    groups_are_converted_as_by_the_vm_operator: "VirtualMachineGroup";
}

#[test]
fn every_kind_has_fixtures() {
    assert!(KINDS.iter().map(|kind| kind.name).all(|name| FILES.iter().any(|(it, _)| *it == name)));
}

/// Paths that a conversion down and up again loses in spite of the annotation, each with the first
/// and last older version that loses it. VM Operator does not restore them.
const FORGOTTEN: &[(u8, u8, &str)] = &[
    (1, 4, ".spec.class"),
    // v1alpha1 names only one transport.
    (1, 1, ".spec.bootstrap"),
    (1, 1, ".metadata.annotations"),
    (1, 1, ".spec.volumes"),
    (1, 1, ".spec.reserved"),
    // In the hub this key has no meaning, but in v1alpha1 and v1alpha2 it pauses VM Operator.
    (1, 2, ".metadata.annotations.vmoperator.vmware.com/pause-reconcile"),
];

/// True if a difference is at a path or below it.
fn is_within(difference: &str, path: &str) -> bool {
    difference.strip_prefix(path).is_some_and(|rest| rest.starts_with([':', '.', '[']))
}

#[test]
fn a_conversion_down_and_up_with_the_annotation_loses_only_known_paths() {
    let (mut n, mut bad, mut forgotten) = (0, Vec::new(), BTreeSet::new());
    for (kind, text) in FILES {
        if KINDS.iter().any(|it| it.name == *kind && it.restore.is_none()) {
            continue;
        }
        let file = File::read(text);
        let hubs = file.objects.iter().enumerate();
        for (at, hub) in hubs.filter(|(_, it)| it["apiVersion"] == version(6).as_str()) {
            let hub = convert(hub, &version(6)).unwrap();
            for older in (1..6).filter(|older| *older > 1 || *kind != "VirtualMachineGroup") {
                let down = convert(&hub, &version(older)).unwrap();
                let up = convert(&down, &version(6)).unwrap();
                let lost = differences(&up, &hub);
                let known = |lost: &str| {
                    FORGOTTEN.iter().position(|(first, last, path)| {
                        (*first..=*last).contains(&older) && is_within(lost, path)
                    })
                };
                forgotten.extend(lost.iter().filter_map(|it| known(it)));
                let lost: Vec<&String> = lost.iter().filter(|it| known(it).is_none()).collect();
                if !lost.is_empty() {
                    bad.push(format!("{kind} {at} by v1alpha{older}: {lost:#?}"));
                }
                n += 1;
            }
        }
    }
    assert!(bad.is_empty(), "{} of {n}\n{}", bad.len(), bad.join("\n"));
    assert_eq!(forgotten.len(), FORGOTTEN.len(), "a path of FORGOTTEN is never lost");
    assert!(n > 100, "only {n} conversions were checked");
}

#[test]
fn api_versions_from_v1alpha1_to_v1alpha6_have_numbers() {
    for (text, want) in [
        ("vmoperator.vmware.com/v1alpha1", Some(1)),
        ("vmoperator.vmware.com/v1alpha6", Some(6)),
        ("vmoperator.vmware.com/v1alpha7", None),
        ("vmoperator.vmware.com/v1alpha0", None),
        ("vmoperator.vmware.com/v1alpha+1", None),
        ("vmoperator.vmware.com/v1alpha01", None),
        ("vmoperator.vmware.com/v1", None),
        ("v1alpha1", None),
        ("other.example/v1alpha1", None),
    ] {
        assert_eq!(number(text), want, "{text}");
    }
}

#[test]
fn a_conversion_of_an_unknown_kind_or_version_is_refused() {
    let object = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind});
    let newest = version(6);
    for (given, wanted, told) in [
        (
            object(&newest, "Pod"),
            version(1),
            "no kind \"Pod\" is registered for version \"vmoperator.vmware.com/v1alpha6\"",
        ),
        (
            object("v1", "VirtualMachine"),
            version(1),
            "no kind \"VirtualMachine\" is registered for version \"v1\"",
        ),
        (
            object(&newest, "VirtualMachine"),
            "x/v1".into(),
            "no kind \"VirtualMachine\" is registered for version \"x/v1\"",
        ),
        (
            object(&newest, "VirtualMachineGroup"),
            version(1),
            "no kind \"VirtualMachineGroup\" is registered for version \"vmoperator.vmware.com/v1alpha1\"",
        ),
    ] {
        assert_eq!(convert(&given, &wanted).unwrap_err(), told);
    }
}

#[test]
fn values_of_the_wrong_type_are_refused_and_nothing_panics() {
    for odd in
        [json!(null), json!(5), json!("text"), json!([1]), json!({"a": 1}), json!([{"name": 5}])]
    {
        for pointer in ["metadata", "spec", "status"] {
            for kind in &KINDS {
                for (from, to) in [(6, 1), (6, 2), (6, 3), (2, 6), (3, 5), (1, 6)] {
                    let mut object = json!({"apiVersion": version(from), "kind": kind.name});
                    object[pointer] = odd.clone();
                    let result = convert(&object, &version(to));
                    let is_group = kind.name == "VirtualMachineGroup" && (from == 1 || to == 1);
                    let is_structure = odd.is_null() || odd.is_object() || pointer == "metadata";
                    let told =
                        format!("{} {from} to {to}, {}: {result:?}", kind.name, json_type(&odd));
                    assert_eq!(result.is_ok(), is_structure && !is_group, "{told}");
                }
            }
        }
    }
}

/// Returns the schema with permission for fields that it does not declare.
fn keeping(mut schema: Value) -> Value {
    schema["x-kubernetes-preserve-unknown-fields"] = true.into();
    schema
}

/// A store that serves machines in v1alpha2 and v1alpha6 and stores v1alpha6.
fn store() -> Store {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let lifetime = json!({"type": "object", "properties": {"lifetime": {"type": "string"}}});
    let mut status = json!({"items": keeping(lifetime), "type": "array"});
    for field in ["addresses", "ip"] {
        status = keeping(json!({"type": "object", "properties": {field: status}}));
    }
    status = json!({"items": status, "type": "array"});
    for field in ["interfaces", "network"] {
        status = keeping(json!({"type": "object", "properties": {field: status}}));
    }
    let schema = json!({"type": "object", "properties": {"spec": any, "status": status}});
    let schema = json!({"openAPIV3Schema": schema});
    let served = |name: &str, is_stored: bool| json!({"name": name, "served": true, "storage": is_stored, "schema": schema});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("virtualmachines.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"kind": "VirtualMachine", "plural": "virtualmachines"},
            "versions": [served("v1alpha2", false), served("v1alpha6", true)],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": {"url": "https://localhost/convert"},
                    "conversionReviewVersions": ["v1"],
                },
            },
        },
    });
    let mut store = Store::new(Ids::new(7));
    store.convert_with(machines(), convert);
    let definitions = GroupResource::of("apiextensions.k8s.io", "customresourcedefinitions");
    run(&mut store, Command::create(definitions, "", definition));
    store
}

fn machines() -> GroupResource {
    GroupResource::of(GROUP, "virtualmachines")
}

/// Carries out a command; returns the last object that changed.
fn run(store: &mut Store, command: Command) -> Arc<Value> {
    let now = "2026-03-01T08:00:00Z".parse().unwrap();
    let events = store.decide(now, command).unwrap().events;
    for event in &events {
        store.fold(event);
    }
    events.last().unwrap().object.clone()
}

#[test]
fn the_store_keeps_the_hub_and_shows_older_versions_with_the_annotation() {
    let mut store = store();
    let key = Key::new(machines(), "default", "a");
    let machine = json!({
        "apiVersion": version(6), "kind": "VirtualMachine",
        "metadata": {"name": "a", "annotations": {"mine": "stays"}},
        "spec": {"className": "small", "guestID": "linux"},
    });
    run(&mut store, Command::create(machines(), "default", machine));
    let older = |store: &Store| {
        let def = store.resource(&machines()).unwrap();
        store.to_client(def, "v1alpha2", store.get(&key).unwrap()).unwrap().as_ref().clone()
    };
    let write = |store: &mut Store, object: Value| {
        run(store, Command::update(key.clone(), object).in_version("v1alpha2"));
        let stored = store.get(&key).unwrap();
        assert_eq!(stored["apiVersion"], version(6).as_str());
        assert_eq!(stored["metadata"]["annotations"], json!({"mine": "stays"}));
        stored["spec"].clone()
    };

    let mut read = older(&store);
    assert_eq!(read["spec"], json!({"className": "small"}), "v1alpha2 has no field guestID");
    let kept: Value =
        serde_json::from_str(read["metadata"]["annotations"][ANNOTATION].as_str().unwrap())
            .unwrap();
    assert_eq!(kept["spec"]["guestID"], "linux");
    assert!(kept.get("metadata").is_none());

    read["spec"]["className"] = "large".into();
    let spec = write(&mut store, read);
    assert_eq!((&spec["className"], &spec["guestID"]), (&json!("large"), &json!("linux")));

    let mut read = older(&store);
    read["metadata"]["annotations"] = json!({"mine": "stays"});
    let spec = write(&mut store, read);
    assert_eq!(spec.get("guestID"), None, "dropped with the annotation");
}

#[test]
fn a_deletion_by_a_patch_in_an_older_version_shows_the_stored_object() {
    let mut store = store();
    let key = Key::new(machines(), "default", "a");
    let class = json!({"apiVersion": "v1", "kind": "VirtualMachineClass", "name": "small"});
    let machine = json!({
        "apiVersion": version(6), "kind": "VirtualMachine",
        "metadata": {"name": "a", "finalizers": ["example.com/held"]},
        "spec": {"class": class},
    });
    run(&mut store, Command::create(machines(), "default", machine));
    run(&mut store, Command::delete(key.clone()));
    let patch = json!({"metadata": {"finalizers": null}});
    let patch = Command::patch(key.clone(), PatchKind::Merge, patch).in_version("v1alpha2");
    let told = run(&mut store, patch);
    assert!(store.get(&key).is_none());
    assert_eq!(told["spec"]["class"], class, "a conversion down and up would lose it");
}

#[test]
fn nulls_written_by_a_conversion_are_pruned_where_the_schema_forbids_them() {
    let mut store = store();
    let key = Key::new(machines(), "default", "a");
    let addresses = json!([{"address": "192.0.2.7/24", "origin": "dhcp"}]);
    let status =
        json!({"network": {"interfaces": [{"name": "eth0", "ip": {"addresses": addresses}}]}});
    let machine = json!({
        "apiVersion": version(6), "kind": "VirtualMachine", "metadata": {"name": "a"}, "status": status,
    });
    run(&mut store, Command::create(machines(), "default", machine.clone()));
    let converted = convert(&machine, &version(2)).unwrap();
    let address = "/status/network/interfaces/0/ip/addresses/0";
    assert!(converted.pointer(address).unwrap()["lifetime"].is_null(), "a zero time of Go");
    assert!(converted.pointer(&format!("{address}/lifetime")).is_some());
    let def = store.resource(&machines()).unwrap();
    let shown = store.to_client(def, "v1alpha2", store.get(&key).unwrap()).unwrap();
    assert_eq!(shown.pointer(address), addresses.get(0));
}

#[test]
fn the_structures_are_read_with_every_field_and_kind() {
    let raw: Value = serde_json::from_str(super::STRUCTURES).unwrap();
    for (name, rows) in raw["structs"].as_object().unwrap() {
        let fields = super::GO.field_count(name).unwrap();
        assert_eq!(fields, rows.as_array().unwrap().len(), "{name}");
    }
    for (kind, _) in raw["kinds"].as_object().unwrap() {
        let (version, name) = kind.rsplit_once('/').unwrap();
        super::GO.through(version, name, &json!({})).unwrap();
    }
}
