//! Tests of intended differences from the real server that no sequence in `conformance/kubernetes`
//! shows. A row of `docs/kubernetes-differences.md` names each of them. One more test shows that
//! large answers are compressed as on the real server.

use std::io::Read as _;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::{JSON, MERGE, TestServer};
use crate::objects::Effects;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn map(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": value}})
}

#[tokio::test(start_paused = true)]
async fn every_resource_that_is_not_served_is_named() {
    let lab = TestServer::new();
    for (method, path, resource) in [
        ("GET", INGRESSES, "ingresses.networking.k8s.io"),
        ("POST", INGRESSES, "ingresses.networking.k8s.io"),
        (
            "PATCH",
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses/a/status",
            "ingresses.networking.k8s.io",
        ),
        ("GET", "/apis/batch/v1/cronjobs?watch=1", "cronjobs.batch"),
        ("GET", "/apis/apps/v1/controllerrevisions", "controllerrevisions.apps"),
        ("GET", "/api/v1/namespaces/default/limitranges", "limitranges"),
        (
            "DELETE",
            "/apis/storage.k8s.io/v1/volumeattributesclasses/a",
            "volumeattributesclasses.storage.k8s.io",
        ),
        (
            "GET",
            "/apis/autoscaling/v2/horizontalpodautoscalers",
            "horizontalpodautoscalers.autoscaling",
        ),
        (
            "PUT",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests/a/approval",
            "certificatesigningrequests.certificates.k8s.io",
        ),
    ] {
        let answer = lab.send(method, path, JSON, "{}").await;
        let (status, message) = (answer.json(), answer.message());
        assert_eq!((answer.code, &status["reason"]), (404, &"NotFound".into()), "{method} {path}");
        assert_eq!(message, format!("this simulated API server does not serve {resource}"));
        assert_eq!(
            answer.fault.as_deref(),
            Some("NotImplemented"),
            "the ledger distinguishes it from a missing object"
        );
    }
    // Paths that the real server does not serve either, and paths of discovery, get the answer of a
    // real server without the group or resource.
    for (path, want) in [
        ("/apis/networking.k8s.io/v1", "404 page not found\n"),
        ("/apis/networking.k8s.io", "404 page not found\n"),
        ("/apis/example.com/v1/widgets", "404 page not found\n"),
    ] {
        let answer = lab.get(path).await;
        assert_eq!((answer.code, answer.text.as_str()), (404, want), "{path}");
        assert_eq!(answer.fault.as_deref(), Some("NotFound"), "{path}");
    }
    assert_eq!(
        lab.get("/apis/networking.k8s.io/v1/gadgets").await.message(),
        "the server could not find the requested resource"
    );
}

