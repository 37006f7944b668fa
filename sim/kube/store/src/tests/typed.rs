//! Tests of strict decoding, defaults and custom kinds. The expected texts are answers of the real
//! server.

use serde_json::{Value, json};

use super::store;
use crate::{Command, FieldValidation, GroupResource, Key, PatchKind, Status, Store, Subresource};

fn widgets() -> GroupResource {
    GroupResource::of("schema.example.com", "widgets")
}

fn definition() -> Value {
    let properties = json!({
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4},
        "replicas": {"type": "integer", "format": "int32"},
        "when": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2, "x-kubernetes-list-type": "set"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "port": {"x-kubernetes-int-or-string": true},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "opt": {"type": "string", "nullable": true},
        "nested": {"type": "object", "default": {}, "properties": {"a": {"type": "string", "default": "x"}}},
    });
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {"type": "object", "required": ["size"], "properties": properties},
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        },
    });
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.schema.example.com"},
        "spec": {
            "group": "schema.example.com",
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                    },
                },
                {
                    "name": "v1beta1", "served": true, "storage": false, "deprecated": true,
                    "schema": {"openAPIV3Schema": free},
                },
            ],
        },
    })
}

/// Returns a store with the definition of Widgets.
fn lab() -> Store {
    let mut store = store();
    let crds = "customresourcedefinitions.apiextensions.k8s.io";
    store.done(Command::create(crds, "", definition()));
    store
}

fn widget(spec: Value) -> Command {
    let object = json!({
        "apiVersion": "schema.example.com/v1", "kind": "Widget",
        "metadata": {"name": "w"}, "spec": spec,
    });
    Command::create(widgets(), "default", object)
}

fn key() -> Key {
    Key::new(widgets(), "default", "w")
}

#[test]
fn a_definition_is_established_at_once_and_goes_with_its_objects() {
    let mut store = lab();
    let crds = GroupResource::of("apiextensions.k8s.io", "customresourcedefinitions");
    let crd = Key::new(crds, "", "widgets.schema.example.com");
    let conditions = &store.get(&crd).unwrap()["status"]["conditions"];
    assert_eq!(
        (&conditions[1]["type"], &conditions[1]["status"]),
        (&json!("Established"), &json!("True"))
    );
    assert_eq!(store.resource(&widgets()).unwrap().versions(), ["v1", "v1beta1"]);
    store.done(widget(json!({"size": 1})));
    let restored: Store = serde_json::from_value(serde_json::to_value(&store).unwrap()).unwrap();
    assert!(restored == store && restored.resource(&widgets()).is_some());
    store.done(Command::delete(crd));
    assert!(store.resource(&widgets()).is_none() && store.get(&key()).is_none());
}

