//! Snapshots of vAPI calls for content libraries, each in both REST dialects.

use http::Method;
use serde_json::{Value, json};
use sim::world::{Command, ItemName};

use super::{Snapshots, lab, rest_login};
use crate::client::Client;

pub(super) async fn libraries_in_both_dialects(shots: &mut Snapshots) {
    for dialect in ["rest", "api"] {
        let sim = lab();
        sim.apply(Command::PowerOff("node-0001".into())).expect("the sim has it");
        sim.apply(Command::CreateLibrary { vcenter: None, name: "images".into() })
            .expect("the sim has it");
        let item = ItemName { vcenter: None, library: "images".into(), name: "ubuntu".into() };
        let (kind, template) = ("vm-template".into(), Some("node-0001".into()));
        sim.apply(Command::AddLibraryItem { item, kind, template }).expect("the sim has it");
        let mut client = Client::logged_in(&sim).await;
        let token = rest_login(&sim, &mut client).await;
        let mut call = async |name: &str, method: Method, path: String, spec: Option<Value>| {
            let is_rest = dialect == "rest";
            let headers =
                [("vmware-api-session-id", token.as_str()), ("content-type", "application/json")];
            let body = spec.map(|spec| if is_rest { json!({ "spec": spec }) } else { spec });
            let body = body.map(|body| body.to_string()).unwrap_or_default();
            let answer = client.rest(method, &path, &headers, &body).await;
            shots.take(&sim, &format!("{dialect}_{name}"), &answer);
            let value: Value = serde_json::from_str(&answer.body).expect("JSON");
            let value = value.get("value").cloned().unwrap_or(value);
            value[0].as_str().unwrap_or_default().to_owned()
        };
        let (get, post) = (Method::GET, Method::POST);
        let (library, templates) = match dialect {
            "rest" => {
                ("/rest/com/vmware/content/library", "/rest/vcenter/vm-template/library-items")
            }
            _ => ("/api/content/library", "/api/vcenter/vm-template/library-items"),
        };
        let id = call("library_list", get.clone(), library.to_owned(), None).await;
        let find = format!("{library}?action=find");
        call("library_find", post.clone(), find, Some(json!({ "name": "images" }))).await;
        call("library_get", get.clone(), format!("{library}/{id}"), None).await;
        let list = format!("{library}/item?library_id={id}");
        let item = call("item_list", get.clone(), list, None).await;
        let find = format!("{library}/item?action=find");
        let spec = json!({ "library_id": id, "name": "ubuntu" });
        call("item_find", post.clone(), find, Some(spec)).await;
        call("item_get", get.clone(), format!("{library}/item/{item}"), None).await;
        call("template_get", get.clone(), format!("{templates}/{item}"), None).await;
        let spec = json!({ "name": "new", "placement": { "cluster": "domain-c9" } });
        let deploy = format!("{templates}/{item}?action=deploy");
        call("template_deploy", post, deploy, Some(spec)).await;
        call("error_no_library", get, format!("{library}/none"), None).await;
    }
}
