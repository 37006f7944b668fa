//! Snapshots of vAPI calls for sessions and tagging, each in both REST dialects (`/rest` and
//! `/api`).

use http::Method;
use serde_json::{Value, json};
use sim::Sim;

use super::{Snapshots, basic, lab, rest_login};
use crate::client::{Answer, Client, SEARCH};

pub(super) async fn rest_in_both_dialects(shots: &mut Snapshots) {
    let sim = lab();
    let mut client = Client::new(&sim);
    let basic = basic(&sim);
    let cluster = client_cluster(&sim).await;
    let object_id =
        format!("{{\"object_id\":{{\"type\":\"ClusterComputeResource\",\"id\":\"{cluster}\"}}}}");
    for (dialect, session, tagging, action) in [
        ("rest", "/rest/com/vmware/cis/session", "/rest/com/vmware/cis/tagging", "~action"),
        ("api", "/api/session", "/api/cis/tagging", "action"),
    ] {
        let mut shot = |name: &str, answer: &Answer| {
            shots.take(&sim, &format!("{dialect}_{name}"), answer);
        };
        let headers = [("authorization", basic.as_str())];
        let answer = client.rest(Method::POST, session, &headers, "").await;
        shot("login", &answer);
        let body: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        let token = body["value"].as_str().or(body.as_str()).expect("a token").to_owned();
        let headers =
            [("vmware-api-session-id", token.as_str()), ("content-type", "application/json")];
        shot("session", &client.rest(Method::GET, session, &headers, "").await);
        let attached = format!("{tagging}/tag-association?{action}=list-attached-tags");
        let answer = client.rest(Method::POST, &attached, &headers, &object_id).await;
        shot("attached", &answer);
        let body: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        let list = body.get("value").unwrap_or(&body);
        let tag = list[0].as_str().expect("a zone").to_owned();
        let prefix = if dialect == "rest" { "id:" } else { "" };
        let answer =
            client.rest(Method::GET, &format!("{tagging}/tag/{prefix}{tag}"), &headers, "").await;
        shot("tag", &answer);
        let body: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        let category =
            body.get("value").unwrap_or(&body)["category_id"].as_str().expect("an id").to_owned();
        let answer = client
            .rest(Method::GET, &format!("{tagging}/category/{prefix}{category}"), &headers, "")
            .await;
        shot("category", &answer);
        let nowhere = format!("{tagging}/tag/{prefix}urn:vmomi:InventoryServiceTag:0:GLOBAL");
        shot("error_not_found", &client.rest(Method::GET, &nowhere, &headers, "").await);
        let tags = format!("{tagging}/tag");
        shot("error_no_session", &client.rest(Method::GET, &tags, &[], "").await);
        shot("error_bad_json", &client.rest(Method::POST, &tags, &headers, "{").await);
        shot("logout", &client.rest(Method::DELETE, session, &headers, "").await);
        let wrong = [("authorization", "Basic Zm9vOmJhcg==")];
        shot("error_login", &client.rest(Method::POST, session, &wrong, "").await);
    }
}

async fn client_cluster(sim: &Sim) -> String {
    let mut client = Client::logged_in(sim).await;
    let path = "<inventoryPath>DC0/host/DC0_C0</inventoryPath>";
    client.call("FindByInventoryPath", SEARCH, path).await.reference().1
}

/// A client with a vAPI session, for tagging calls in one of the two REST dialects.
struct Dialect<'a> {
    name: &'static str,
    tagging: &'static str,
    sim: &'a Sim,
    client: Client,
    token: String,
}

impl Dialect<'_> {
    fn is_rest(&self) -> bool {
        self.name == "rest"
    }

    /// A create or update specification as a body: in the field `name` for `/rest`, bare for
    /// `/api`.
    fn spec(&self, name: &str, spec: Value) -> Value {
        if self.is_rest() { json!({ name: spec }) } else { spec }
    }

    /// Path of a call in this dialect, such as `/{service}/{id}?action={action}` after the prefix.
    fn path(&self, service: &str, id: Option<&str>, action: Option<&str>) -> String {
        let (prefix, query) = if self.is_rest() { ("id:", "?~action=") } else { ("", "?action=") };
        let id = id.map(|id| format!("/{prefix}{id}")).unwrap_or_default();
        let action = action.map(|action| format!("{query}{action}")).unwrap_or_default();
        format!("{}/{service}{id}{action}", self.tagging)
    }

    async fn call(
        &mut self,
        shots: &mut Snapshots,
        name: &str,
        (method, path): (Method, String),
        body: Option<Value>,
    ) -> Value {
        let headers =
            [("vmware-api-session-id", self.token.as_str()), ("content-type", "application/json")];
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let answer = self.client.rest(method, &path, &headers, &body).await;
        shots.take(self.sim, &format!("{}_{name}", self.name), &answer);
        let value: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        value.get("value").cloned().unwrap_or(value)
    }
}

