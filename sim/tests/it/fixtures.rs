//! Tests that every recorded request of real clients gets an answer.
//!
//! Each group of requests goes in order to a new sim after a login. The replay replaces recorded
//! references to inventory objects by references to objects of the same type in this sim, and
//! recorded sessions and their objects by those of this session.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use http::{Method, Request, header};
use serde::Deserialize;
use sim::Sim;
use sim::world::vcenter::Password;
use sim::world::{ADMINISTRATOR, Command};

use crate::client::{Answer, COLLECTOR, Client, VIEWS};
use crate::xml::Node;

#[derive(Debug, Deserialize)]
struct Recorded {
    name: String,
    method: String,
    path: String,
    headers: Option<BTreeMap<String, String>>,
    body: Option<String>,
}

fn folder(client: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire").join(client)
}

fn recorded(client: &str) -> Vec<Recorded> {
    let text = std::fs::read_to_string(folder(client).join("requests.yaml")).expect("fixtures");
    serde_saphyr::from_str(&text).expect("a list of requests")
}

/// The names in this sim that replace recorded names.
struct Names {
    /// References by type: to objects of the inventory, and to the objects that the session created
    /// last.
    references: BTreeMap<String, String>,
    version: String,
    token: String,
    uuid: String,
    category: String,
    tag: String,
}

impl Names {
    async fn of(client: &mut Client) -> Self {
        let mut references = BTreeMap::new();
        for (kind, path) in [
            ("VirtualMachine", "DC0/vm/DC0_C0_RP0_VM0"),
            ("Datacenter", "DC0"),
            ("HostSystem", "DC0/host/DC0_C0/DC0_C0_H0"),
            ("ClusterComputeResource", "DC0/host/DC0_C0"),
            ("ResourcePool", "DC0/host/DC0_C0/Resources"),
            ("Network", "DC0/network/VM Network"),
            ("Datastore", "DC0/datastore/LocalDS_0"),
            ("Folder", "DC0/vm"),
        ] {
            let path = format!("<inventoryPath>{path}</inventoryPath>");
            let found = client.call("FindByInventoryPath", crate::client::SEARCH, &path).await;
            references.insert(kind.to_owned(), found.reference().1);
        }
        for (operation, this, arguments) in [
            ("CreatePropertyCollector", COLLECTOR, ""),
            ("CreateListView", VIEWS, ""),
            (
                "CreateContainerView",
                VIEWS,
                "<container type=\"Folder\">group-d1</container><recursive>true</recursive>",
            ),
        ] {
            let (kind, id) = client.call(operation, this, arguments).await.reference();
            references.insert(kind, id);
        }
        let machine = references["VirtualMachine"].clone();
        let machine = ("VirtualMachine", machine.as_str());
        let uuid = client.fetch(machine, "config.uuid").await.expect("a UUID").text;
        references.insert("ManagedEntity".to_owned(), machine.1.to_owned());
        let browser = format!("datastoreBrowser-{}", references["Datastore"]);
        references.insert("HostDatastoreBrowser".to_owned(), browser);
        let category = "urn:vmomi:InventoryServiceCategory:0:GLOBAL".to_owned();
        let tag = "urn:vmomi:InventoryServiceTag:0:GLOBAL".to_owned();
        let (version, token) = (String::new(), String::new());
        Self { references, version, token, uuid, category, tag }
    }

    /// Translates the text of a recorded request into the text that a client of this sim would
    /// send.
    fn translate(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        // Replaces ids in `type="Kind">id<` (with single or double quotes), except those of
        // singletons and the root folder.
        while let Some(at) = rest.find("type=") {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let end = from.find('<').unwrap_or(from.len());
            let (element, after) = from.split_at(end);
            out.push_str(&self.reference(element));
            rest = after;
        }
        out.push_str(rest);
        let out = element(&out, "version", |_| self.version.clone());
        let out = element(&out, "token", |_| self.token.clone());
        let out = element(&out, "uuid", |old| match old.to_uppercase() == old {
            true => self.uuid.to_uppercase(),
            false => self.uuid.clone(),
        });
        let out = self.references.iter().fold(out, |out, (kind, ours)| {
            replace_between(&out, &format!("\"type\":\"{kind}\",\"id\":\""), "\"", |_| ours.clone())
        });
        let ids = |text: &str, class: &str, new: &str| {
            let start = format!("urn:vmomi:{class}:");
            replace_between(text, &start, ":GLOBAL", |_| {
                new.trim_start_matches(&start).trim_end_matches(":GLOBAL").to_owned()
            })
        };
        let out = ids(&out, "InventoryServiceCategory", &self.category);
        ids(&out, "InventoryServiceTag", &self.tag)
    }

