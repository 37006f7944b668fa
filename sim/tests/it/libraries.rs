//! Tests of the content libraries of a vCenter over the wire, in both dialects of vAPI.

mod deployments;

use base64::Engine as _;
use http::Method;
use serde_json::{Value, json};
use sim::Sim;
use sim::world::{ADMINISTRATOR, Command, Grant, ItemName, PROVIDER_USER};

use crate::client::{Client, machines};

const LIBRARIES: [&str; 2] = ["/rest/com/vmware/content/library", "/api/content/library"];
const TEMPLATES: [&str; 2] =
    ["/rest/vcenter/vm-template/library-items", "/api/vcenter/vm-template/library-items"];

/// A client with a vAPI session.
struct Rest {
    client: Client,
    session: String,
}

impl Rest {
    async fn new(sim: &Sim, user: &str) -> Self {
        let mut client = Client::new(sim);
        let password = sim.password("vc0", user).expect("the sim has it");
        let pair = format!("{user}:{}", password.expose());
        let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair));
        let headers = [("authorization", basic.as_str())];
        let answer = client.rest(Method::POST, "/rest/com/vmware/cis/session", &headers, "").await;
        let body: Value = serde_json::from_str(&answer.body).expect("the sim has it");
        Self { client, session: body["value"].as_str().expect("the sim has it").to_owned() }
    }

    /// Sends a request, and returns status and body.
    async fn send(&mut self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let headers = [
            ("vmware-api-session-id", self.session.as_str()),
            ("content-type", "application/json"),
        ];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.client.rest(method, path, &headers, &body).await;
        (answer.status, serde_json::from_str(&answer.body).expect("the sim has it"))
    }

    /// Returns the result of a GET in the dialect of the path.
    async fn get(&mut self, path: &str) -> Value {
        let (status, body) = self.send(Method::GET, path, &Value::Null).await;
        assert_eq!(status, 200, "{path}: {body}");
        value(path, body)
    }

    /// Sends a specification in the dialect of the path, and returns status and body.
    async fn post(&mut self, path: &str, spec: Value) -> (u16, Value) {
        let body = if path.starts_with("/rest") { json!({ "spec": spec }) } else { spec };
        self.send(Method::POST, path, &body).await
    }

    /// Returns the ids that a search finds.
    async fn find(&mut self, path: &str, spec: Value) -> Vec<String> {
        let (status, body) = self.post(path, spec).await;
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_value(value(path, body)).expect("the sim has it")
    }

    /// Returns status, type and text of the error of a GET.
    async fn error(&mut self, path: &str) -> (u16, String, String) {
        let (status, body) = self.send(Method::GET, path, &Value::Null).await;
        (status, kind(&body), text(&body))
    }

    /// Returns the ids of the library `images` and of its item of this name.
    async fn ids(&mut self, item: &str) -> (String, String) {
        let [library] = &self
            .find(&format!("{}?~action=find", LIBRARIES[0]), json!({"name": "images"}))
            .await[..]
        else {
            panic!("one library")
        };
        let spec = json!({"name": item, "library_id": library});
        let items = self.find(&format!("{}/item?~action=find", LIBRARIES[0]), spec).await;
        (library.clone(), items[0].clone())
    }
}

fn value(path: &str, body: Value) -> Value {
    if path.starts_with("/rest") { body["value"].clone() } else { body }
}

/// Returns the type of an error, in the form of `/api`.
fn kind(body: &Value) -> String {
    let kind = body["error_type"].as_str().or_else(|| body["type"].as_str()).unwrap_or_default();
    kind.rsplit('.').next().unwrap_or_default().to_uppercase()
}

fn text(body: &Value) -> String {
    let messages = body.pointer("/value/messages").unwrap_or(&body["messages"]);
    messages[0]["default_message"].as_str().unwrap_or_default().to_owned()
}

