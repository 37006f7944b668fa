//! Tests of requests for OpenAPI v3 documents and objects of custom kinds.

use serde_json::{Value, json};

use super::{JSON, STRATEGIC, TestServer};
use crate::server::Effects;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
    });
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "deprecated": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn every_openapi_document_of_the_index_exists_and_has_its_schemas() {
    let lab = TestServer::new();
    lab.send("POST", DEFINITIONS, JSON, definition()).await;
    let index = lab.get("/openapi/v3").await.json();
    let paths = index["paths"].as_object().unwrap();
    assert!(paths.contains_key("api/v1") && paths.contains_key("apis/example.com/v1"));
    for entry in paths.values() {
        let url = entry["serverRelativeURL"].as_str().unwrap();
        let document = lab.get(url).await;
        assert_eq!(document.code, 200, "{url}");
        let document = document.json();
        for (path, operations) in document["paths"].as_object().unwrap() {
            for operation in operations.as_object().unwrap().values() {
                let group = &operation["x-kubernetes-group-version-kind"];
                assert!(group["kind"].is_string(), "{path}");
                let schema =
                    &operation["responses"]["200"]["content"]["application/json"]["schema"];
                if let Some(reference) = schema["$ref"].as_str() {
                    let name = reference.rsplit('/').next().unwrap();
                    assert!(document["components"]["schemas"][name].is_object(), "{path}: {name}");
                }
            }
        }
    }
    let stale = lab.get("/openapi/v3/api/v1?hash=00").await;
    assert_eq!(stale.code, 301);
    assert_eq!(lab.get("/openapi/v3/apis/nothing/v1").await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_new_custom_kind_is_served_at_once() {
    let lab = TestServer::new();
    let before = lab.get("/openapi/v3").await.text;
    assert_eq!(lab.get("/apis/example.com/v1/widgets").await.code, 404);
    assert_eq!(lab.send("POST", DEFINITIONS, JSON, definition()).await.code, 201);
    assert_ne!(lab.get("/openapi/v3").await.text, before);
    let resources = lab.get("/apis/example.com/v1").await.json();
    assert_eq!(resources["resources"][0]["shortNames"], json!(["wd"]));
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
        "spec": {"size": 1, "more": 2},
    });
    let made = lab.send("POST", "/apis/example.com/v1/widgets", JSON, &widget).await;
    assert_eq!((made.code, &made.json()["spec"]), (201, &json!({"size": 1})));
    let list = lab.get("/apis/example.com/v1/widgets").await.json();
    assert_eq!(
        (&list["kind"], &list["items"][0]["kind"]),
        (&json!("WidgetList"), &json!("Widget"))
    );
    let strict = "/apis/example.com/v1/widgets?fieldValidation=Strict&dryRun=All";
    let refused = lab.send("POST", strict, JSON, &widget).await;
    let want = "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.more\"";
    assert_eq!((refused.code, refused.message().as_str()), (400, want));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_field_validation_is_refused() {
    let lab = TestServer::new();
    let body = json!({"metadata": {"name": "n"}});
    let refused = lab.send("POST", "/api/v1/nodes?fieldValidation=Bogus", JSON, body).await;
    let want = r#"CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Bogus": supported values: "", "Ignore", "Strict", "Warn""#;
    assert_eq!((refused.code, refused.message().as_str()), (422, want));
}

#[tokio::test(start_paused = true)]
async fn errors_for_custom_kinds_differ_from_errors_for_built_in_kinds() {
    let lab = TestServer::new();
    lab.send("POST", DEFINITIONS, JSON, definition()).await;
    let widgets = "/apis/example.com/v1/widgets";
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    assert_eq!(lab.send("POST", widgets, JSON, widget).await.code, 201);
    let list = lab.get(widgets).await;
    assert_eq!(list.json()["metadata"]["continue"], "");
    let one = format!("{widgets}/w");
    for (name, method, path, content_type, code, want) in [
        (
            "an unknown subresource",
            "GET",
            format!("{one}/none"),
            "",
            404,
            r#"widgets.example.com "w" not found"#,
        ),
        (
            "a subresource of other kinds",
            "GET",
            format!("{one}/log"),
            "",
            404,
            r#"widgets.example.com "w" not found"#,
        ),
        (
            "a subresource that the definition lacks",
            "DELETE",
            format!("{one}/status"),
            "",
            404,
            r#"widgets.example.com "w" not found"#,
        ),
        (
            "an unsupported patch type",
            "PATCH",
            one.clone(),
            STRATEGIC,
            415,
            "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        ),
        (
            "protobuf",
            "POST",
            widgets.to_owned(),
            "application/vnd.kubernetes.protobuf",
            415,
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml",
        ),
    ] {
        let answer = lab.send(method, &path, content_type, "{}").await;
        assert_eq!((answer.code, answer.message().as_str()), (code, want), "{name}");
    }
    for page in [
        "/apis/example.com/v1/namespaces/x/widgets",
        "/apis/example.com/v2/widgets",
        "/apis/example.com/v1/gadgets",
        "/apis/example.com/v9",
    ] {
        assert_eq!(lab.get(page).await.text, "404 page not found\n", "{page}");
    }
    let unknown = "the server could not find the requested resource";
    for status in ["/apis/coordination.k8s.io/v9", "/api/v9", "/version/x", "/api/v1/configmaps/x"]
    {
        assert_eq!(lab.get(status).await.message(), unknown, "{status}");
    }
}

/// The expected columns and cells come from the real server (1.36.3).
#[tokio::test(start_paused = true)]
async fn tables_of_custom_kinds_have_the_columns_of_the_version() {
    let lab = TestServer::new();
    let mut definition = definition();
    let version = &mut definition["spec"]["versions"][0];
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["replicas"] =
        json!({"type": "integer"});
    version["subresources"] = json!({
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    });
    let mut other = version.clone();
    other["name"] = "v2".into();
    other["storage"] = false.into();
    version["additionalPrinterColumns"] =
        json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]);
    definition["spec"]["versions"].as_array_mut().unwrap().push(other);
    lab.send("POST", DEFINITIONS, JSON, definition).await;
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w"}, "spec": {"size": 3, "replicas": 2},
    });
    lab.send("POST", "/apis/example.com/v1/widgets", JSON, widget).await;
    let mut seen = String::new();
    for path in ["v1/widgets", "v1/widgets/w", "v2/widgets", "v1/widgets/w/scale"] {
        let request = http::Request::builder()
            .uri(format!("/apis/example.com/{path}"))
            .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
        let table = lab.ask(request.body(Default::default()).unwrap()).await.json();
        let columns = table["columnDefinitions"].as_array().unwrap();
        let names: Vec<&str> = columns.iter().map(|it| it["name"].as_str().unwrap()).collect();
        seen.push_str(&format!("{path}: {names:?} {}\n", table["rows"][0]["cells"]));
    }
    insta::assert_snapshot!(seen, @r#"
    v1/widgets: ["Name", "Size"] ["w",3]
    v1/widgets/w: ["Name", "Size"] ["w",3]
    v2/widgets: ["Name", "Age"] ["w","0s"]
    v1/widgets/w/scale: ["Name", "Desired", "Available", "Age"] ["w",2,0,"0s"]
    "#);
}

