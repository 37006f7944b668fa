//! The definition in an API server: which objects it refuses, and what it shows.

use serde_json::{Value, json};

use super::super::repository;
use super::world::{ROLE, World, clone, collection, machine};
use super::{GROUP, NAMESPACE, s};

const EXAMPLE: &str = include_str!("example.yaml");

/// Sets a key of a spec; null removes it.
fn with(mut spec: Value, at: &str, value: Value) -> Value {
    let (parent, key) = at.rsplit_once('/').unwrap();
    let parent = spec.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match value {
        Value::Null => drop(parent.remove(key)),
        value => drop(parent.insert(key.to_owned(), value)),
    }
    spec
}

#[tokio::test(start_paused = true)]
async fn the_api_server_refuses_wrong_values_with_their_keys() {
    let world = World::new().await;
    let (machine, clone) = (machine(0, 5), clone(5));
    for (spec, at, value) in [
        (&machine, "/max", Value::Null),
        (&machine, "/max", json!(0)),
        (&machine, "/max", json!(20_001)),
        (&machine, "/max", json!("5")),
        (&machine, "/min", json!(-1)),
        (&machine, "/maxPods", json!(0)),
        (&machine, "/labels", json!({"a": 1})),
        (&machine, "/taints", json!([{"key": "a", "effect": "Never"}])),
        (&machine, "/taints", json!([{"effect": "NoSchedule"}])),
        (&machine, "/reserved", json!({"cpu": "two"})),
        (&machine, "/reserved", json!({"cpu": "-1"})),
        (&machine, "/ephemeralStorage", json!("20 Gi")),
        (&machine, "/gpu", json!({"resource": "r", "type": "t", "count": 0})),
        (&machine, "/options", json!({"scaleDownUnneededTime": "5"})),
        (&machine, "/options", json!({"scaleDownUtilizationThreshold": 2})),
        (&machine, "/machine", Value::Null),
        (&machine, "/clone", clone["clone"].clone()),
        (&machine, "/machine/className", Value::Null),
        (&machine, "/machine/imageName", json!("")),
        (&machine, "/machine/powerOffMode", json!("Off")),
        (&machine, "/machine/bootstrap", json!({})),
        (&clone, "/clone/folder", Value::Null),
        (&clone, "/clone/numCPUs", json!(769)),
        (&clone, "/clone/memoryMiB", json!(4097)),
        (&clone, "/clone/diskGiB", json!(0)),
        (&clone, "/clone/cloneMode", json!("instant")),
        (&clone, "/clone/tag", json!("no-category")),
        (&clone, "/clone/libraryItem", json!("no-library")),
        (&clone, "/clone/networks", json!(vec!["n"; 11])),
        (&clone, "/clone/bootstrap/format", json!("kickstart")),
    ] {
        let wrong = with(spec.clone(), at, value.clone());
        let refused = world.try_create(NAMESPACE, "workers", wrong).await;
        let refused = refused.expect_err(&format!("{at} {value}"));
        let is_shape = matches!(at, "/machine" | "/clone");
        let place =
            if is_shape { "spec".to_owned() } else { format!("spec{}", at.replace('/', ".")) };
        assert!(refused.contains(&place), "{at} {value}: {refused}");
    }
    let of_library = with(clone.clone(), "/clone/libraryItem", json!("images/noble"));
    let of_nothing = with(clone.clone(), "/clone/template", Value::Null);
    for wrong in [&of_library, &of_nothing] {
        let refused = world.try_create(NAMESPACE, "workers", wrong.clone()).await.unwrap_err();
        assert!(refused.contains("spec.clone"), "{wrong}: {refused}");
    }
    for name in ["my.group", &*"a".repeat(58)] {
        let refused = world.try_create(NAMESPACE, name, machine.clone()).await.unwrap_err();
        assert!(refused.contains("metadata.name"), "{name}: {refused}");
    }
    for (name, spec, at, value) in [
        ("a", &machine, "/reserved", json!({"cpu": 2, "memory": "1.5Gi"})),
        ("b", &machine, "/options", json!({"scaleDownUnneededTime": "1h30m"})),
        ("c", &clone, "/clone/numCPUs", json!(768)),
        ("d", &of_library, "/clone/template", Value::Null),
    ] {
        world.create(name, with(spec.clone(), at, value)).await;
    }
    let strict = format!("{}?fieldValidation=Strict", collection(NAMESPACE));
    let unknown = json!({
        "apiVersion": "vsphere.cloud-provider/v1alpha1", "kind": "NodeGroup",
        "metadata": {"name": "unknown"}, "spec": with(machine, "/maximum", json!(5)),
    });
    let refused = world.send("POST", &strict, Some(&unknown)).await.unwrap_err();
    assert!(refused.contains("unknown field \"spec.maximum\""), "as kubectl asks for: {refused}");
}

#[tokio::test(start_paused = true)]
async fn the_example_of_the_documentation_is_a_group_and_a_list_shows_its_state() {
    if let Some(page) = repository::text("docs/autoscaler.md") {
        for text in [EXAMPLE, ROLE] {
            assert!(
                page.contains(&format!("```yaml\n{text}```\n")),
                "write it into the page:\n{text}"
            );
        }
    }
    let world = World::new().await;
    let example: Value = serde_saphyr::from_str(EXAMPLE).unwrap();
    world.send("POST", &collection(NAMESPACE), Some(&example)).await.unwrap();
    world.create("inverted", machine(3, 2)).await;
    world.start().await;
    world.server().await.increase(2).await;
    tokio::time::sleep(s(120)).await;
    assert_eq!(world.groups().await, [(GROUP.to_owned(), 0, 10)]);
    let table = world.table().await;
    assert_eq!(
        table,
        [
            "Name Min Max Target Machines Accepted Reason Age",
            "inverted 3 2 - - False Invalid",
            "workers 0 10 2 2 True Accepted",
        ]
    );
    world.ours.stop().await;
}

#[test]
fn the_role_of_the_manifests_is_that_of_the_tests() {
    if let Some(manifests) = repository::text("provider/deploy/autoscaler-nodegroups-role.yaml") {
        assert!(manifests.contains(ROLE), "write conformance/tests/it/autoscaler_groups/role.yaml");
    }
}

#[test]
fn the_chart_installs_the_definition_that_the_program_prints() {
    if let Some(of_chart) = repository::text("provider/deploy/chart/files/nodegroups.yaml") {
        assert_eq!(of_chart, provider::NODE_GROUP_DEFINITION, "copy ../autoscaler-nodegroups.yaml");
    }
}