fn add(sim: &Sim, name: &str, kind: &str, template: Option<&str>) {
    let item = ItemName { vcenter: None, library: "images".into(), name: name.into() };
    let template = template.map(str::to_owned);
    sim.apply(Command::AddLibraryItem { item, kind: kind.into(), template })
        .expect("the sim has it");
}

/// Starts a sim whose library `images` has a template, an ISO and an item without template.
fn lab() -> Sim {
    let sim = machines(2);
    sim.apply(Command::PowerOff("node-0001".into())).expect("the sim has it");
    sim.apply(Command::CreateLibrary { vcenter: None, name: "images".into() })
        .expect("the sim has it");
    add(&sim, "ubuntu", "vm-template", Some("node-0001"));
    add(&sim, "empty", "vm-template", None);
    add(&sim, "installer", "iso", None);
    sim
}

fn revoke(sim: &Sim, object: &str) {
    let (vcenter, user) = (None, PROVIDER_USER.to_owned());
    let grant = Grant { vcenter, user, object: object.to_owned() };
    sim.apply(Command::RevokePrivilege(grant)).expect("the sim has it");
}

#[tokio::test(start_paused = true)]
async fn libraries_and_items_are_listed_found_and_described_in_both_dialects() {
    let sim = lab();
    sim.apply(Command::CreateLibrary { vcenter: None, name: "other".into() }).unwrap();
    let mut rest = Rest::new(&sim, PROVIDER_USER).await;
    let (library, ubuntu) = rest.ids("ubuntu").await;
    for (base, action) in LIBRARIES.into_iter().zip(["~action", "action"]) {
        assert_eq!(rest.get(base).await.as_array().unwrap().len(), 2);
        let find = format!("{base}?{action}=find");
        assert_eq!(
            rest.find(&find, json!({"name": "IMAGES"})).await,
            std::slice::from_ref(&library)
        );
        assert_eq!(rest.find(&find, json!({"type": "LOCAL"})).await.len(), 2);
        assert_eq!(rest.find(&find, json!({"name": "none"})).await, Vec::<String>::new());
        let id = if base.starts_with("/rest") { "id:" } else { "" };
        let shown = rest.get(&format!("{base}/{id}{library}")).await;
        assert_eq!((&shown["id"], &shown["name"]), (&json!(library), &json!("images")));
        assert_eq!(shown["storage_backings"][0]["type"], "DATASTORE");

        let items = format!("{base}/item");
        let listed = rest.get(&format!("{items}?library_id={library}")).await;
        assert_eq!(listed.as_array().unwrap().len(), 3);
        let find = format!("{items}?{action}=find");
        let spec = json!({"name": "Ubuntu", "library_id": library});
        assert_eq!(rest.find(&find, spec).await, std::slice::from_ref(&ubuntu));
        assert_eq!(rest.find(&find, json!({"type": "iso"})).await.len(), 1);
        let shown = rest.get(&format!("{items}/{id}{ubuntu}")).await;
        assert_eq!(
            (&shown["name"], &shown["type"], &shown["library_id"], &shown["version"]),
            (&json!("ubuntu"), &json!("vm-template"), &json!(library), &json!("1"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_shows_its_template_and_other_items_show_none() {
    let sim = lab();
    let mut rest = Rest::new(&sim, PROVIDER_USER).await;
    let (_, ubuntu) = rest.ids("ubuntu").await;
    for base in TEMPLATES {
        let info = rest.get(&format!("{base}/{ubuntu}")).await;
        assert!(info["vm_template"].as_str().unwrap().starts_with("vm-"), "{info}");
        assert_eq!(
            (&info["cpu"]["count"], &info["memory"]["size_MiB"], &info["guest_OS"]),
            (&json!(4), &json!(8192), &json!("UBUNTU_64"))
        );
        let is_list = base.starts_with("/rest");
        assert_eq!((info["disks"].is_array(), info["nics"].is_object()), (is_list, !is_list));
    }
    for name in ["empty", "installer"] {
        let (_, item) = rest.ids(name).await;
        for (base, unset) in TEMPLATES.into_iter().zip([json!({}), Value::Null]) {
            let (status, body) =
                rest.send(Method::GET, &format!("{base}/{item}"), &Value::Null).await;
            assert_eq!((status, body), (200, unset), "{name}");
        }
    }
    sim.apply(Command::Inaccessible("node-0001".into())).unwrap();
    let (status, kind, _) = rest.error(&format!("{}/{ubuntu}", TEMPLATES[1])).await;
    assert_eq!((status, &*kind), (500, "RESOURCE_INACCESSIBLE"));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_request_is_refused_by_name() {
    let sim = lab();
    let mut rest = Rest::new(&sim, PROVIDER_USER).await;
    for base in LIBRARIES.into_iter().flat_map(|it| [it.to_owned(), format!("{it}/item")]) {
        let error = rest.error(&format!("{base}/none")).await;
        let wanted = "no content library or library item has the id 'none'";
        assert_eq!((error.0, &*error.1, &*error.2), (404, "NOT_FOUND", wanted), "{base}");
        let (status, body) = rest.post(&format!("{base}?action=find"), json!({})).await;
        assert_eq!((status, kind(&body)), (400, "INVALID_ARGUMENT".to_owned()), "{base}");
    }
    for base in TEMPLATES {
        assert_eq!(rest.error(&format!("{base}/none")).await.0, 404);
        assert_eq!(rest.error(&format!("{base}/none/versions")).await.1, "OPERATION_NOT_FOUND");
    }
    let (status, _, text) = rest.error("/api/content/library/item").await;
    assert_eq!((status, &*text), (400, "the query has no library_id"));
    let mut anonymous = Rest { client: Client::new(&sim), session: "none".to_owned() };
    assert_eq!(anonymous.error("/api/content/library").await.0, 401);
}

#[tokio::test(start_paused = true)]
async fn a_library_without_privileges_is_left_out_of_lists_and_its_items_answer_403() {
    let sim = lab();
    let mut rest = Rest::new(&sim, PROVIDER_USER).await;
    let (library, ubuntu) = rest.ids("ubuntu").await;
    revoke(&sim, "images");
    let find = format!("{}?~action=find", LIBRARIES[0]);
    assert_eq!(rest.find(&find, json!({"name": "images"})).await, Vec::<String>::new());
    assert_eq!(rest.get(LIBRARIES[1]).await, json!([]));
    for path in [
        format!("/api/content/library/{library}"),
        format!("/rest/com/vmware/content/library/id:{library}"),
        format!("/api/content/library/item?library_id={library}"),
        format!("/api/content/library/item/{ubuntu}"),
        format!("/rest/vcenter/vm-template/library-items/{ubuntu}"),
        format!("/api/vcenter/vm-template/library-items/{ubuntu}"),
    ] {
        let (status, kind, text) = rest.error(&path).await;
        let wanted = (403, "UNAUTHORIZED", "Unable to authorize user");
        assert_eq!((status, &*kind, &*text), wanted, "{path}");
    }
    let mut administrator = Rest::new(&sim, ADMINISTRATOR).await;
    assert_eq!(administrator.get(LIBRARIES[1]).await, json!([library]));
}

#[tokio::test(start_paused = true)]
async fn the_ledger_names_the_operation_and_the_item_of_a_call() {
    let sim = lab();
    let mut rest = Rest::new(&sim, PROVIDER_USER).await;
    let (_, ubuntu) = rest.ids("ubuntu").await;
    rest.get(&format!("{}/{ubuntu}", TEMPLATES[1])).await;
    let records = sim.ledger().records();
    let calls: Vec<_> =
        records.iter().map(|it| (it.op.to_string(), it.target.name.clone())).collect();
    let call = |op: &str, name: Option<&str>| (op.to_owned(), name.map(str::to_owned));
    assert_eq!(
        calls[calls.len() - 3..],
        [
            call("content.library.find", None),
            call("content.library.item.find", None),
            call("vcenter.vm-template.library-items.get", Some("ubuntu")),
        ]
    );
}