#[tokio::test(start_paused = true)]
async fn an_openapi_document_requested_with_its_hash_may_be_cached_for_a_year() {
    let lab = TestServer::new();
    let index = lab.get("/openapi/v3").await.json();
    let url = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let (path, hash) = url.split_once("?hash=").unwrap();
    let ask = async |method: &str, uri: &str, tags: &str| {
        let request = http::Request::builder().method(method).uri(uri);
        let request = request.header("if-none-match", tags).body(Default::default()).unwrap();
        let (_, reply) = lab.reply(request, &Effects::default()).await;
        let header = |name: &str| {
            let value = reply.response.headers().get(name);
            value.map(|it| it.to_str().unwrap().to_owned()).unwrap_or_default()
        };
        (reply.response.status().as_u16(), header("cache-control"), header("expires"))
    };
    let year = "Mon, 01 Mar 2027 08:00:00 UTC";
    let kept = |status: u16| (status, "public, immutable".to_owned(), year.to_owned());
    let mine = format!("\"{hash}\"");
    assert_eq!(ask("GET", &url, "").await, kept(200));
    assert_eq!(ask("GET", &url, &mine).await, kept(304));
    let fresh = |status: u16| (status, "no-cache, private".to_owned(), String::new());
    for (method, tags, status) in [
        ("GET", format!("\"a,b\", {mine}"), 304),
        ("GET", format!("W/{mine}"), 304),
        ("GET", format!("W/W/{mine}"), 200),
        ("GET", format!("\"x\"{mine}"), 304),
        ("GET", format!("x, {mine}"), 200),
        ("GET", "*".to_owned(), 304),
        ("POST", mine.clone(), 412),
    ] {
        assert_eq!(ask(method, path, &tags).await, fresh(status), "{method} {tags}");
    }
}
