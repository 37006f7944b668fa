//! Tests that the schema and the types that read a group have the same keys and values.
//!
//! The types answer an unknown key or value with those that they know, and a missing key by name. So
//! the tests walk the schema and ask the types at each place.

use serde_json::{Value, json};

use super::{
    super::{super::group::read_spec, GROUP, RESOURCE, VERSION},
    NODE_GROUP_DEFINITION,
};
use crate::controllers::autoscaler::group::MachineKind;

/// A spec with every key, of VirtualMachines or of clones.
fn full(shape: &str) -> Value {
    let mut spec = json!({
        "min": 0, "max": 5, "adopt": false, "region": "r", "labels": {"a": "b"},
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
        "reserved": {"cpu": "100m", "memory": "1Gi", "ephemeralStorage": "1Gi"},
        "maxPods": 110, "ephemeralStorage": "20Gi",
        "platform": {"architecture": "amd64", "operatingSystem": "linux"},
        "gpu": {"resource": "nvidia.com/gpu", "type": "a100", "count": 1},
        "options": {
            "scaleDownUtilizationThreshold": 0.5, "scaleDownGpuUtilizationThreshold": 0.5,
            "scaleDownUnneededTime": "5m", "scaleDownUnreadyTime": "5m",
            "maxNodeProvisionTime": "15m", "ignoreDaemonSetsUtilization": true,
        },
    });
    spec[shape] = match shape {
        "machine" => json!({
            "className": "c", "imageName": "i", "storageClass": "s", "resourcePolicyName": "p",
            "zone": "z", "powerOffMode": "Soft", "bootstrap": {"secretName": "b", "key": "k", "token": {"ttl": "1h"}},
        }),
        _ => json!({
            "datacenter": "d", "template": "t", "folder": "f", "resourcePool": "p",
            "datastore": "s", "networks": ["n"], "numCPUs": 4, "memoryMiB": 4096, "diskGiB": 60,
            "cloneMode": "full", "tag": "c/t", "zone": "z",
            "bootstrap": {"file": "f", "format": "cloud-init", "token": {"ttl": "1h"}},
        }),
    };
    spec
}

/// Returns a clone of a library item instead of a template.
fn of_library(clone: &Value) -> Value {
    let mut clone = clone.clone();
    let keys = clone.as_object_mut().unwrap();
    keys.remove("template").unwrap();
    keys.insert("libraryItem".to_owned(), "l/i".into());
    clone
}

fn refusal(spec: &Value) -> Option<String> {
    let machines = match spec.get("clone") {
        Some(_) => MachineKind::clones().with_tokens(true),
        None => MachineKind::virtual_machines("ns").with_tokens(true),
    };
    read_spec("workers", spec, &machines).err().map(|err| err.to_string())
}

fn definition() -> Value {
    serde_saphyr::from_str(NODE_GROUP_DEFINITION).unwrap()
}

fn spec_schema() -> Value {
    let definition = definition();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"].clone()
}

/// A place of the schema with its schema: the pointer to a value of a full spec.
fn places(schema: &Value, at: &str, out: &mut Vec<(String, Value)>) {
    out.push((at.to_owned(), schema.clone()));
    for (key, below) in schema["properties"].as_object().into_iter().flatten() {
        places(below, &format!("{at}/{key}"), out);
    }
    if schema["items"].is_object() {
        places(&schema["items"], &format!("{at}/0"), out);
    }
}

/// Returns each place with a full spec that has a value there.
fn all() -> Vec<(String, Value, Value)> {
    let mut all = Vec::new();
    places(&spec_schema(), "", &mut all);
    let with_spec = |(at, schema): (String, Value)| {
        let mut spec = full(if at.starts_with("/clone") { "clone" } else { "machine" });
        if at == "/clone/libraryItem" {
            spec["clone"] = of_library(&spec["clone"]);
        }
        assert!(spec.pointer(&at).is_some() || at == "/clone", "{at}: add it to the full spec");
        (at, schema, spec)
    };
    all.into_iter().map(with_spec).collect()
}

/// Returns the words in backquotes after `expected`, which serde lists, in order.
fn expected(refusal: &str) -> Vec<String> {
    let (_, list) = refusal.split_once("expected ").unwrap_or_else(|| panic!("{refusal}"));
    let list = list.split("; ").next().unwrap();
    let mut words: Vec<_> = list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    words.sort();
    words
}

#[test]
fn a_full_spec_of_each_platform_is_accepted() {
    for shape in ["machine", "clone"] {
        assert_eq!(refusal(&full(shape)), None, "{shape}");
    }
}

#[test]
fn a_clone_has_exactly_one_of_template_and_library_item_in_schema_and_types() {
    let one_of = spec_schema()["properties"]["clone"]["oneOf"].clone();
    assert_eq!(one_of, json!([{"required": ["template"]}, {"required": ["libraryItem"]}]));
    let mut spec = full("clone");
    spec["clone"]["libraryItem"] = "l/i".into();
    let both = refusal(&spec).unwrap();
    assert!(both.contains("libraryItem: cannot be combined with template"), "{both}");
    spec["clone"].as_object_mut().unwrap().remove("template");
    assert_eq!(refusal(&spec), None);
    spec["clone"].as_object_mut().unwrap().remove("libraryItem");
    let none = refusal(&spec).unwrap();
    assert!(none.contains("names neither a template nor a library item"), "{none}");
}

