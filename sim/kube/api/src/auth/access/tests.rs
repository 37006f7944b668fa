//! Tests that compare decisions with those of kube-apiserver 1.36.3 about the same roles and
//! bindings.

use std::sync::Arc;

use http::Method;
use kube_sim_store::{Event, GroupResource, Ids, Key, Op, Store};
use serde_json::{Value, json};

use super::{Access, Attributes, Object, forbidden};
use crate::auth::tokens::Identity;
use crate::request::query::Query;

fn store(objects: &[(&'static str, Value)]) -> Store {
    let mut store = Store::new_at(Ids::new(7), "2026-03-01T08:00:00Z".parse().unwrap());
    for (resource, object) in objects {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let resource = GroupResource::of("rbac.authorization.k8s.io", resource);
        let key = Key::new(resource, text("/metadata/namespace"), text("/metadata/name"));
        let revision = store.revision() + 1;
        store.fold(&Event { key, op: Op::Added, revision, object: Arc::new(object.clone()) });
    }
    store
}

fn somebody(user: &str) -> Identity {
    Identity { user: user.into(), groups: Vec::new() }.authenticated()
}

fn asked(method: Method, path: &str) -> Attributes {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Attributes::of(&method, path, &Query::parse(query))
}

fn example() -> Store {
    let subjects = json!([
        {"kind": "User", "name": "u"},
        {"kind": "Group", "name": "g"},
        {"kind": "ServiceAccount", "name": "sa1", "namespace": "face"},
        {"kind": "ServiceAccount", "name": "near"},
    ]);
    store(&[
        (
            "roles",
            json!({
                "metadata": {"name": "r1", "namespace": "face"},
                "rules": [
                    {"apiGroups": [""], "resources": ["pods", "*/status"], "verbs": ["get", "list"]},
                    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["c1"], "verbs": ["*"]},
                    {"apiGroups": ["example.com"], "resources": ["widgets", "widgets/scale"], "verbs": ["get", "update"]},
                ],
            }),
        ),
        (
            "rolebindings",
            json!({
                "metadata": {"name": "rb1", "namespace": "face"},
                "roleRef": {"kind": "Role", "name": "r1"},
                "subjects": subjects,
            }),
        ),
        (
            "rolebindings",
            json!({
                "metadata": {"name": "rb2", "namespace": "face"},
                "roleRef": {"kind": "Role", "name": "nothere"},
                "subjects": [{"kind": "User", "name": "bob"}],
            }),
        ),
        (
            "clusterrolebindings",
            json!({
                "metadata": {"name": "viewers"},
                "roleRef": {"kind": "ClusterRole", "name": "view"},
                "subjects": [{"kind": "Group", "name": "viewers"}],
            }),
        ),
        (
            "rolebindings",
            json!({
                "metadata": {"name": "editors", "namespace": "face"},
                "roleRef": {"kind": "ClusterRole", "name": "edit"},
                "subjects": [{"kind": "User", "name": "editor"}],
            }),
        ),
    ])
}

#[test]
fn roles_and_bindings_decide_which_requests_are_allowed() {
    let store = example();
    let access = Access::default();
    access.require_rbac();
    let viewer = Identity { user: "v".into(), groups: vec!["viewers".into()] };
    let master = Identity { user: "m".into(), groups: vec!["system:masters".into()] };
    let (u, bob) = (somebody("u"), somebody("bob"));
    let sa = somebody("system:serviceaccount:face:sa1");
    let near = somebody("system:serviceaccount:face:near");
    let far = somebody("system:serviceaccount:other:near");
    let editor = somebody("editor");
    let anonymous = Identity::anonymous();
    for (name, who, method, path, want) in [
        ("a verb and a resource", &u, "GET", "/api/v1/namespaces/face/pods/zz", true),
        ("another namespace", &u, "GET", "/api/v1/namespaces/other/pods/zz", false),
        ("all namespaces", &u, "GET", "/api/v1/pods", false),
        ("another verb", &u, "DELETE", "/api/v1/namespaces/face/pods/zz", false),
        ("watch is not list", &u, "GET", "/api/v1/namespaces/face/pods?watch=1", false),
        (
            "a subresource of any resource",
            &u,
            "GET",
            "/api/v1/namespaces/face/services/z/status",
            true,
        ),
        ("a subresource is not the object", &u, "GET", "/api/v1/namespaces/face/services/z", false),
        ("another subresource", &u, "GET", "/api/v1/namespaces/face/pods/z/log", false),
        ("a name", &u, "GET", "/api/v1/namespaces/face/configmaps/c1", true),
        ("another name", &u, "GET", "/api/v1/namespaces/face/configmaps/c2", false),
        ("a list of all objects", &u, "GET", "/api/v1/namespaces/face/configmaps", false),
        (
            "a list of the object that a selector names",
            &u,
            "GET",
            "/api/v1/namespaces/face/configmaps?fieldSelector=metadata.name%3Dc1",
            true,
        ),
        ("a custom resource", &u, "GET", "/apis/example.com/v1/namespaces/face/widgets/w", true),
        ("its scale", &u, "PUT", "/apis/example.com/v1/namespaces/face/widgets/w/scale", true),
        ("its status", &u, "PUT", "/apis/example.com/v1/namespaces/face/widgets/w/status", false),
        (
            "a resource of another group",
            &u,
            "GET",
            "/apis/example.org/v1/namespaces/face/widgets/w",
            false,
        ),
        ("a service account", &sa, "GET", "/api/v1/namespaces/face/pods/zz", true),
        (
            "an account of the binding's namespace",
            &near,
            "GET",
            "/api/v1/namespaces/face/pods/zz",
            true,
        ),
        ("an account of another namespace", &far, "GET", "/api/v1/namespaces/face/pods/zz", false),
        ("a role that does not exist", &bob, "GET", "/api/v1/namespaces/face/pods/zz", false),
        ("an aggregated role", &viewer, "GET", "/api/v1/namespaces/x/services", true),
        (
            "a resource that an aggregated role leaves out",
            &viewer,
            "GET",
            "/api/v1/namespaces/x/secrets",
            false,
        ),
        ("an aggregated role in a role", &editor, "GET", "/api/v1/namespaces/face/services", true),
        (
            "a verb that edit adds to view",
            &editor,
            "DELETE",
            "/api/v1/namespaces/face/services/s",
            true,
        ),
        ("a binding in another namespace", &editor, "GET", "/api/v1/namespaces/x/services", false),
        ("a member of system:masters", &master, "DELETE", "/api/v1/nodes", true),
        ("discovery by an authenticated user", &bob, "GET", "/apis/apps/v1", true),
        ("discovery by the anonymous user", &anonymous, "GET", "/apis", false),
        ("health by the anonymous user", &anonymous, "GET", "/livez", true),
        (
            "a review of one's own permissions",
            &bob,
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            true,
        ),
        (
            "a review of another user",
            &bob,
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            false,
        ),
    ] {
        let what = asked(method.parse().unwrap(), path);
        assert_eq!(access.decide(who, &what, &store).is_allowed, want, "{name}: {what:?}");
    }
}

#[test]
fn the_reason_of_a_decision_names_binding_role_and_subject() {
    let store = example();
    let access = Access::default();
    access.require_rbac();
    let pods = asked(Method::GET, "/api/v1/namespaces/face/pods/zz");
    let reason = |who: &str| access.decide(&somebody(who), &pods, &store).reason;
    assert_eq!(reason("u"), r#"RBAC: allowed by RoleBinding "rb1/face" of Role "r1" to User "u""#);
    assert_eq!(
        reason("system:serviceaccount:face:sa1"),
        r#"RBAC: allowed by RoleBinding "rb1/face" of Role "r1" to ServiceAccount "sa1/face""#
    );
    assert_eq!(reason("bob"), r#"RBAC: role.rbac.authorization.k8s.io "nothere" not found"#);
    let api = asked(Method::GET, "/api");
    assert_eq!(
        access.decide(&somebody("bob"), &api, &store).reason,
        r#"RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated""#
    );
}

#[test]
fn a_403_answer_has_the_words_of_the_real_server() {
    let bob = somebody("bob");
    for (method, path, want) in [
        (
            "GET",
            "/api/v1/namespaces/face",
            r#"namespaces "face" is forbidden: User "bob" cannot get resource "namespaces" in API group "" in the namespace "face""#,
        ),
        (
            "GET",
            "/api/v1/namespaces/face/pods/p1/log",
            r#"pods "p1" is forbidden: User "bob" cannot get resource "pods/log" in API group "" in the namespace "face""#,
        ),
        (
            "GET",
            "/api/v1/pods?fieldSelector=metadata.name%3Dxx",
            r#"pods "xx" is forbidden: User "bob" cannot list resource "pods" in API group "" at the cluster scope"#,
        ),
        (
            "GET",
            "/apis/foo/v1/bars",
            r#"bars.foo is forbidden: User "bob" cannot list resource "bars" in API group "foo" at the cluster scope"#,
        ),
        (
            "PUT",
            "/api/v1/namespaces/face/finalize",
            r#"namespaces "face" is forbidden: User "bob" cannot update resource "namespaces/finalize" in API group "" in the namespace "face""#,
        ),
        (
            "OPTIONS",
            "/api/v1/nodes",
            r#"nodes is forbidden: User "bob" cannot  resource "nodes" in API group "" at the cluster scope"#,
        ),
        (
            "GET",
            "/api/v1/watch/nodes",
            r#"nodes is forbidden: User "bob" cannot watch resource "nodes" in API group "" at the cluster scope"#,
        ),
        (
            "PATCH",
            "/api/v1/nodes/n1/status",
            r#"nodes "n1" is forbidden: User "bob" cannot patch resource "nodes/status" in API group "" at the cluster scope"#,
        ),
        (
            "DELETE",
            "/api/v1/nodes",
            r#"nodes is forbidden: User "bob" cannot deletecollection resource "nodes" in API group "" at the cluster scope"#,
        ),
        (
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            r#"tokenreviews.authentication.k8s.io is forbidden: User "bob" cannot create resource "tokenreviews" in API group "authentication.k8s.io" at the cluster scope"#,
        ),
        ("GET", "/openapi/v2", r#"forbidden: User "bob" cannot get path "/openapi/v2""#),
    ] {
        let what = asked(method.parse().unwrap(), path);
        assert_eq!(forbidden(&bob, &what, "").message, want, "{method} {path}");
    }
    let what = asked(Method::GET, "/api/v1/namespaces/face/pods");
    assert_eq!(
        forbidden(&bob, &what, r#"RBAC: role.rbac.authorization.k8s.io "nothere" not found"#)
            .message,
        r#"pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "face": RBAC: role.rbac.authorization.k8s.io "nothere" not found"#
    );
}

#[test]
fn without_rbac_every_authenticated_user_is_allowed() {
    let (access, store) = (Access::default(), store(&[]));
    let what = Attributes {
        verb: "delete".into(),
        path: String::new(),
        object: Some(Object { resource: "nodes".into(), ..Object::default() }),
    };
    assert!(access.decide(&somebody("bob"), &what, &store).is_allowed);
    assert!(!access.decide(&Identity::anonymous(), &what, &store).is_allowed);
    access.require_rbac();
    assert!(!access.decide(&somebody("bob"), &what, &store).is_allowed);
    access.allow_all();
    assert!(access.decide(&somebody("bob"), &what, &store).is_allowed);
}