#[tokio::test(start_paused = true)]
async fn parts_and_pages_that_are_not_served_are_named() {
    let lab = TestServer::new();
    for (path, what) in [
        ("/api/v1/namespaces/default/pods/p/log", "pods/log"),
        ("/api/v1/namespaces/default/pods/p/resize", "pods/resize"),
        ("/api/v1/namespaces/default/services/s/proxy/a/b", "services/proxy"),
        ("/api/v1/namespaces/default/serviceaccounts/s/token", "serviceaccounts/token"),
        ("/openapi/v2", "OpenAPI v2"),
        ("/metrics", "metrics"),
        ("/debug/pprof/heap", "debug/pprof"),
        ("/.well-known/openid-configuration", "OpenID discovery"),
    ] {
        let answer = lab.get(path).await;
        assert_eq!(answer.code, 501, "{path}");
        assert_eq!(
            answer.message(),
            format!("this simulated API server does not implement {what}")
        );
        assert_eq!(answer.fault.as_deref(), Some("NotImplemented"), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_field_managers_of_an_object_are_kept() {
    let lab = TestServer::new();
    let path = format!("{MAPS}?fieldManager=m0");
    assert_eq!(lab.send("POST", &path, JSON, map("a", "v0")).await.code, 201);
    for n in 1..=12 {
        let path = format!("{MAPS}/a?fieldManager=m{n}");
        let patch = json!({"data": {format!("k{n}"): "v"}});
        assert_eq!(lab.send("PATCH", &path, MERGE, patch).await.code, 200);
    }
    let kept = lab.get(&format!("{MAPS}/a")).await.json();
    let entries = kept["metadata"]["managedFields"].as_array().unwrap();
    let managers: Vec<&str> = entries.iter().filter_map(|it| it["manager"].as_str()).collect();
    // The real server keeps ten managers and merges the others into one, `ancient-changes`.
    assert_eq!(managers.len(), 13, "{managers:?}");
    assert!(!managers.contains(&"ancient-changes"));
}

#[tokio::test(start_paused = true)]
async fn objects_of_the_simulation_have_no_managed_fields() {
    let lab = TestServer::new();
    lab.node("made-inside");
    let inside = lab.get("/api/v1/nodes/made-inside").await.json();
    assert!(inside["metadata"]["managedFields"].is_null(), "{inside}");
    let path = format!("{MAPS}?fieldManager=m");
    assert_eq!(lab.send("POST", &path, JSON, map("a", "v")).await.code, 201);
    let outside = lab.get(&format!("{MAPS}/a")).await.json();
    assert!(outside["metadata"]["managedFields"].is_array(), "{outside}");
}

#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_waits_until_a_client_removes_the_finalizer() {
    let lab = TestServer::new();
    assert_eq!(lab.send("POST", MAPS, JSON, map("a", "v")).await.code, 201);
    let foreground = format!("{MAPS}/a?propagationPolicy=Foreground");
    assert_eq!(lab.send("DELETE", &foreground, JSON, "").await.code, 200);
    let waiting = lab.get(&format!("{MAPS}/a")).await.json();
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let released = json!({"metadata": {"finalizers": null}});
    assert_eq!(lab.send("PATCH", &format!("{MAPS}/a"), MERGE, released).await.code, 200);
    assert_eq!(lab.get(&format!("{MAPS}/a")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn addresses_of_services_follow_from_their_names() {
    let service = json!({
        "metadata": {"name": "s"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]},
    });
    let mut seen = Vec::new();
    for others in [0, 3] {
        let lab = TestServer::new();
        let path = "/api/v1/namespaces/default/services";
        for n in 0..others {
            let other =
                json!({"metadata": {"name": format!("o{n}")}, "spec": {"ports": [{"port": 80}]}});
            assert_eq!(lab.send("POST", path, JSON, other).await.code, 201);
        }
        let made = lab.send("POST", path, JSON, &service).await.json();
        seen.push((
            made["spec"]["clusterIP"].clone(),
            made["spec"]["ports"][0]["nodePort"].clone(),
        ));
    }
    assert!(seen[0].0.is_string() && seen[0].1.is_number(), "{seen:?}");
    assert_eq!(seen[0], seen[1], "other services do not change the address and port");
}

#[tokio::test(start_paused = true)]
async fn documents_too_deep_and_numbers_too_large_are_refused() {
    let lab = TestServer::new();
    let nested = |depth: usize| {
        let inner = format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        format!(r#"{{"metadata":{{"name":"d"}},"extra":{inner}}}"#)
    };
    let path = format!("{MAPS}?dryRun=All");
    assert_eq!(lab.send("POST", &path, JSON, nested(120)).await.code, 201);
    let refused = lab.send("POST", &path, JSON, nested(128)).await;
    assert_eq!(refused.code, 400);
    assert!(refused.message().contains("exceeded max depth"), "{}", refused.message());
    let endless = r#"{"metadata":{"name":"d","generation":1e999}}"#;
    let refused = lab.send("POST", &path, JSON, endless).await;
    assert_eq!(refused.code, 400);
    assert!(refused.message().contains("json parse error"), "{}", refused.message());
}

#[tokio::test(start_paused = true)]
async fn the_default_namespace_has_no_kubernetes_service_and_endpoints() {
    let lab = TestServer::new();
    for what in ["services", "endpoints"] {
        let answer = lab.get(&format!("/api/v1/namespaces/default/{what}/kubernetes")).await;
        assert_eq!((answer.code, &answer.json()["reason"]), (404, &"NotFound".into()), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_name_in_a_path_is_skipped_in_a_list_and_a_404_otherwise() {
    let lab = TestServer::new();
    assert_eq!(lab.send("POST", MAPS, JSON, map("a", "v")).await.code, 201);
    let path = "/api/v1/namespaces//configmaps";
    assert_eq!(lab.get(path).await.json()["items"].as_array().map(Vec::len), Some(1));
    for (method, path) in [
        ("POST", path),
        ("DELETE", path),
        ("GET", "/api/v1/namespaces/default/pods//log"),
        ("PUT", "/api/v1/nodes//status"),
    ] {
        let answer = lab.send(method, path, JSON, map("b", "v")).await;
        assert_eq!(answer.code, 404, "{method} {path}: {}", answer.text);
    }
    assert_eq!(lab.get(path).await.json()["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_quantity_that_is_a_json_number_loses_its_exponent() {
    let lab = TestServer::new();
    let node = r#"{"metadata":{"name":"n"},"status":{"capacity":{"cpu":1e3,"memory":"1e3"}}}"#;
    let made = lab.send("POST", "/api/v1/nodes", JSON, node).await;
    assert_eq!(made.code, 201);
    assert_eq!(made.json()["status"]["capacity"], json!({"cpu": "1k", "memory": "1e3"}));
}

#[tokio::test(start_paused = true)]
async fn a_fraction_of_zero_is_dropped_before_a_custom_object_is_validated() {
    let lab = TestServer::new();
    let schema = json!({"type": "object", "properties": {
        "some": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "number"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    define_parts(&lab, &schema).await;
    let part = |rest: &str| {
        format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Part","metadata":{{"generateName":"p-"}},{rest}}}"#
        )
    };
    let parts = "/apis/example.com/v1/parts";
    assert_eq!(lab.send("POST", parts, JSON, part(r#""some":[1,1.5]"#)).await.code, 201);
    assert_eq!(lab.send("POST", parts, JSON, part(r#""some":[1,1.0]"#)).await.code, 422);
    let large = lab.send("POST", parts, JSON, part(r#""any":{"n":1e20}"#)).await;
    assert!(large.text.contains(r#""n":1e+20"#), "{}", large.text);
}

#[tokio::test(start_paused = true)]
async fn a_post_to_the_path_of_an_object_is_refused_and_creates_nothing() {
    let lab = TestServer::new();
    define_parts(&lab, &json!({"type": "object"})).await;
    let part = json!({"apiVersion": "example.com/v1", "kind": "Part", "metadata": {"name": "a"}});
    let refused = lab.send("POST", "/apis/example.com/v1/parts/a", JSON, part).await;
    assert_eq!((refused.code, &refused.json()["reason"]), (405, &"MethodNotAllowed".into()));
    assert_eq!(lab.get("/apis/example.com/v1/parts").await.json()["items"], json!([]));
}

/// Defines the custom kind `Part` of the group `example.com` with this schema.
async fn define_parts(lab: &TestServer, schema: &Value) {
    let definition = json!({
        "metadata": {"name": "parts.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": "Part", "plural": "parts"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = lab.send("POST", definitions, JSON, definition).await;
    assert_eq!(answer.code, 201, "{}", answer.message());
}

#[tokio::test(start_paused = true)]
async fn pod_fields_for_the_kubelet_are_accepted_without_validation() {
    let lab = TestServer::new();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |container: Value, rest: Value| {
        let mut container = container;
        container["name"] = "c".into();
        container["image"] = "i".into();
        let mut spec = rest;
        spec["containers"] = json!([container]);
        json!({"metadata": {"generateName": "p-"}, "spec": spec})
    };
    for (container, rest) in [
        (json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}), json!({})),
        (json!({"livenessProbe": {"periodSeconds": -1}}), json!({})),
        (json!({"securityContext": {"runAsUser": -1}}), json!({})),
        (json!({}), json!({"volumes": [{"name": "v", "hostPath": {"path": ""}}]})),
        (json!({}), json!({"dnsPolicy": "None"})),
        (json!({}), json!({"topologySpreadConstraints": [{"maxSkew": 0}]})),
    ] {
        let answer = lab.send("POST", pods, JSON, pod(container.clone(), rest.clone())).await;
        assert_eq!(answer.code, 201, "{container} {rest}: {}", answer.message());
    }
    let refused = lab.send("POST", pods, JSON, pod(json!({"ports": [{}]}), json!({}))).await;
    assert_eq!(refused.code, 422, "common mistakes are still refused");
}

#[tokio::test(start_paused = true)]
async fn uri_email_isbn_and_card_formats_of_custom_kinds_are_not_validated() {
    let lab = TestServer::new();
    let schema = json!({"type": "object", "properties": {
        "link": {"type": "string", "format": "uri"},
        "mail": {"type": "string", "format": "email"},
        "book": {"type": "string", "format": "isbn"},
        "card": {"type": "string", "format": "creditcard"},
        "often": {"type": "string", "pattern": "^a**$"},
        "lasts": {"type": "string", "format": "duration"},
    }});
    define_parts(&lab, &schema).await;
    let part = |name: &str, field: &str, value: &str| {
        let mut part = json!({"apiVersion": "example.com/v1", "kind": "Part"});
        part["metadata"] = json!({"name": name});
        part[field] = value.into();
        part
    };
    for field in ["link", "mail", "book", "card"] {
        let answer =
            lab.send("POST", "/apis/example.com/v1/parts", JSON, part(field, field, "%")).await;
        assert_eq!(answer.code, 201, "{field}: {}", answer.message());
    }
    for (field, value) in [("often", "b"), ("lasts", "%")] {
        let refused =
            lab.send("POST", "/apis/example.com/v1/parts", JSON, part(field, field, value));
        assert_eq!(refused.await.code, 422, "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_and_a_key_need_not_fit() {
    let lab = TestServer::new();
    // PEM blocks, in base64, without a valid certificate or key.
    let pem = |what: &str| {
        let block = format!("-----BEGIN {what}-----\nAAAA\n-----END {what}-----\n");
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, block)
    };
    let secret = json!({
        "metadata": {"name": "s"}, "type": "kubernetes.io/tls",
        "data": {"tls.crt": pem("CERTIFICATE"), "tls.key": pem("PRIVATE KEY")},
    });
    let request = http::Request::post("/api/v1/namespaces/default/secrets")
        .header("content-type", JSON)
        .body(Bytes::from(secret.to_string()));
    let (_, reply) = lab.reply(request.unwrap(), &Effects::default()).await;
    assert_eq!(reply.response.status(), 201);
    assert!(!reply.response.headers().contains_key("warning"));
}

#[tokio::test(start_paused = true)]
async fn custom_kinds_take_no_protobuf() {
    let lab = TestServer::new();
    define_parts(&lab, &json!({"type": "object"})).await;
    let refused = lab.send("POST", "/apis/example.com/v1/parts", PROTOBUF, "k8s\0").await;
    assert_eq!((refused.code, &refused.json()["reason"]), (415, &"UnsupportedMediaType".into()));
}

#[tokio::test(start_paused = true)]
async fn openapi_documents_are_served_without_a_date_and_without_ranges() {
    let lab = TestServer::new();
    let path = "/openapi/v3/apis/coordination.k8s.io/v1";
    let whole = lab.get(path).await.text;
    let request = http::Request::builder().uri(path).header("range", "bytes=0-9");
    let (_, reply) = lab.reply(request.body(Bytes::new()).unwrap(), &Effects::default()).await;
    assert_eq!(reply.response.status(), 200);
    assert!(!reply.response.headers().contains_key("last-modified"));
    assert!(!reply.response.headers().contains_key("accept-ranges"));
    let body = reply.response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body.len(), whole.len());
}

/// A real server decides about compression only by the size of an answer and by `Accept-Encoding`.
#[tokio::test(start_paused = true)]
async fn a_large_answer_is_compressed_for_a_client_that_accepts_gzip() {
    let lab = TestServer::new();
    let zipped = async |path: &str, codings: &str| {
        let request = http::Request::builder().uri(path).header("accept-encoding", codings);
        let (_, reply) = lab.reply(request.body(Bytes::new()).unwrap(), &Effects::default()).await;
        let is_zipped = reply.response.headers().get("content-encoding").is_some();
        let body = reply.response.into_body().collect().await.unwrap().to_bytes();
        if !is_zipped {
            return (false, String::from_utf8(body.to_vec()).unwrap());
        }
        let mut text = String::new();
        flate2::read::GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap();
        (true, text)
    };
    assert_eq!(lab.send("POST", MAPS, JSON, map("small", "v")).await.code, 201);
    assert_eq!(lab.send("POST", MAPS, JSON, map("large", &"v".repeat(128 << 10))).await.code, 201);
    for (path, codings, want) in [
        (format!("{MAPS}/small"), "gzip", false),
        (format!("{MAPS}/large"), "deflate, gzip", true),
        (format!("{MAPS}/large"), "gzip;q=1", false),
        (format!("{MAPS}/large"), "br", false),
        (MAPS.to_owned(), "gzip", true),
        ("/openapi/v3/api/v1".to_owned(), "gzip", false),
    ] {
        let (is_zipped, text) = zipped(&path, codings).await;
        assert_eq!(is_zipped, want, "{path} {codings}");
        assert_eq!(text, lab.get(&path).await.text, "{path} {codings}");
    }
}

#[tokio::test(start_paused = true)]
async fn fields_of_workloads_for_controllers_are_accepted_without_validation() {
    let lab = TestServer::new();
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let rule = json!({"action": "Ignore", "onPodConditions": [{"type": "?", "status": "Maybe"}]});
    let job = json!({
        "metadata": {"name": "a"},
        "spec": {
            "managedBy": "no domain",
            "podFailurePolicy": {"rules": [rule]},
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
        },
    });
    let created = lab.send("POST", jobs, JSON, &job).await;
    assert_eq!((created.code, &created.json()["spec"]["managedBy"]), (201, &"no domain".into()));
    let claims = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["Sometimes"]}}]);
    let set = json!({
        "metadata": {"name": "a"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            "volumeClaimTemplates": claims,
        },
    });
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    assert_eq!(lab.send("POST", sets, JSON, &set).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn evictions_with_unmet_preconditions_leave_the_budget_alone() {
    let lab = TestServer::new();
    let pods = "/api/v1/namespaces/default/pods";
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let pod = json!({
        "metadata": {"name": "a", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let budget = json!({
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
    });
    assert_eq!(lab.send("POST", pods, JSON, &pod).await.code, 201);
    assert_eq!(lab.send("POST", budgets, JSON, &budget).await.code, 201);
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let running = json!({"status": {"phase": "Running", "conditions": ready}});
    assert_eq!(lab.send("PATCH", &format!("{pods}/a/status"), MERGE, &running).await.code, 200);
    let allowed = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1}});
    assert_eq!(lab.send("PATCH", &format!("{budgets}/b/status"), MERGE, &allowed).await.code, 200);
    let eviction = |options| {
        json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"},
            "deleteOptions": options,
        })
    };
    let path = format!("{pods}/a/eviction");
    let other = json!({"preconditions": {"uid": "other"}});
    assert_eq!(lab.send("POST", &path, JSON, eviction(other)).await.code, 409);
    let left = lab.get(&format!("{budgets}/b")).await.json();
    assert_eq!(left["status"]["disruptionsAllowed"], 1, "the real server counts the eviction");
    assert_eq!(lab.send("POST", &path, JSON, eviction(json!({}))).await.code, 201);
    let left = lab.get(&format!("{budgets}/b")).await.json();
    assert_eq!(left["status"]["disruptionsAllowed"], 0);
    assert_eq!(lab.get(&format!("{pods}/a")).await.code, 404);
}