#[test]
fn the_schema_has_exactly_the_keys_of_the_types() {
    let mut n = 0;
    for (at, schema, mut spec) in all() {
        let Some(properties) = schema["properties"].as_object() else { continue };
        let mut keys: Vec<String> = properties.keys().cloned().collect();
        if at.is_empty() {
            keys.push("name".to_owned());
        }
        keys.sort();
        spec.pointer_mut(&at).unwrap()["unknownKey"] = 1.into();
        assert_eq!(expected(&refusal(&spec).unwrap()), keys, "{at}");
        n += 1;
    }
    assert_eq!(n, 12, "objects with keys");
}

#[test]
fn the_schema_requires_exactly_the_keys_that_the_types_require() {
    for (at, schema, spec) in all() {
        for key in schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key) {
            let mut spec = spec.clone();
            let removed = spec.pointer_mut(&at).unwrap().as_object_mut().unwrap().remove(key);
            let required = schema["required"].as_array().into_iter().flatten();
            // The types require the key of their platform, and the schema one of both.
            let is_shape =
                at.is_empty() && removed.is_some() && matches!(&**key, "machine" | "clone");
            let is_required = is_shape || required.into_iter().any(|it| it == key);
            let refusal = refusal(&spec).unwrap_or_default();
            let missing = format!("missing field `{key}`");
            assert_eq!(refusal.contains(&missing), is_required, "{at}/{key}: {refusal}");
        }
    }
}

#[test]
fn the_schema_lists_exactly_the_values_of_the_enums() {
    let mut n = 0;
    for (at, schema, mut spec) in all() {
        let value = spec.pointer_mut(&at).filter(|it| it.is_string());
        let Some(value) = value else { continue };
        *value = "noSuchValue".into();
        let refusal = refusal(&spec).unwrap_or_default();
        let is_enum = refusal.contains("unknown variant");
        assert_eq!(is_enum, schema["enum"].is_array(), "{at}: {refusal}");
        if is_enum {
            let mut values: Vec<String> = schema["enum"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| it.as_str().unwrap().to_owned())
                .collect();
            values.sort();
            assert_eq!(expected(&refusal), values, "{at}");
            n += 1;
        }
    }
    assert_eq!(n, 4, "effect, powerOffMode, cloneMode, format");
}

/// Returns a value of each type that the schema permits at a place, and one of another type.
fn samples(schema: &Value) -> (Vec<Value>, Value) {
    match schema["type"].as_str() {
        Some("boolean") => (vec![true.into()], "text".into()),
        Some("integer") => (vec![4.into()], "text".into()),
        Some("number") => (vec![json!(0.5), 1.into()], "text".into()),
        Some("string") => (Vec::new(), true.into()),
        Some("array") => (vec![json!([])], "text".into()),
        Some("object") => (Vec::new(), "text".into()),
        _ => (vec![1.into(), "1".into()], json!([])),
    }
}

#[test]
fn the_types_read_values_of_exactly_the_types_of_the_schema() {
    for (at, schema, spec) in all().into_iter().filter(|(at, ..)| !at.is_empty() && at != "/clone")
    {
        let (good, bad) = samples(&schema);
        let with = |value: Value| {
            let mut spec = spec.clone();
            *spec.pointer_mut(&at).unwrap() = value;
            refusal(&spec)
        };
        for value in good {
            assert_eq!(with(value.clone()), None, "{at}: {value}");
        }
        assert!(with(bad.clone()).is_some(), "{at}: {bad}");
    }
}

#[test]
fn the_types_accept_the_bounds_of_the_schema_and_refuse_the_numbers_beyond() {
    let mut n = 0;
    for (at, schema, spec) in all() {
        let is_whole = schema["type"] == "integer";
        let step = schema["multipleOf"].as_f64().unwrap_or(1.0);
        for (bound, step) in [("minimum", -step), ("maximum", step)] {
            let Some(bound) = schema[bound].as_f64() else { continue };
            let number = |it: f64| if is_whole { json!(it as i64) } else { json!(it) };
            let with = |value: Value| {
                let mut spec = spec.clone();
                *spec.pointer_mut(&at).unwrap() = value;
                if at == "/min" {
                    spec["max"] = 20_000.into();
                }
                refusal(&spec)
            };
            assert_eq!(with(number(bound)), None, "{at}: {bound}");
            assert!(with(number(bound + step)).is_some(), "{at}: {bound} and one step more");
            n += 1;
        }
    }
    assert_eq!(n, 18, "bounds");
}

#[test]
fn the_names_of_the_definition_are_those_that_the_server_uses() {
    let definition = definition();
    let spec = &definition["spec"];
    assert_eq!(definition["metadata"]["name"], format!("{RESOURCE}.{GROUP}"));
    assert_eq!((&spec["group"], &spec["names"]["plural"]), (&json!(GROUP), &json!(RESOURCE)));
    assert_eq!(
        (&spec["names"]["kind"], &spec["scope"]),
        (&json!("NodeGroup"), &json!("Namespaced"))
    );
    let version = &spec["versions"][0];
    assert_eq!(
        (&version["name"], spec["versions"].as_array().unwrap().len()),
        (&json!(VERSION), 1)
    );
    assert_eq!((&version["served"], &version["storage"]), (&json!(true), &json!(true)));
    assert_eq!(version["subresources"], json!({"status": {}}));
}