    fn reference(&self, element: &str) -> String {
        let Some((attribute, id)) = element.split_once('>') else { return element.to_owned() };
        let kind = attribute.trim_start_matches("type=").trim_matches(['"', '\'']);
        let is_ours = id.contains('-') && id != "group-d1";
        match self.references.get(kind) {
            Some(ours) if is_ours => format!("{attribute}>{ours}"),
            _ => element.to_owned(),
        }
    }

    /// Records the names of objects that the request created, and the version and token in the
    /// answer.
    fn learn(&mut self, request: &Recorded, answer: &Answer) {
        if answer.status >= 300 {
            return;
        }
        if answer.header(header::CONTENT_TYPE).contains("xml") {
            let payload = Node::parse(&answer.body).expect("well-formed");
            let payload = &payload.children[0].children[0];
            let Some(returned) = payload.child("returnval") else { return };
            let made =
                payload.name.starts_with("Create") || payload.name.ends_with("_TaskResponse");
            if let (Some(kind), true) = (returned.attribute("type"), made) {
                self.references.insert(kind.to_owned(), returned.text.clone());
            }
            for (name, known) in [("version", &mut self.version), ("token", &mut self.token)] {
                if let Some(new) = returned.child(name) {
                    known.clone_from(&new.text);
                }
            }
        } else if request.method == "POST" {
            let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
            let id = body["value"].as_str().unwrap_or_default();
            match request.path.rsplit('/').next() {
                Some("category") => self.category = id.to_owned(),
                Some("tag") => self.tag = id.to_owned(),
                _ => {}
            }
        }
    }
}

/// Replaces the text of every element of this name, unless its text is empty.
fn element(text: &str, name: &str, new: impl Fn(&str) -> String) -> String {
    replace_between(text, &format!("<{name}"), &format!("</{name}>"), |old| {
        match old.split_once('>') {
            Some((attributes, old)) if !old.is_empty() => format!("{attributes}>{}", new(old)),
            _ => old.to_owned(),
        }
    })
}

fn replace_between(text: &str, start: &str, end: &str, new: impl Fn(&str) -> String) -> String {
    let mut parts = text.split(start);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(end) {
            Some((old, rest)) => write!(out, "{start}{}{end}{rest}", new(old)).expect("a string"),
            None => write!(out, "{start}{part}").expect("a string"),
        }
    }
    out
}

/// Sends a recorded request with the names and the session of this sim.
async fn replay(
    client: &mut Client,
    names: &Names,
    vapi: &str,
    fixtures: &str,
    recorded: &Recorded,
) -> Answer {
    let body = match &recorded.body {
        Some(file) => std::fs::read_to_string(folder(fixtures).join(file)).expect("a body"),
        None => String::new(),
    };
    let path = names.translate(&recorded.path);
    let mut request = Request::builder().method(recorded.method.as_str()).uri(&path);
    for (name, value) in recorded.headers.iter().flatten() {
        let value = match (name.to_lowercase().as_str(), &client.cookie) {
            // The session cookie gets the token of this session; the other pairs stay as recorded.
            ("cookie", Some(cookie)) => {
                let token = cookie.split('=').nth(1).unwrap_or_default().trim_matches('"');
                value
                    .split(';')
                    .map(|pair| match pair.split_once('=') {
                        Some((name, old)) if name.trim() == "vmware_soap_session" => {
                            let quote = if old.starts_with('"') { "\"" } else { "" };
                            format!("{name}={quote}{token}{quote}")
                        }
                        _ => pair.to_owned(),
                    })
                    .collect::<Vec<_>>()
                    .join(";")
            }
            ("vmware-api-session-id", _) => vapi.to_owned(),
            ("transfer-encoding", _) => continue,
            _ => value.clone(),
        };
        request = request.header(name, value);
    }
    client.send(request.body(names.translate(&body).into()).expect("the request is valid")).await
}