#[test]
fn custom_objects_are_pruned_and_defaulted() {
    let mut store = lab();
    let given = json!({"size": 1.0, "foo": 1, "free": {"x": 1}, "opt": null, "name": null});
    let decision = store.run(widget(given).validated(FieldValidation::Warn)).unwrap();
    assert_eq!(decision.reply.warnings, [r#"unknown field "spec.foo""#]);
    let want =
        json!({"color": "red", "free": {"x": 1}, "nested": {"a": "x"}, "opt": null, "size": 1});
    assert_eq!(store.get(&key()).unwrap()["spec"], want);
}

#[test]
fn a_custom_object_that_violates_its_schema_is_refused() {
    for (spec, want) in [
        (json!({}), "spec.size: Required value"),
        (
            json!({"size": 0}),
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            json!({"size": 11}),
            "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10",
        ),
        (
            json!({"size": "a"}),
            r#"spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#,
        ),
        (
            json!({"size": 1, "color": "green"}),
            r#"spec.color: Unsupported value: "green": supported values: "red", "blue""#,
        ),
        (
            json!({"size": 1, "name": "ABCDEFG"}),
            r#"spec.name: Too long: may not be more than 4 bytes"#,
        ),
        (
            json!({"size": 1, "name": "a"}),
            r#"spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long"#,
        ),
        (
            json!({"size": 1, "when": "x"}),
            r#"spec.when: Invalid value: "x": spec.when in body must be of type date-time: "x""#,
        ),
        (
            json!({"size": 1, "tags": ["a", "b", "c"]}),
            "spec.tags: Too many: 3: must have at most 2 items",
        ),
        (json!({"size": 1, "tags": ["a", "a"]}), r#"spec.tags[1]: Duplicate value: "a""#),
        (
            json!({"size": 1, "port": true}),
            r#"spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean""#,
        ),
        (
            json!({"size": 1, "map": {"a": "b"}}),
            r#"spec.map.a: Invalid value: "string": spec.map.a in body must be of type integer: "string""#,
        ),
        (
            json!({"size": 1, "replicas": 3_000_000_000_i64}),
            r#"[<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.replicas, .spec.replicas: Invalid value: 3000000000: should be less than or equal to 2147483647]"#,
        ),
    ] {
        let refused: Status = lab().run(widget(spec.clone())).unwrap_err();
        let want = format!("Widget.schema.example.com \"w\" is invalid: {want}");
        assert_eq!((refused.code, refused.message), (422, want), "{spec}");
    }
}

/// The expected text is the real server's answer to a merge patch.
#[test]
fn a_patch_with_an_invalid_api_version_is_refused() {
    let mut store = lab();
    store.done(widget(json!({"size": 1})));
    let mut patch = |version: &str| {
        let patch = json!({"apiVersion": version});
        store.run(Command::patch(key(), PatchKind::Merge, patch)).unwrap_err()
    };
    for odd in ["a/b/c", "//"] {
        let refused = patch(odd);
        assert_eq!(refused.code, 422);
        let want = format!(": unexpected GroupVersion string: {odd}");
        assert!(refused.message.starts_with(" \"\" is invalid: patch: Invalid value: "));
        assert!(refused.message.ends_with(&want), "{}", refused.message);
    }
    assert_eq!(patch("/").code, 500);
    assert!(patch("a/b").message.ends_with("must be schema.example.com/v1"));
}

#[test]
fn a_patch_in_another_version_changes_the_stored_object() {
    let mut store = lab();
    store.done(widget(json!({"size": 1})));
    let patch = json!({"spec": {"size": 2, "more": true}});
    let patch = Command::patch(key(), PatchKind::Merge, patch).in_version("v1beta1");
    let reply = store.run(patch).unwrap().reply;
    assert_eq!(reply.object["apiVersion"], "schema.example.com/v1beta1");
    let kept = store.get(&key()).unwrap();
    assert_eq!(
        (&kept["apiVersion"], &kept["spec"]["size"]),
        (&json!("schema.example.com/v1"), &json!(2))
    );
    let strategic = Command::patch(key(), PatchKind::StrategicMerge, json!({}));
    assert_eq!(store.run(strategic).unwrap_err().code, 415);
}

#[test]
fn a_scale_changes_the_replicas() {
    let mut store = lab();
    store.done(widget(json!({"size": 1})));
    let patch = Command::patch(key(), PatchKind::Merge, json!({"spec": {"replicas": 5}}));
    let patch = Command { subresource: Some(Subresource::Scale), ..patch };
    let scale = store.run(patch).unwrap().reply.object;
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(5)));
    let kept = store.get(&key()).unwrap();
    assert_eq!(
        (&kept["spec"]["replicas"], &kept["metadata"]["generation"]),
        (&json!(5), &json!(2))
    );
}

#[test]
fn replicas_must_be_nonnegative_integers_regardless_of_the_schema() {
    let mut store = lab();
    let refused = store.run(widget(json!({"size": 1, "replicas": "many"}))).unwrap_err();
    let accessor = ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: many is of the type string, expected int64";
    assert!(refused.message.contains(accessor), "{}", refused.message);
    store.done(widget(json!({"size": 1})));
    let patch = Command::patch(key(), PatchKind::Merge, json!({"status": {"replicas": -1}}));
    let patch = Command { subresource: Some(Subresource::Status), ..patch };
    let refused = store.run(patch).unwrap_err();
    let negative = ".status.replicas: Invalid value: -1: should be a non-negative integer";
    assert!(refused.message.contains(negative), "{}", refused.message);
}

#[test]
fn unknown_fields_are_refused_warned_about_or_dropped() {
    let node = || {
        let spec = json!({"foo": 1, "taints": [{"key": "a", "effect": "NoSchedule", "x": 2}], "podCIDR": "10.0.0.0/24"});
        let command = Command::create(
            "nodes",
            "",
            json!({"metadata": {"name": "n"}, "spec": spec, "bar": []}),
        );
        Command { duplicates: vec!["spec.foo".into(), "spec.podCIDR".into()], ..command }
    };
    let all = [
        r#"unknown field "spec.foo""#,
        r#"unknown field "spec.taints[0].x""#,
        r#"duplicate field "spec.podCIDR""#,
        r#"unknown field "bar""#,
    ];
    let refused = store().run(node().validated(FieldValidation::Strict)).unwrap_err();
    let want = format!(
        "Node in version \"v1\" cannot be handled as a Node: strict decoding error: {}",
        all.join(", ")
    );
    assert_eq!((refused.code, refused.message), (400, want));
    let warned = store().run(node().validated(FieldValidation::Warn)).unwrap();
    assert_eq!(warned.reply.warnings, all);
    let ignored = store().run(node()).unwrap().reply;
    assert!(ignored.warnings.is_empty() && ignored.object["spec"].get("foo").is_none());
}

#[test]
fn values_of_the_wrong_type_are_refused_with_the_errors_of_go() {
    for (kind, resource, body, want) in [
        (
            "Node",
            "nodes",
            json!({"spec": {"taints": [{"effect": 1}]}}),
            "json: cannot unmarshal number into Go struct field Taint.spec.taints.effect of type v1.TaintEffect",
        ),
        (
            "Node",
            "nodes",
            json!({"status": {"capacity": {"cpu": "x"}}}),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            "Service",
            "services",
            json!({"spec": {"ports": [{"port": 1, "targetPort": true}]}}),
            "json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
        ),
        (
            "Service",
            "services",
            json!({"spec": {"ports": [1]}}),
            "json: cannot unmarshal number into Go struct field ServiceSpec.spec.ports of type v1.ServicePort",
        ),
        (
            "Service",
            "services",
            json!({"spec": {"selector": {"a": 7}}}),
            "json: cannot unmarshal number into Go struct field ServiceSpec.spec.selector of type string",
        ),
        (
            "Secret",
            "secrets",
            json!({"data": {"a": 7}}),
            "json: cannot unmarshal number into Go struct field Secret.data of type []uint8",
        ),
        ("Secret", "secrets", json!({"data": {"a": "%%%"}}), "illegal base64 data at input byte 0"),
        (
            "Secret",
            "secrets",
            json!({"metadata": 7}),
            "json: cannot unmarshal number into Go struct field Secret.metadata of type v1.ObjectMeta",
        ),
    ] {
        let namespace = if resource == "nodes" { "" } else { "default" };
        let refused = store().run(Command::create(resource, namespace, body)).unwrap_err();
        let want = format!("{kind} in version \"v1\" cannot be handled as a {kind}: {want}");
        assert_eq!((refused.code, refused.message), (400, want));
    }
}

#[test]
fn invalid_roles_and_role_bindings_are_refused() {
    let rbac = |resource: &str| {
        GroupResource::from(format!("{resource}.rbac.authorization.k8s.io").as_str())
    };
    let refusal = |resource: &str, namespace: &str, object: Value| {
        store().run(Command::create(rbac(resource), namespace, object)).unwrap_err().message
    };
    let named = |mut object: Value| {
        object["metadata"] = json!({"name": "zz"});
        object
    };
    assert_eq!(
        refusal("clusterroles", "", named(json!({"rules": [{}]}))),
        r#"ClusterRole.rbac.authorization.k8s.io "zz" is invalid: [rules[0].verbs: Required value: verbs must contain at least one value, rules[0].apiGroups: Required value: resource rules must supply at least one api group, rules[0].resources: Required value: resource rules must supply at least one resource]"#
    );
    assert_eq!(
        refusal("rolebindings", "default", named(json!({"roleRef": {"kind": "Foo", "name": "x"}}))),
        r#"RoleBinding.rbac.authorization.k8s.io "zz" is invalid: roleRef.kind: Unsupported value: "Foo": supported values: "Role", "ClusterRole""#
    );
    let admin = Key::new(rbac("clusterrolebindings"), "", "cluster-admin");
    let other = Command::patch(admin, PatchKind::Merge, json!({"roleRef": {"name": "view"}}));
    assert_eq!(
        store().run(other).unwrap_err().message,
        r#"ClusterRoleBinding.rbac.authorization.k8s.io "cluster-admin" is invalid: roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"view"}: cannot change roleRef"#
    );
}
