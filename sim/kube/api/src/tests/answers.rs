//! Tests of representative answers, most of them byte for byte.

use bytes::Bytes;
use http::Request as HttpRequest;
use kube_sim_store::Time;
use serde_json::json;

use super::{JSON, JSON_PATCH, MERGE, STRATEGIC, TestServer, get};
use crate::auth::Identity;
use crate::objects::Effects;
use crate::request::{Class, Client};

#[tokio::test(start_paused = true)]
async fn a_node_is_created_patched_and_deleted() {
    let lab = TestServer::new();
    let created = lab
        .send(
            "POST",
            "/api/v1/nodes",
            JSON,
            r#"{"metadata":{"name":"n1"},"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}"#,
        )
        .await;
    assert_eq!((created.code, created.content_type.as_str()), (201, JSON));
    let mut node = created.json();
    let managers = node["metadata"].as_object_mut().unwrap().shift_remove("managedFields").unwrap();
    assert_eq!(
        managers[0]["manager"], "unknown",
        "a client without User-Agent has the field manager `unknown`"
    );
    insta::assert_snapshot!(node, @r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","uid":"feb6bbd0-f7bc-533d-afe9-0c5605478e79","resourceVersion":"6","creationTimestamp":"2026-03-01T08:00:00Z"},"spec":{"taints":[{"key":"a","effect":"NoSchedule"},{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}]},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}}"#);

    let patched = lab
        .send("PATCH", "/api/v1/nodes/n1/status", STRATEGIC, r#"{"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.1"}]},"spec":{"providerID":"ignored"}}"#)
        .await;
    assert_eq!(patched.json()["spec"].get("providerID"), None);
    assert_eq!(patched.json()["status"]["addresses"][0]["address"], "10.0.0.1");

    let patched = lab
        .send(
            "PATCH",
            "/api/v1/nodes/n1",
            MERGE,
            r#"{"spec":{"providerID":"vsphere://1","taints":null},"status":{"phase":"ignored"}}"#,
        )
        .await;
    assert_eq!(patched.json()["spec"], json!({"providerID": "vsphere://1"}));
    assert_eq!(patched.json()["status"].get("phase"), None);

    let patched = lab
        .send(
            "PATCH",
            "/api/v1/nodes/n1",
            JSON_PATCH,
            r#"[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]"#,
        )
        .await;
    assert_eq!(patched.json()["metadata"]["labels"]["a"], "b");

    let refused = lab
        .send("PATCH", "/api/v1/nodes/n1", MERGE, r#"{"spec":{"providerID":"vsphere://2"}}"#)
        .await;
    insta::assert_snapshot!(refused.text, @r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Node \"n1\" is invalid: spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid","reason":"Invalid","details":{"name":"n1","kind":"Node","causes":[{"reason":"FieldValueForbidden","message":"Forbidden: node updates may not change providerID except from \"\" to valid","field":"spec.providerID"}]},"code":422}"#);

    let mut stale = created.json();
    stale["metadata"]["labels"] = json!({"c": "d"});
    let conflict = lab.send("PUT", "/api/v1/nodes/n1", JSON, stale).await;
    insta::assert_snapshot!(conflict.text, @r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation cannot be fulfilled on nodes \"n1\": the object has been modified; please apply your changes to the latest version and try again","reason":"Conflict","details":{"name":"n1","kind":"nodes"},"code":409}"#);
    assert_eq!(conflict.fault.as_deref(), Some("Conflict"));

    let deleted = lab.send("DELETE", "/api/v1/nodes/n1", JSON, "").await;
    insta::assert_snapshot!(deleted.text, @r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"n1","kind":"nodes","uid":"feb6bbd0-f7bc-533d-afe9-0c5605478e79"}}"#);
    let gone = lab.get("/api/v1/nodes/n1").await;
    assert_eq!(gone.code, 404);
    insta::assert_snapshot!(gone.text, @r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"nodes \"n1\" not found","reason":"NotFound","details":{"name":"n1","kind":"nodes"},"code":404}"#);
}

#[tokio::test(start_paused = true)]
async fn all_pages_of_a_list_show_the_same_state() {
    let lab = TestServer::new();
    for name in ["a", "b", "c"] {
        lab.node(name);
    }
    let first = lab.get("/api/v1/nodes?&limit=2&labelSelector=name+in+%28a%2Cb%2Cc%29").await;
    let token = first.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let names = |answer: &super::Answer| -> Vec<String> {
        let items = answer.json()["items"].as_array().unwrap().clone();
        items.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&first), ["a", "b"]);
    lab.send("DELETE", "/api/v1/nodes/c", JSON, "").await;
    lab.node("d");
    let second = lab.get(&format!("/api/v1/nodes?limit=2&continue={token}")).await;
    assert_eq!(names(&second), ["c"], "the second page shows the state of the first page");
    assert_eq!(
        second.json()["metadata"]["resourceVersion"],
        first.json()["metadata"]["resourceVersion"]
    );
    assert_eq!(names(&lab.get("/api/v1/nodes?limit=1&resourceVersion=0").await), ["a", "b", "d"]);
    let empty = lab.get("/api/v1/namespaces/default/secrets").await;
    insta::assert_snapshot!(empty.text, @r#"{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"10"},"items":[]}"#);
}

#[tokio::test(start_paused = true)]
async fn an_update_of_a_lease_needs_its_current_resource_version() {
    let lab = TestServer::new();
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let missing = lab.get(&format!("{path}/ccm")).await;
    insta::assert_snapshot!(missing.text, @r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"leases.coordination.k8s.io \"ccm\" not found","reason":"NotFound","details":{"name":"ccm","group":"coordination.k8s.io","kind":"leases"},"code":404}"#);
    let body = json!({"metadata": {"name": "ccm"}, "spec": {"holderIdentity": "a"}});
    assert_eq!(lab.send("POST", path, JSON, &body).await.code, 201);
    let again = lab.send("POST", path, JSON, &body).await;
    insta::assert_snapshot!(again.text, @r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"leases.coordination.k8s.io \"ccm\" already exists","reason":"AlreadyExists","details":{"name":"ccm","group":"coordination.k8s.io","kind":"leases"},"code":409}"#);
    let blind = lab.send("PUT", &format!("{path}/ccm"), JSON, &body).await;
    insta::assert_snapshot!(blind.text, @r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"leases.coordination.k8s.io \"ccm\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update","reason":"Invalid","details":{"name":"ccm","group":"coordination.k8s.io","kind":"leases","causes":[{"reason":"FieldValueInvalid","message":"Invalid value: 0: must be specified for an update","field":"metadata.resourceVersion"}]},"code":422}"#);
    let mut next = lab.get(&format!("{path}/ccm")).await.json();
    next["spec"]["holderIdentity"] = "b".into();
    assert_eq!(lab.send("PUT", &format!("{path}/ccm"), JSON, &next).await.code, 200);
    assert_eq!(lab.send("PUT", &format!("{path}/ccm"), JSON, &next).await.code, 409);
    let nowhere =
        lab.send("POST", "/apis/coordination.k8s.io/v1/namespaces/no/leases", JSON, &body).await;
    insta::assert_snapshot!(nowhere.text, @r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"namespaces \"no\" not found","reason":"NotFound","details":{"name":"no","kind":"namespaces"},"code":404}"#);
}

#[tokio::test(start_paused = true)]
async fn discovery_lists_versions_groups_and_resources() {
    let lab = TestServer::new();
    insta::assert_snapshot!(lab.get("/api").await.text, @r#"{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"10.96.0.1:443"}]}"#);
    insta::assert_snapshot!(lab.get("/apis").await.text, @r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}},{"name":"authentication.k8s.io","versions":[{"groupVersion":"authentication.k8s.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"authentication.k8s.io/v1","version":"v1"}},{"name":"authorization.k8s.io","versions":[{"groupVersion":"authorization.k8s.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"authorization.k8s.io/v1","version":"v1"}},{"name":"batch","versions":[{"groupVersion":"batch/v1","version":"v1"}],"preferredVersion":{"groupVersion":"batch/v1","version":"v1"}},{"name":"policy","versions":[{"groupVersion":"policy/v1","version":"v1"}],"preferredVersion":{"groupVersion":"policy/v1","version":"v1"}},{"name":"rbac.authorization.k8s.io","versions":[{"groupVersion":"rbac.authorization.k8s.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"rbac.authorization.k8s.io/v1","version":"v1"}},{"name":"storage.k8s.io","versions":[{"groupVersion":"storage.k8s.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"storage.k8s.io/v1","version":"v1"}},{"name":"apiextensions.k8s.io","versions":[{"groupVersion":"apiextensions.k8s.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apiextensions.k8s.io/v1","version":"v1"}},{"name":"coordination.k8s.io","versions":[{"groupVersion":"coordination.k8s.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"coordination.k8s.io/v1","version":"v1"}},{"name":"discovery.k8s.io","versions":[{"groupVersion":"discovery.k8s.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"discovery.k8s.io/v1","version":"v1"}},{"name":"resource.k8s.io","versions":[{"groupVersion":"resource.k8s.io/v1","version":"v1"}],"preferredVersion":{"groupVersion":"resource.k8s.io/v1","version":"v1"}}]}"#);
    insta::assert_snapshot!(lab.get("/apis/coordination.k8s.io/v1").await.text, @r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"coordination.k8s.io/v1","resources":[{"name":"leases","singularName":"lease","namespaced":true,"kind":"Lease","verbs":["create","delete","deletecollection","get","list","patch","update","watch"],"storageVersionHash":"gqkMMb/YqFM="}]}"#);
    insta::assert_snapshot!(lab.get("/version").await.text, @r#"
    {
      "major": "1",
      "minor": "36",
      "emulationMajor": "1",
      "emulationMinor": "36",
      "minCompatibilityMajor": "1",
      "minCompatibilityMinor": "35",
      "gitVersion": "v1.36.3",
      "gitCommit": "",
      "gitTreeState": "clean",
      "buildDate": "1970-01-01T00:00:00Z",
      "goVersion": "",
      "compiler": "gc",
      "platform": "linux/amd64"
    }
    "#);
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let request = HttpRequest::builder().uri("/api").header("accept", accept).body(Bytes::new());
    let aggregated = lab.ask(request.unwrap()).await;
    assert_eq!(
        aggregated.content_type,
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    let resources = &aggregated.json()["items"][0]["versions"][0]["resources"];
    let nodes = resources.as_array().unwrap().iter().find(|it| it["resource"] == "nodes").unwrap();
    insta::assert_snapshot!(nodes.to_string(), @r#"{"resource":"nodes","responseKind":{"group":"","version":"","kind":"Node"},"scope":"Cluster","singularResource":"node","verbs":["create","delete","deletecollection","get","list","patch","update","watch"],"shortNames":["no"],"subresources":[{"subresource":"status","responseKind":{"group":"","version":"","kind":"Node"},"verbs":["get","patch","update"]}]}"#);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_valid_token_is_unauthorized() {
    let mut lab = TestServer::new();
    lab.client = Client::default();
    let with = |token: &str| {
        let value = format!("Bearer {token}");
        let builder = HttpRequest::builder().uri("/api/v1/nodes").header("authorization", value);
        builder.body(Bytes::new()).unwrap()
    };
    let refused = lab.get("/api/v1/nodes").await;
    assert_eq!(refused.code, 401);
    insta::assert_snapshot!(refused.text, @r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#);
    assert_eq!(lab.ask(with("bad")).await.code, 401);
    assert_eq!(lab.ask(with("good")).await.code, 200);
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(lab.get(path).await.code, 200, "{path}");
    }
    lab.api.tokens.issue("short", Identity::admin(), Some(Time::ZERO));
    assert_eq!(lab.ask(with("short")).await.code, 401, "the token has expired");
    lab.api.tokens.revoke("good");
    assert_eq!(lab.ask(with("good")).await.code, 401);
}

#[tokio::test(start_paused = true)]
async fn a_summary_has_the_operation_of_its_request_and_contains_no_secret() {
    let lab = TestServer::new();
    let classify = |method: &str, path: &str, body: &str| {
        let request = HttpRequest::builder()
            .method(method)
            .uri(path)
            .header("authorization", "Bearer good")
            .body(Bytes::from(body.to_owned()))
            .unwrap();
        let (parts, body) = request.into_parts();
        lab.api.classify(&parts, &body, &Client::default()).0
    };
    for (method, path, operation, class) in [
        ("GET", "/api/v1/nodes/n1", "get nodes", Class::Read),
        ("GET", "/api/v1/nodes?watch=0", "list nodes", Class::Read),
        ("GET", "/api/v1/nodes?watch=true", "watch nodes", Class::Watch),
        ("POST", "/api/v1/namespaces/default/events", "create events", Class::Write),
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
            "update leases",
            Class::Write,
        ),
        ("PATCH", "/api/v1/nodes/n1", "patch nodes", Class::Write),
        ("PATCH", "/api/v1/nodes/n1/status", "patch nodes/status", Class::Write),
        ("DELETE", "/api/v1/nodes/n1", "delete nodes", Class::Write),
        ("GET", "/api/v1/namespaces/default", "get namespaces", Class::Read),
        ("GET", "/version", "get /version", Class::Read),
        ("GET", "/healthz", "get /healthz", Class::Read),
        ("GET", "/api", "get /api", Class::Read),
        ("GET", "/nowhere", "unknown", Class::Read),
        ("POST", "/api/v1/nodes/n1", "unknown", Class::Write),
    ] {
        let summary = classify(method, path, "");
        assert_eq!(
            (summary.operation.as_str(), summary.class),
            (operation, class),
            "{method} {path}"
        );
        assert_eq!(summary.user.as_deref(), Some("ccm"));
    }
    let summary = classify(
        "POST",
        "/api/v1/namespaces/default/secrets",
        r#"{"metadata":{"name":"s"},"stringData":{"password":"hunter2"}}"#,
    );
    assert_eq!(summary.name.as_deref(), Some("s"));
    assert_eq!(summary.kind.as_deref(), Some("Secret"));
    assert!(!format!("{summary:?}").contains("hunter2"));
    assert!(!format!("{summary:?}").contains("good"), "no token in {summary:?}");
    let summary = classify("PATCH", "/api/v1/nodes/n1", r#"{"spec": {"taints": null}}"#);
    assert_eq!(summary.detail, r#"{"spec":{"taints":null}}"#);
}

#[tokio::test(start_paused = true)]
async fn effects_remove_hidden_objects_from_answers() {
    let lab = TestServer::new();
    lab.node("a");
    lab.node("b");
    let hidden = Effects { hidden: vec!["a".into()], ..Effects::default() };
    assert_eq!(lab.ask_with(get("/api/v1/nodes/a"), &hidden).await.code, 404);
    let list = lab.ask_with(get("/api/v1/nodes"), &hidden).await.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let empty = Effects { empty_result: true, ..Effects::default() };
    let list = lab.ask_with(get("/api/v1/nodes"), &empty).await.json();
    assert_eq!(list["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_token_review_is_answered_from_the_token_table() {
    let lab = TestServer::new();
    let ask = |token: &str| json!({"spec": {"token": token}});
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let good = lab.send("POST", path, JSON, ask("good")).await;
    assert_eq!(good.code, 201);
    insta::assert_snapshot!(good.json()["status"].to_string(), @r#"{"authenticated":true,"user":{"username":"ccm","groups":["system:authenticated"]},"audiences":["https://kubernetes.default.svc.cluster.local"]}"#);
    let bad = lab.send("POST", path, JSON, ask("bad")).await;
    insta::assert_snapshot!(bad.json()["status"].to_string(), @r#"{"user":{},"error":"invalid bearer token"}"#);
}
