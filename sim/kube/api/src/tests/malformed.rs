//! Tests that malformed requests get error messages with a reason, those of the real server where
//! this server implements the feature, and cause no panic.

use bytes::Bytes;
use http::Request as HttpRequest;

use proptest::prelude::*;

use super::{JSON, JSON_PATCH, MERGE, STRATEGIC, TestServer};

#[tokio::test(start_paused = true)]
async fn malformed_bodies_are_refused_with_a_reason() {
    let lab = TestServer::new();
    lab.node("n1");
    let huge = format!(r#"{{"metadata":{{"name":"{}"}}}}"#, "x".repeat(3 * 1024 * 1024));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let rows: [(&str, &str, &str, &str, &str); 19] = [
        ("no JSON", "POST", "/api/v1/nodes", JSON, "nonsense"),
        ("half a document", "POST", "/api/v1/nodes", JSON, r#"{"metadata":"#),
        ("a list", "POST", "/api/v1/nodes", JSON, "[]"),
        ("too deep", "POST", "/api/v1/nodes", JSON, &deep),
        ("too large", "POST", "/api/v1/nodes", JSON, &huge),
        ("protobuf", "POST", "/api/v1/nodes", "application/vnd.kubernetes.protobuf", "k8s\0"),
        ("cbor", "POST", "/api/v1/nodes", "application/cbor", "\u{1}"),
        (
            "another kind",
            "POST",
            "/api/v1/nodes",
            JSON,
            r#"{"kind":"Pod","metadata":{"name":"a"}}"#,
        ),
        (
            "another version",
            "POST",
            "/api/v1/nodes",
            JSON,
            r#"{"apiVersion":"v2","metadata":{"name":"a"}}"#,
        ),
        (
            "labels of numbers",
            "POST",
            "/api/v1/nodes",
            JSON,
            r#"{"metadata":{"name":"a","labels":{"a":1}}}"#,
        ),
        (
            "taints of text",
            "POST",
            "/api/v1/nodes",
            JSON,
            r#"{"metadata":{"name":"a"},"spec":{"taints":"x"}}"#,
        ),
        ("no name", "POST", "/api/v1/nodes", JSON, "{}"),
        ("a bad name", "POST", "/api/v1/nodes", JSON, r#"{"metadata":{"name":"A_b"}}"#),
        ("another name", "PUT", "/api/v1/nodes/n1", JSON, r#"{"metadata":{"name":"n2"}}"#),
        ("patch of no type", "PATCH", "/api/v1/nodes/n1", JSON, "{}"),
        ("patch of no JSON", "PATCH", "/api/v1/nodes/n1", MERGE, "{"),
        (
            "patch to the wrong type",
            "PATCH",
            "/api/v1/nodes/n1",
            STRATEGIC,
            r#"{"metadata":{"labels":"x"}}"#,
        ),
        (
            "patch that fits nothing",
            "PATCH",
            "/api/v1/nodes/n1",
            JSON_PATCH,
            r#"[{"op":"remove","path":"/nowhere"}]"#,
        ),
        (
            "server-side apply",
            "PATCH",
            "/api/v1/nodes/n1?fieldManager=kubectl&force=false",
            "application/apply-patch+yaml",
            "{}",
        ),
    ];
    let mut seen = String::new();
    for (name, method, path, content_type, body) in rows {
        let answer = lab.send(method, path, content_type, body).await;
        let message: String = answer.message().chars().take(260).collect();
        let reason = answer.fault.clone().unwrap_or_default();
        seen.push_str(&format!("{name}: {} {reason}: {message}\n", answer.code));
    }
    insta::assert_snapshot!(seen, @r#"
    no JSON: 400 BadRequest: the object provided is unrecognized (must be of type Node): couldn't get version/kind; json parse error: invalid character 'o' in literal null (expecting 'u') (6e6f6e73656e7365)
    half a document: 400 BadRequest: the object provided is unrecognized (must be of type Node): couldn't get version/kind; json parse error: unexpected end of JSON input ({"metadata":)
    a list: 400 BadRequest: the object provided is unrecognized (must be of type Node): couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" } (5b5
    too deep: 400 BadRequest: the object provided is unrecognized (must be of type Node): couldn't get version/kind; json parse error: invalid character '[' exceeded max depth (5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b ...)
    too large: 413 RequestEntityTooLarge: Request entity too large: limit is 3145728
    protobuf: 400 BadRequest: the object provided is unrecognized (must be of type Node): empty body (6b387300)
    cbor: 415 UnsupportedMediaType: the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf
    another kind: 400 BadRequest: Pod in version "v1" cannot be handled as a Node: converting (v1.Pod) to (core.Node): unknown conversion
    another version: 400 BadRequest: Node in version "v2" cannot be handled as a Node: no kind "Node" is registered for version "v2" in scheme "pkg/runtime/scheme.go:111"
    labels of numbers: 400 BadRequest: Node in version "v1" cannot be handled as a Node: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string
    taints of text: 400 BadRequest: Node in version "v1" cannot be handled as a Node: json: cannot unmarshal string into Go struct field NodeSpec.spec.taints of type []v1.Taint
    no name: 422 Invalid: Node "" is invalid: metadata.name: Required value: name or generateName is required
    a bad name: 422 Invalid: Node "A_b" is invalid: metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '
    another name: 400 BadRequest: the name of the object (n2) does not match the name on the URL (n1)
    patch of no type: 415 UnsupportedMediaType: 415: Unsupported Media Type
    patch of no JSON: 400 BadRequest: error decoding patch: unexpected end of JSON input
    patch to the wrong type: 422 Invalid:  "" is invalid: patch: Invalid value: "map[metadata:map[labels:x]]": cannot restore map from string
    patch that fits nothing: 422 Invalid: the server rejected our request due to an error in our request
    server-side apply: 415 UnsupportedMediaType: this simulated API server does not implement server-side apply (application/apply-patch+yaml)
    "#);
}

#[tokio::test(start_paused = true)]
async fn malformed_paths_and_parameters_are_refused_with_a_reason() {
    let lab = TestServer::new();
    lab.node("n1");
    let mut seen = String::new();
    for (method, path) in [
        ("GET", "/nowhere"),
        ("GET", "/api/v1/foos"),
        ("GET", "/api/v2/nodes"),
        ("GET", "/api/v1/namespaces/default/nodes"),
        ("GET", "/api/v1/nodes/n1/foo"),
        ("GET", "/api/v1/namespaces/default/pods/p/log"),
        ("GET", "/openapi/v2"),
        ("POST", "/api/v1/nodes/n1"),
        ("HEAD", "/api/v1/nodes"),
        ("GET", "/api/v1/nodes?labelSelector=a%3D%3D%3Db"),
        ("GET", "/api/v1/nodes?labelSelector=!!a"),
        ("GET", "/api/v1/nodes?fieldSelector=spec.nowhere=1"),
        ("GET", "/apis/coordination.k8s.io/v1/leases?fieldSelector=spec.holderIdentity=1"),
        ("GET", "/api/v1/nodes?fieldSelector=nothing"),
        ("GET", "/api/v1/nodes?resourceVersion=999"),
        ("GET", "/api/v1/nodes?resourceVersion=abc"),
        ("GET", "/api/v1/nodes?resourceVersionMatch=Exact"),
        ("GET", "/api/v1/nodes?resourceVersion=0&resourceVersionMatch=Exact"),
        ("GET", "/api/v1/nodes?continue=abc"),
        ("GET", "/api/v1/nodes?watch=1&sendInitialEvents=true"),
        ("GET", "/api/v1/nodes?watch=1&resourceVersionMatch=NotOlderThan"),
        ("GET", "/api/v1/nodes/%ff%00%2e%2e"),
        ("GET", "//api//v1//nodes//"),
    ] {
        let answer = lab.send(method, path, "", "").await;
        let shown = match serde_json::from_str::<serde_json::Value>(&answer.text) {
            Ok(status) => format!("{} {}", status["reason"], status["message"]),
            Err(_) => format!("{:?}", answer.text),
        };
        seen.push_str(&format!("{method} {path}: {} {shown}\n", answer.code));
    }
    insta::assert_snapshot!(seen, @r#"
    GET /nowhere: 404 "404 page not found\n"
    GET /api/v1/foos: 404 "NotFound" "the server could not find the requested resource"
    GET /api/v2/nodes: 404 "NotFound" "the server could not find the requested resource"
    GET /api/v1/namespaces/default/nodes: 404 "NotFound" "the server could not find the requested resource"
    GET /api/v1/nodes/n1/foo: 404 "NotFound" "the server could not find the requested resource"
    GET /api/v1/namespaces/default/pods/p/log: 501 "NotImplemented" "this simulated API server does not implement pods/log"
    GET /openapi/v2: 501 "NotImplemented" "this simulated API server does not implement OpenAPI v2"
    POST /api/v1/nodes/n1: 405 "MethodNotAllowed" "the server does not allow this method on the requested resource"
    HEAD /api/v1/nodes: 405 ""
    GET /api/v1/nodes?labelSelector=a%3D%3D%3Db: 400 "BadRequest" "unable to parse requirement: found '=', expected: identifier"
    GET /api/v1/nodes?labelSelector=!!a: 400 "BadRequest" "unable to parse requirement: found '!', expected: identifier"
    GET /api/v1/nodes?fieldSelector=spec.nowhere=1: 400 "BadRequest" "field label not supported: spec.nowhere"
    GET /apis/coordination.k8s.io/v1/leases?fieldSelector=spec.holderIdentity=1: 400 "BadRequest" "\"spec.holderIdentity\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    GET /api/v1/nodes?fieldSelector=nothing: 400 "BadRequest" "invalid selector: 'nothing'; can't understand 'nothing'"
    GET /api/v1/nodes?resourceVersion=999: 504 "Timeout" "Timeout: Too large resource version: 999, current: 6"
    GET /api/v1/nodes?resourceVersion=abc: 400 "BadRequest" "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax"
    GET /api/v1/nodes?resourceVersionMatch=Exact: 422 "Invalid" "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
    GET /api/v1/nodes?resourceVersion=0&resourceVersionMatch=Exact: 422 "Invalid" "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""
    GET /api/v1/nodes?continue=abc: 400 "BadRequest" "invalid continue token: continue key is not valid: invalid character 'i' looking for beginning of value"
    GET /api/v1/nodes?watch=1&sendInitialEvents=true: 422 "Invalid" "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    GET /api/v1/nodes?watch=1&resourceVersionMatch=NotOlderThan: 422 "Invalid" "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    GET /api/v1/nodes/%ff%00%2e%2e: 404 "NotFound" "nodes \"�\\x00..\" not found"
    GET //api//v1//nodes//: 404 "404 page not found\n"
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_406_answer_names_the_media_types_that_are_available() {
    let lab = TestServer::new();
    let mut seen = String::new();
    for accept in [
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf, */*",
        "application/vnd.kubernetes.protobuf",
        "text/html",
    ] {
        let request =
            HttpRequest::builder().uri("/api/v1/nodes").header("accept", accept).body(Bytes::new());
        let answer = lab.ask(request.unwrap()).await;
        seen.push_str(&format!("{accept}: {} {}\n", answer.code, answer.message()));
    }
    insta::assert_snapshot!(seen, @r"
    application/json;as=Table;v=v1;g=meta.k8s.io,application/json: 200 
    application/json;as=Table;v=v1;g=meta.k8s.io: 200 
    application/vnd.kubernetes.protobuf, */*: 200 
    application/vnd.kubernetes.protobuf: 406 this simulated API server does not implement answers in application/vnd.kubernetes.protobuf; only the following media types are accepted: application/json
    text/html: 406 406: Not Acceptable

    Available representations: application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch
    ");
}

#[tokio::test(start_paused = true)]
async fn a_node_can_be_created_from_a_yaml_body() {
    let lab = TestServer::new();
    let yaml = "metadata:\n  name: plain\nspec:\n  unschedulable: true\n";
    let answer = lab.send("POST", "/api/v1/nodes", "application/yaml", yaml).await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    assert_eq!(answer.json()["spec"]["unschedulable"], true);
}

/// Generates JSON values with field names of Kubernetes. Few of the values are valid objects or
/// patches.
fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        "[a-z$/.]{0,6}".prop_map(serde_json::Value::from),
    ];
    let field = prop_oneof![
        Just("metadata"),
        Just("name"),
        Just("labels"),
        Just("finalizers"),
        Just("spec"),
        Just("taints"),
        Just("status"),
        Just("addresses"),
        Just("conditions"),
        Just("type"),
        Just("$patch"),
        Just("$setElementOrder/conditions"),
        Just("$retainKeys"),
        Just("op"),
        Just("$deleteFromPrimitiveList/finalizers"),
        Just("path"),
        Just("value"),
        Just("kind"),
        Just("resourceVersion"),
        Just("data"),
        Just("ports"),
        Just("preconditions"),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::vec((field.clone(), inner), 0..5).prop_map(|fields| {
                fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect()
            }),
        ]
    })
}

proptest! {
    #[test]
    fn arbitrary_requests_do_not_make_the_api_server_panic(
        method in prop_oneof![Just("GET"), Just("POST"), Just("PUT"), Just("PATCH"), Just("DELETE"), Just("BREW")],
        path in prop_oneof![
            Just("/api/v1/nodes".to_owned()),
            Just("/api/v1/nodes/n1".to_owned()),
            Just("/api/v1/nodes/n1/status".to_owned()),
            Just("/api/v1/namespaces/default/services".to_owned()),
            Just("/api/v1/namespaces/default/secrets".to_owned()),
            Just("/apis/coordination.k8s.io/v1/namespaces/default/leases/l".to_owned()),
            "/[a-z0-9/%.]{0,30}",
        ],
        query in "[a-zA-Z=&%+!()<>,.0-9]{0,40}",
        content_type in prop_oneof![Just(JSON), Just(MERGE), Just(STRATEGIC), Just(JSON_PATCH), Just("application/yaml")],
        body in prop_oneof![
            value().prop_map(|it| it.to_string().into_bytes()),
            prop::collection::vec(any::<u8>(), 0..60),
        ],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let lab = TestServer::new();
            lab.node("n1");
            let request = HttpRequest::builder()
                .method(method)
                .uri(format!("{path}?timeoutSeconds=1&{query}"))
                .header("content-type", content_type)
                .body(Bytes::from(body));
            if let Ok(request) = request {
                let answer = lab.ask(request).await;
                assert!((200..600).contains(&answer.code));
                assert!(answer.code != 500 || answer.text.contains("Status"), "{}", answer.text);
            }
        });
    }
}
