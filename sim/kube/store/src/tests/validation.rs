//! Tests of refused writes. The expected texts are those of the real server.

use serde_json::{Value, json};

use super::{create_node, store};
use crate::{Command, GroupResource, Key, PatchKind};

/// Returns the message with which a store with the Node `a`, which has a provider ID, refuses the
/// command.
fn refusal(command: Command) -> String {
    let mut store = store();
    store.done(create_node("a"));
    let provider = json!({"spec": {"providerID": "vsphere://1"}});
    store.done(Command::patch(Key::node("a"), PatchKind::Merge, provider));
    store.run(command).unwrap_err().message
}

#[test]
fn invalid_writes_of_nodes_are_refused() {
    let patch = |patch: Value| Command::patch(Key::node("a"), PatchKind::Merge, patch);
    let taints = |taints: Value| patch(json!({"spec": {"taints": taints}}));
    for (name, command, want) in [
        (
            "another provider ID",
            patch(json!({"spec": {"providerID": "vsphere://2"}})),
            r#"Node "a" is invalid: spec.providerID: Forbidden: node updates may not change providerID except from "" to valid"#,
        ),
        (
            "removal of the provider ID",
            patch(json!({"spec": {"providerID": null}})),
            r#"Node "a" is invalid: spec.providerID: Forbidden: node updates may not change providerID except from "" to valid"#,
        ),
        (
            "an address twice",
            patch(json!({"status": {"addresses": [{"type": "InternalIP", "address": "1.1.1.1"}, {"type": "InternalIP", "address": "1.1.1.1"}]}})).on_status(),
            r#"Node "a" is invalid: status.addresses[1]: Duplicate value: {"Type":"InternalIP","Address":"1.1.1.1"}"#,
        ),
        (
            "an unknown effect",
            taints(json!([{"key": "k", "effect": "Maybe"}])),
            r#"Node "a" is invalid: metadata.taints[0].effect: Unsupported value: "Maybe": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
        ),
        (
            "no effect",
            taints(json!([{"key": "k"}])),
            r#"Node "a" is invalid: metadata.taints[0].effect: Required value"#,
        ),
        (
            "a taint twice",
            taints(json!([{"key": "k", "effect": "NoSchedule"}, {"key": "k", "value": "v", "effect": "NoSchedule"}])),
            r#"Node "a" is invalid: metadata.taints[1]: Duplicate value: {"Key":"k","Value":"v","Effect":"NoSchedule","TimeAdded":null}: taints must be unique by key and effect pair"#,
        ),
        (
            "another name",
            patch(json!({"metadata": {"name": "b"}})),
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            "another uid",
            patch(json!({"metadata": {"uid": "u"}})),
            r#"Node "a" is invalid: metadata.uid: Invalid value: "u": field is immutable"#,
        ),
        (
            "a bad label value",
            patch(json!({"metadata": {"labels": {"a": "b c"}}})),
            r#"Node "a" is invalid: metadata.labels: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#,
        ),
        (
            "a bad label key",
            patch(json!({"metadata": {"labels": {"/a": "b"}}})),
            r#"Node "a" is invalid: metadata.labels: Invalid value: "/a": prefix part must be non-empty"#,
        ),
        (
            "a finalizer without a domain",
            patch(json!({"metadata": {"finalizers": ["mine"]}})),
            r#"Node "a" is invalid: metadata.finalizers[0]: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified"#,
        ),
        ("an existing name", create_node("a"), r#"nodes "a" already exists"#),
    ] {
        assert_eq!(refusal(command), want, "{name}");
    }
}

#[test]
fn invalid_writes_of_other_resources_are_refused() {
    let create = |resource: &str, object: Value| Command::create(resource, "default", object);
    for (name, command, want) in [
        (
            "an event about another namespace",
            create(
                "events",
                json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "x"}}),
            ),
            r#"Event "e" is invalid: involvedObject.namespace: Invalid value: "x": does not match event.namespace"#,
        ),
        (
            "a lease with a duration of 0 s",
            create(
                "leases.coordination.k8s.io",
                json!({"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0}}),
            ),
            r#"Lease.coordination.k8s.io "l" is invalid: spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"#,
        ),
        (
            "a lease with a time in whole seconds",
            create(
                "leases.coordination.k8s.io",
                json!({"metadata": {"name": "l"}, "spec": {"renewTime": "2026-03-01T08:00:00Z"}}),
            ),
            r#"Lease in version "v1" cannot be handled as a Lease: parsing time "2026-03-01T08:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
        ),
        (
            "a lease with a time in nanoseconds",
            create(
                "leases.coordination.k8s.io",
                json!({"metadata": {"name": "l"}, "spec": {"renewTime": "2026-03-01T08:00:00.123456789Z"}}),
            ),
            r#"Lease in version "v1" cannot be handled as a Lease: parsing time "2026-03-01T08:00:00.123456789Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "789Z" as "Z07:00""#,
        ),
        (
            "a service without ports",
            create("services", json!({"metadata": {"name": "s"}})),
            r#"Service "s" is invalid: spec.ports: Required value"#,
        ),
        (
            "a name with a capital letter",
            create(
                "services",
                json!({"metadata": {"name": "S"}, "spec": {"ports": [{"port": 1}]}}),
            ),
            r#"Service "S" is invalid: metadata.name: Invalid value: "S": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"#,
        ),
        (
            "a namespace other than that of the URL",
            create("configmaps", json!({"metadata": {"name": "m", "namespace": "other"}})),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            "a resourceVersion on creation",
            create("configmaps", json!({"metadata": {"name": "m", "resourceVersion": "7"}})),
            "resourceVersion should not be set on objects to be created",
        ),
        (
            "an unknown resource",
            create("nothings", json!({"metadata": {"name": "m"}})),
            "the server could not find the requested resource",
        ),
    ] {
        assert_eq!(refusal(command), want, "{name}");
    }
}

#[test]
fn a_secret_encodes_string_data_and_errors_do_not_show_its_content() {
    let mut store = store();
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}});
    store.done(Command::create("secrets", "default", secret));
    let key = Key::new(GroupResource::core("secrets"), "default", "s");
    let kept = store.get(&key).unwrap();
    assert_eq!(kept["data"]["password"], "aHVudGVyMg==");
    assert_eq!((kept.get("stringData"), &kept["type"]), (None, &json!("Opaque")));
    let wrong = json!({"data": "aHVudGVyMg=="});
    let refused = store.run(Command::patch(key, PatchKind::Merge, wrong)).unwrap_err();
    assert!(!refused.message.contains("aHVudGVyMg"), "{refused}");
}

#[test]
fn a_time_with_an_offset_is_stored_in_utc_and_whole_seconds() {
    let mut store = store();
    store.done(create_node("a"));
    let condition = json!({"type": "T", "lastTransitionTime": "2026-03-01T09:00:00.5+01:00"});
    let patch = json!({"status": {"conditions": [condition]}});
    store.done(Command::patch(Key::node("a"), PatchKind::StrategicMerge, patch).on_status());
    let node = store.node("a");
    assert_eq!(node["status"]["conditions"][0]["lastTransitionTime"], "2026-03-01T08:00:00Z");
}
