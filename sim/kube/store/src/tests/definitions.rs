//! Tests of the effects of a changed CustomResourceDefinition on existing objects, and of patches
//! of their kind and apiVersion.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{now, store};
use crate::{Command, GroupResource, Key, PatchKind, Selection, Status, Store};

fn parts() -> GroupResource {
    GroupResource::of("example.com", "parts")
}

fn key() -> Key {
    Key::new(parts(), "default", "a")
}

fn versions(properties: &Value) -> Value {
    let spec = json!({"type": "object", "properties": properties});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}])
}

/// Returns a store with a definition and one object of its kind.
fn lab() -> Store {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "parts.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Part", "plural": "parts"},
            "versions": versions(&json!({"size": {"type": "integer"}, "color": {"type": "string"}})),
        },
    });
    let mut store = store();
    store.run(Command::create(definition_key().resource, "", definition)).unwrap();
    let part = json!({
        "apiVersion": "example.com/v1", "kind": "Part", "metadata": {"name": "a"},
        "spec": {"size": 1, "color": "red"},
    });
    store.run(Command::create(parts(), "default", part)).unwrap();
    store
}

fn definition_key() -> Key {
    let id = GroupResource::of("apiextensions.k8s.io", "customresourcedefinitions");
    Key::new(id, "", "parts.example.com")
}

fn redefine(store: &mut Store, patch: Value) {
    store.run(Command::patch(definition_key(), PatchKind::Merge, patch)).unwrap();
}

fn read(store: &Store) -> Arc<Value> {
    let def = store.resource(&parts()).unwrap();
    store.to_client(def, "v1", store.get(&key()).unwrap()).unwrap()
}

fn is_as_stored(store: &Store) -> bool {
    Arc::ptr_eq(&read(store), store.get(&key()).unwrap())
}

#[test]
fn stored_objects_are_read_by_the_schema_of_the_current_definition() {
    let mut store = lab();
    assert!(
        is_as_stored(&store),
        "a read without a changed schema returns the stored object itself"
    );
    let before = store.resource(&parts()).unwrap().clone();
    redefine(&mut store, json!({"metadata": {"labels": {"a": "b"}}}));
    assert!(is_as_stored(&store));
    assert!(
        store.resource(&parts()).unwrap().is_same_as(&before),
        "a change of labels keeps the watches of the kind"
    );

    let narrow = versions(
        &json!({"color": {"type": "string"}, "shape": {"type": "string", "default": "round"}}),
    );
    redefine(&mut store, json!({"spec": {"versions": narrow}}));
    assert!(
        !store.resource(&parts()).unwrap().is_same_as(&before),
        "a change of the schema ends the watches of the kind"
    );
    assert_eq!(read(&store)["spec"], json!({"color": "red", "shape": "round"}));
    let restored: Store = serde_json::from_value(serde_json::to_value(&store).unwrap()).unwrap();
    assert_eq!(
        read(&restored),
        read(&store),
        "a restored store completes objects by the current schema too"
    );

    let wide = versions(&json!({"size": {"type": "integer"}, "color": {"type": "string"}}));
    redefine(&mut store, json!({"spec": {"versions": wide}}));
    assert_eq!(
        read(&store)["spec"],
        json!({"size": 1, "color": "red"}),
        "the stored object keeps fields that an interim schema removed"
    );

    let narrow = versions(&json!({"color": {"type": "string"}}));
    redefine(&mut store, json!({"spec": {"versions": narrow}}));
    let patch = |patch| Command::patch(key(), PatchKind::Merge, patch);
    let revision = store.revision();
    store.run(patch(json!({}))).unwrap();
    assert_eq!(store.revision(), revision + 1, "an empty patch stores the completed object");
    assert!(is_as_stored(&store));
    store.run(patch(json!({}))).unwrap();
    assert_eq!(store.revision(), revision + 1, "a second empty patch changes nothing");
}

#[test]
fn a_patch_cannot_change_kind_or_api_version() {
    let store = lab();
    let refused = |patch: Value| -> Status {
        store.decide(now(), Command::patch(key(), PatchKind::Merge, patch)).unwrap_err()
    };
    for (patch, code, want) in [
        (json!({"kind": null}), 422, "Object 'Kind' is missing in '{"),
        (json!({"kind": ""}), 422, "Object 'Kind' is missing in '{"),
        (
            json!({"kind": 5}),
            422,
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string",
        ),
        (
            json!({"apiVersion": null}),
            500,
            "Internal error occurred: Object 'apiVersion' is missing in 'object has no apiVersion field'",
        ),
        (
            json!({"kind": "Whole"}),
            422,
            "Whole.example.com \"a\" is invalid: kind: Invalid value: \"Whole\": must be Part",
        ),
        (
            json!({"apiVersion": "v1"}),
            422,
            "Part \"a\" is invalid: apiVersion: Invalid value: \"v1\": must be example.com/v1",
        ),
    ] {
        let status = refused(patch.clone());
        assert_eq!(status.code, code, "{patch}");
        assert!(status.message.contains(want), "{patch}: {}", status.message);
    }
}

#[test]
fn a_deletion_after_a_redefinition_counts_two_copies_of_the_object() {
    const N_PARTS: usize = 60;
    let mut store = lab();
    let name = |n: usize| format!("p{n}");
    for n in 0..N_PARTS {
        let part = json!({
            "apiVersion": "example.com/v1", "kind": "Part", "metadata": {"name": name(n)},
            "spec": {"color": "x".repeat(1 << 20)},
        });
        store.run(Command::create(parts(), "default", part)).unwrap();
    }
    let shape = json!({"type": "string", "default": "round"});
    let properties = json!({"color": {"type": "string"}, "shape": shape});
    redefine(&mut store, json!({"spec": {"versions": versions(&properties)}}));
    let before = store.revision();
    for n in 0..N_PARTS {
        store.run(Command::delete(Key::new(parts(), "default", name(n)))).unwrap();
    }
    let since = |revision| store.watch_since(&parts(), &Selection::default(), revision);
    let known = (before..store.revision()).filter(|revision| since(*revision).is_ok()).count();
    // The limit is 64 MiB. Each deletion takes 2 MiB: the stored object, and the object completed
    // on reading.
    assert_eq!(known, 31);
}
