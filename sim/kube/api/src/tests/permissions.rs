//! Tests of authentication, authorization and reviews, and of options of deletions, protobuf bodies
//! and health endpoints.

use bytes::Bytes;
use http::Request as HttpRequest;
use kube_sim_store::Time;
use serde_json::{Value, json};

use super::{Answer, JSON, TestServer, get, trusted};
use crate::auth::Identity;
use crate::request::Client;
use crate::server::Effects;

fn stranger() -> TestServer {
    let mut lab = TestServer::new();
    lab.client = Client::default();
    lab.api.access.require_rbac();
    let master = Identity { user: "root".into(), groups: vec!["system:masters".into()] };
    lab.api.tokens.issue("master", master, None);
    lab
}

async fn ask(
    lab: &TestServer,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut request = HttpRequest::builder().method(method).uri(path).header("content-type", JSON);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    lab.ask(request.body(Bytes::from(body.to_owned())).unwrap()).await
}

const GOOD: (&str, &str) = ("authorization", "Bearer good");
const MASTER: (&str, &str) = ("authorization", "Bearer master");

#[tokio::test(start_paused = true)]
async fn with_rbac_roles_decide_over_requests_from_outside_the_process() {
    let lab = stranger();
    lab.node("n1");
    let refused = ask(&lab, "GET", "/api/v1/nodes", &[], "").await;
    assert_eq!(refused.code, 403);
    insta::assert_snapshot!(refused.text, @r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"nodes is forbidden: User \"system:anonymous\" cannot list resource \"nodes\" in API group \"\" at the cluster scope","reason":"Forbidden","details":{"kind":"nodes"},"code":403}"#);
    assert_eq!(
        ask(&lab, "GET", "/api/v1/nodes", &[("authorization", "Bearer bad")], "").await.code,
        401
    );
    assert_eq!(ask(&lab, "GET", "/api/v1/nodes", &[GOOD], "").await.code, 403);
    assert_eq!(ask(&lab, "GET", "/api/v1/nodes", &[MASTER], "").await.code, 200);
    assert_eq!(ask(&lab, "GET", "/livez", &[], "").await.code, 200);
    let refused = ask(&lab, "GET", "/nowhere", &[], "").await;
    assert_eq!(
        refused.message(),
        r#"forbidden: User "system:anonymous" cannot get path "/nowhere""#
    );
    // The server trusts a labelled client in this process, with RBAC as without it.
    let inside = TestServer { client: trusted(), ..lab };
    assert_eq!(inside.get("/api/v1/nodes").await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_request_has_the_user_and_groups_of_its_client_certificate() {
    let lab = stranger();
    let identity = Identity { user: "jane".into(), groups: vec!["system:masters".into()] };
    let client = Client { certificate: Some(identity), is_trusted: false };
    let (parts, body) = get("/api/v1/nodes").into_parts();
    let (summary, request) = lab.api.classify(&parts, &body, &client);
    assert_eq!(summary.user.as_deref(), Some("jane"));
    let reply = lab.api.handle(request, &Effects::default()).await;
    assert_eq!(reply.response.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_valid_from_its_issue_until_its_expiry() {
    let lab = stranger();
    let master = || Identity { user: "m".into(), groups: vec!["system:masters".into()] };
    let next = [("authorization", "Bearer next")];
    assert_eq!(ask(&lab, "GET", "/api/v1/nodes", &next, "").await.code, 401);
    let soon = Time::after_start(std::time::Duration::from_secs(60));
    lab.api.tokens.issue("next", master(), Some(soon));
    assert_eq!(ask(&lab, "GET", "/api/v1/nodes", &next, "").await.code, 200);
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    assert_eq!(ask(&lab, "GET", "/api/v1/nodes", &next, "").await.code, 401);
}

#[tokio::test(start_paused = true)]
async fn impersonation_needs_a_permission_and_a_user_name() {
    let lab = stranger();
    let as_bob = ("impersonate-user", "bob");
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let bob = ask(&lab, "POST", path, &[MASTER, as_bob], "{}").await;
    assert_eq!(
        bob.json()["status"],
        json!({"userInfo": {"username": "bob", "groups": ["system:authenticated"]}})
    );
    assert_eq!(bob.json()["metadata"]["creationTimestamp"], "2026-03-01T08:00:00Z");
    let refused = ask(&lab, "GET", "/api/v1/nodes", &[as_bob], "").await;
    assert_eq!(
        refused.message(),
        r#"nodes is forbidden: User "system:anonymous" cannot impersonate-on:user-info:list resource "nodes" in API group "" at the cluster scope"#
    );
    let nobody = ask(&lab, "GET", "/api/v1/nodes", &[MASTER, ("impersonate-group", "g")], "").await;
    assert_eq!(nobody.code, 400);
    assert_eq!(
        nobody.message(),
        r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g"}, Extra:map[string][]string(nil)} without impersonating a user name"#
    );
}

#[tokio::test(start_paused = true)]
async fn reviews_answer_as_the_real_server_does() {
    let lab = stranger();
    let review = async |resource: &str, body: Value| -> Value {
        let group = if resource.contains("token") { "authentication" } else { "authorization" };
        let path = format!("/apis/{group}.k8s.io/v1/{resource}");
        ask(&lab, "POST", &path, &[MASTER], &body.to_string()).await.json()
    };
    let pods = json!({"verb": "get", "resource": "pods", "namespace": "face"});
    let seen =
        review("selfsubjectaccessreviews", json!({"spec": {"resourceAttributes": pods}})).await;
    assert_eq!(seen["status"], json!({"allowed": true}));
    let bob = json!({"spec": {"user": "bob", "resourceAttributes": pods}});
    assert_eq!(
        review("subjectaccessreviews", bob.clone()).await["status"],
        json!({"allowed": false})
    );
    let local = "namespaces/face/localsubjectaccessreviews";
    let seen = review(local, bob.clone()).await;
    assert_eq!(
        (&seen["metadata"], &seen["status"]),
        (&json!({"namespace": "face"}), &json!({"allowed": false}))
    );
    let api = json!({"spec": {"user": "bob", "groups": ["system:authenticated"], "nonResourceAttributes": {"verb": "get", "path": "/api"}}});
    assert_eq!(
        review("subjectaccessreviews", api).await["status"],
        json!({"allowed": true, "reason": r#"RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated""#})
    );
    for (resource, body, want) in [
        (
            "subjectaccessreviews",
            json!({"spec": {"user": "bob"}}),
            r#".authorization.k8s.io "" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"#,
        ),
        (
            "subjectaccessreviews",
            json!({"spec": {"resourceAttributes": pods, "nonResourceAttributes": {"path": "/x"}}}),
            r#".authorization.k8s.io "" is invalid: [spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":""}: cannot be specified in combination with resourceAttributes, spec.user: Invalid value: "": at least one of user or group must be specified]"#,
        ),
        (
            "namespaces/other/localsubjectaccessreviews",
            bob,
            r#".authorization.k8s.io "" is invalid: spec.resourceAttributes.namespace: Invalid value: "face": must match metadata.namespace"#,
        ),
        ("selfsubjectrulesreviews", json!({"spec": {}}), "no namespace on request"),
        (
            "tokenreviews",
            json!({"spec": {}}),
            "token is required for TokenReview in authentication",
        ),
    ] {
        assert_eq!(review(resource, body).await["message"], want, "{resource}");
    }
    let rules = review("selfsubjectrulesreviews", json!({"spec": {"namespace": "face"}})).await;
    assert_eq!(rules["spec"], json!({}));
    assert_eq!(rules["status"]["incomplete"], false);
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    assert_eq!(rules["status"]["resourceRules"][0], everything);
    let seen = review("tokenreviews", json!({"spec": {"token": "good", "audiences": ["x"]}})).await;
    assert_eq!(seen["status"], json!({"user": {}, "error": "invalid bearer token"}));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_with_invalid_options_is_refused() {
    let lab = TestServer::new();
    lab.node("n1");
    let send = async |query: &str, body: &str| {
        let answer = lab.send("DELETE", &format!("/api/v1/nodes/n1?{query}"), JSON, body).await;
        (answer.code, answer.message())
    };
    let policy = r#"DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Foo": supported values: "Foreground", "Background", "Orphan", "nil""#;
    for (query, body, want) in [
        ("propagationPolicy=Foo", "", (422, policy)),
        ("", r#"{"propagationPolicy":"Foo"}"#, (422, policy)),
        ("gracePeriodSeconds=x", "", (400, r#"strconv.ParseInt: parsing "x": invalid syntax"#)),
        (
            "",
            r#"{"gracePeriodSeconds":"x"}"#,
            (
                400,
                "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
            ),
        ),
        (
            "",
            r#"{"kind":"Foo","apiVersion":"v1"}"#,
            (
                400,
                r#"no kind "Foo" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111""#,
            ),
        ),
        (
            "",
            r#"{"orphanDependents":true,"propagationPolicy":"Orphan"}"#,
            (
                422,
                r#"DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set"#,
            ),
        ),
        (
            "dryRun=Foo",
            "",
            (
                422,
                r#"DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Foo"]: supported values: "All""#,
            ),
        ),
        ("dryRun=All&propagationPolicy=Foreground", "", (200, "")),
        ("", r#"{"dryRun":["All"],"gracePeriodSeconds":0}"#, (200, "")),
    ] {
        assert_eq!(send(query, body).await, (want.0, want.1.to_owned()), "{query} {body}");
    }
    assert_eq!(lab.get("/api/v1/nodes/n1").await.code, 200);
    let options = include_bytes!("../protobuf/fixtures/deleteoptions.pb");
    let request = HttpRequest::delete("/api/v1/nodes/n1")
        .header("content-type", "application/vnd.kubernetes.protobuf")
        .body(Bytes::from_static(options));
    let refused = lab.ask(request.unwrap()).await;
    assert_eq!(refused.code, 409, "{}", refused.text);
    assert_eq!(lab.send("DELETE", "/api/v1/namespaces", JSON, "").await.code, 405);
    let refused = lab.get("/api/v1/nodes?timeout=foo").await;
    assert_eq!(
        refused.message(),
        r#"invalid timeout specified in the request URL - time: invalid duration "foo""#
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_created_from_protobuf_is_read_as_plain_and_as_indented_json() {
    let lab = TestServer::new();
    let node = include_bytes!("../protobuf/fixtures/node-bare.pb");
    let request = HttpRequest::post("/api/v1/nodes")
        .header("content-type", "application/vnd.kubernetes.protobuf")
        .header("accept", "application/vnd.kubernetes.protobuf, */*")
        .body(Bytes::from_static(node));
    let created = lab.ask(request.unwrap()).await;
    assert_eq!((created.code, created.content_type.as_str()), (201, JSON));
    assert_eq!(created.json()["metadata"]["name"], "n1");
    let request =
        HttpRequest::get("/api/v1/nodes/n1").header("user-agent", "curl/8").body(Bytes::new());
    let pretty = lab.ask(request.unwrap()).await.text;
    assert!(pretty.starts_with("{\n  \"kind\": \"Node\",\n") && pretty.ends_with('}'), "{pretty}");
    let plain = lab.get("/api/v1/nodes/n1").await.text;
    assert!(plain.starts_with("{\"kind\":\"Node\"") && plain.ends_with("}\n"), "{plain}");
    let warned = HttpRequest::post("/api/v1/namespaces/default/configmaps")
        .header("content-type", JSON)
        .body(Bytes::from_static(br#"{"metadata":{"name":"q"},"data":{"a":"b","a":"c"}}"#));
    let (_, reply) = lab.reply(warned.unwrap(), &Effects::default()).await;
    assert_eq!(reply.response.headers()["warning"], r#"299 - "duplicate field \"data.a\"""#);
}

#[tokio::test(start_paused = true)]
async fn health_endpoints_serve_single_checks_and_verbose_reports() {
    let lab = TestServer::new();
    assert_eq!(lab.get("/livez/ping").await.text, "ok");
    assert_eq!(lab.get("/livez/pingx").await.code, 404);
    let text = lab.get("/readyz?verbose&exclude=etcd&exclude=foo").await.text;
    assert!(
        text.starts_with("[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\n[+]etcd-readiness ok\n")
    );
    assert!(text.ends_with("[+]shutdown ok\nwarn: some health checks cannot be excluded: no matches for \"foo\"\nreadyz check passed\n"));
}