pub(super) async fn tagging_in_both_dialects(shots: &mut Snapshots) {
    for (name, tagging) in [("rest", "/rest/com/vmware/cis/tagging"), ("api", "/api/cis/tagging")] {
        let sim = lab();
        let mut client = Client::logged_in(&sim).await;
        let (one, two) = (client.machine("node-0001").await, client.machine("node-0002").await);
        let token = rest_login(&sim, &mut client).await;
        let mut via = Dialect { name, tagging, sim: &sim, client, token };
        tagging_calls(shots, &mut via, &one, &two).await;
    }
}

async fn tagging_calls(shots: &mut Snapshots, via: &mut Dialect<'_>, one: &str, two: &str) {
    const ASSOCIATION: &str = "tag-association";
    let machine = |id: &str| json!({ "type": "VirtualMachine", "id": id });
    let text = |value: &Value| value.as_str().expect("an id").to_owned();
    let post = |path: String| (Method::POST, path);
    let get = |path: String| (Method::GET, path);

    let spec = json!({ "name": "stage", "description": "", "cardinality": "MULTIPLE",
        "associable_types": ["VirtualMachine"] });
    let spec = via.spec("create_spec", spec);
    let path = via.path("category", None, None);
    let made = via.call(shots, "category_create", post(path.clone()), Some(spec.clone())).await;
    let category = text(&made);
    via.call(shots, "error_already_exists", post(path.clone()), Some(spec)).await;
    via.call(shots, "category_list", get(path), None).await;
    let of_category = via.path("category", Some(&category), None);
    let update = via.spec("update_spec", json!({ "description": "where it stands" }));
    via.call(shots, "category_update", (Method::PATCH, of_category.clone()), Some(update)).await;
    via.call(shots, "category_get", get(of_category.clone()), None).await;

    let mut tags = Vec::new();
    for name in ["blue", "green"] {
        let spec = json!({ "name": name, "description": "", "category_id": category });
        let spec = via.spec("create_spec", spec);
        let path = via.path("tag", None, None);
        let made = via.call(shots, &format!("tag_create_{name}"), post(path), Some(spec)).await;
        tags.push(text(&made));
    }
    let (blue, green) = (tags[0].clone(), tags[1].clone());
    let path = via.path("tag", None, None);
    via.call(shots, "tag_list", get(path), None).await;
    let of_tag = via.path("tag", Some(&blue), None);
    let update = via.spec("update_spec", json!({ "description": "like the sky" }));
    via.call(shots, "tag_update", (Method::PATCH, of_tag.clone()), Some(update)).await;
    via.call(shots, "tag_get", get(of_tag.clone()), None).await;
    let (id, body) = match via.is_rest() {
        true => (Some(category.as_str()), None),
        false => (None, Some(json!({ "category_id": category }))),
    };
    let path = via.path("tag", id, Some("list-tags-for-category"));
    via.call(shots, "tags_for_category", post(path), body).await;

    let of = |via: &Dialect<'_>, tag: Option<&str>, action: &str| {
        (Method::POST, via.path(ASSOCIATION, tag, Some(action)))
    };
    let first = json!({ "object_id": machine(one) });
    let tags = json!({ "object_id": machine(one), "tag_ids": [blue, green] });
    let both = json!({ "object_ids": [machine(one), machine(two)] });
    let unknown = json!({ "object_id": machine("vm-9999") });
    let some = json!({ "object_id": machine(one), "tag_ids": [blue, "urn:none"] });
    let by_tag = json!({ "tag_ids": [blue, green] });
    for (name, tag, action, body) in [
        ("attach", Some(&blue), "attach", &first),
        ("attach_to_many", Some(&blue), "attach-tag-to-multiple-objects", &both),
        ("attach_many", None, "attach-multiple-tags-to-object", &tags),
        ("attach_some", None, "attach-multiple-tags-to-object", &some),
        ("attached_tags", None, "list-attached-tags", &first),
        ("attached_objects", Some(&blue), "list-attached-objects", &Value::Null),
        ("attached_tags_on_objects", None, "list-attached-tags-on-objects", &both),
        ("attached_objects_on_tags", None, "list-attached-objects-on-tags", &by_tag),
        ("error_no_such_object", Some(&blue), "attach", &unknown),
        ("error_no_body", Some(&blue), "attach", &Value::Null),
        ("error_no_such_action", Some(&blue), "adorn", &first),
        ("detach", Some(&blue), "detach", &first),
        ("detach_many", None, "detach-multiple-tags-from-object", &tags),
    ] {
        let call = of(via, tag.map(String::as_str), action);
        via.call(shots, name, call, (!body.is_null()).then(|| body.clone())).await;
    }

    via.call(shots, "tag_delete", (Method::DELETE, of_tag.clone()), None).await;
    via.call(shots, "error_tag_gone", get(of_tag), None).await;
    via.call(shots, "category_delete", (Method::DELETE, of_category.clone()), None).await;
    via.call(shots, "error_category_gone", get(of_category), None).await;
    let path = via.path("tag", None, None);
    let headers =
        [("vmware-api-session-id", via.token.clone()), ("content-type", "text/plain".into())];
    let headers: Vec<(&str, &str)> =
        headers.iter().map(|(name, it)| (*name, it.as_str())).collect();
    let answer = via.client.rest(Method::POST, &path, &headers, "name=x").await;
    shots.take(via.sim, &format!("{}_error_media_type", via.name), &answer);
}