/// Summarizes an answer in a few words, such as `200 LoginResponse: an object` or
/// `500 InvalidLogin`.
fn outline(answer: &Answer) -> String {
    let status = answer.status;
    if !answer.header(header::CONTENT_TYPE).contains("xml") {
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
        return match &body {
            serde_json::Value::Null => format!("{status}"),
            body if status >= 400 => format!("{status} {}", body["type"]),
            body => match &body["value"] {
                serde_json::Value::Array(list) => format!("{status} list of {}", list.len()),
                serde_json::Value::Object(map) => {
                    let keys: Vec<&str> = map.keys().map(String::as_str).collect();
                    format!("{status} {{{}}}", keys.join(", "))
                }
                serde_json::Value::String(_) => format!("{status} text"),
                other => format!("{status} {other}"),
            },
        };
    }
    if answer.body.contains("<namespaces") {
        return format!("{status} namespaces");
    }
    if let Some(fault) = answer.fault() {
        return format!("{status} {fault}");
    }
    let payload = answer.payload();
    let returned: Vec<&Node> = payload.all("returnval").collect();
    let what = match returned.as_slice() {
        [] => "nothing".to_owned(),
        [one] if one.attribute("type").is_some() => {
            one.attribute("type").unwrap_or_default().to_owned()
        }
        [one] if one.children.is_empty() => "a value".to_owned(),
        [one] => {
            let objects: usize = one.all("objects").count()
                + one.all("filterSet").map(|set| set.all("objectSet").count()).sum::<usize>();
            let properties: usize = one.all("objects").map(|it| it.all("propSet").count()).sum();
            match objects {
                0 => "an object".to_owned(),
                n => format!("{n} objects, {properties} properties"),
            }
        }
        many => format!("{} values", many.len()),
    };
    format!("{status} {}: {what}", payload.name)
}

async fn replay_all(fixtures: &str) -> String {
    let mut out = String::new();
    let mut group = String::new();
    let mut lab: Option<(Sim, Client, Names, String)> = None;
    for request in recorded(fixtures) {
        let of = request.name.split('/').next().unwrap_or_default().to_owned();
        // govmomi's requests that create tags and those that use them form one group. The fixtures
        // of each other client are one group.
        let of = of.split('.').next().unwrap_or_default().to_owned();
        let of = if fixtures == "govmomi" { of } else { fixtures.to_owned() };
        if of != group || lab.is_none() {
            let sim = Sim::builder().start();
            let password = if fixtures == "java" { "p&ss<word>!" } else { "secret" };
            sim.apply(Command::RotatePassword {
                vcenter: None,
                user: ADMINISTRATOR.to_owned(),
                password: Password::new(password),
            })
            .expect("the administrator has an account");
            let mut client = Client::logged_in(&sim).await;
            let names = Names::of(&mut client).await;
            let vapi = rest_session(&sim, &mut client).await;
            lab = Some((sim, client, names, vapi));
            group = of;
        }
        let (sim, client, names, vapi) = lab.as_mut().expect("the group has a sim");
        let answer = replay(client, names, vapi, fixtures, &request).await;
        names.learn(&request, &answer);
        let outline = outline(&answer);
        writeln!(out, "{:<58} {outline}", request.name).expect("a string");
        // A recorded login may open another session, which has no objects yet.
        if request.name.ends_with("Login") && answer.status == 200 {
            *names = Names::of(client).await;
        }
        // After a recorded logout the next request needs a session again.
        if request.name.ends_with("Logout") {
            client.cookie = None;
            client.login(sim).await;
        }
        if request.name.contains("DELETE-session") {
            *vapi = rest_session(sim, client).await;
        }
    }
    out
}

async fn rest_session(sim: &Sim, client: &mut Client) -> String {
    use base64::Engine as _;
    let password = sim.password("vc0", ADMINISTRATOR).expect("the administrator has an account");
    let basic = base64::engine::general_purpose::STANDARD
        .encode(format!("{ADMINISTRATOR}:{}", password.expose()));
    let basic = format!("Basic {basic}");
    let headers = [("authorization", basic.as_str())];
    let answer = client.rest(Method::POST, "/rest/com/vmware/cis/session", &headers, "").await;
    let body: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
    body["value"].as_str().expect("a token").to_owned()
}

#[tokio::test(start_paused = true)]
async fn every_request_of_govmomi_is_answered() {
    let out = replay_all("govmomi").await;
    insta::assert_snapshot!(out);
    assert!(!out.contains("InvalidRequest"), "{out}");
}

#[tokio::test(start_paused = true)]
async fn every_request_of_pyvmomi_is_answered() {
    let out = replay_all("pyvmomi").await;
    insta::assert_snapshot!(out);
    assert!(!out.contains("InvalidRequest"), "{out}");
}

#[tokio::test(start_paused = true)]
async fn every_request_in_the_style_of_java_is_answered() {
    let out = replay_all("java").await;
    insta::assert_snapshot!(out);
    assert!(!out.contains("InvalidRequest"), "{out}");
}
