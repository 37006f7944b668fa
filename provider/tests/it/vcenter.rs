//! A small fake vCenter: one login, one list view, one filter, and machines with properties as XML.
//! It counts calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fmt::Write as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use provider::{Transport, from_service};
use provider_vcenter::xml::{self, Element};
use tokio::sync::Notify;

/// A machine of the fake; values without a field are constants.
#[derive(Clone, Debug)]
pub(crate) struct Vm {
    pub(crate) uuid: String,
    pub(crate) name: String,
    pub(crate) address: Option<String>,
    pub(crate) power: &'static str,
    pub(crate) datacenter: &'static str,
    version: u64,
}

#[derive(Debug, Default)]
struct State {
    vms: BTreeMap<String, Vm>,
    hidden: BTreeSet<String>,
    changes: u64,
    logins: u64,
    session: Option<String>,
    view: BTreeSet<String>,
    has_filter: bool,
    delivered: BTreeMap<String, u64>,
    calls: Vec<String>,
    zone_tags: bool,
    /// True if the root folder contains itself.
    in_a_circle: bool,
    /// True if the fake reports the guest properties as unreadable.
    guests_torn: bool,
    /// Faults by operation, each with the number of further calls that fail with it.
    faults: BTreeMap<&'static str, (&'static str, u32)>,
    /// Time after which answers and faults of an operation arrive, by operation.
    delays: BTreeMap<&'static str, Duration>,
    /// Operations that get status 503, each with its `Retry-After` in seconds.
    busy: BTreeMap<&'static str, u32>,
    /// True if the fake never answers.
    black_hole: bool,
    instance: String,
    /// Names of all datacenters, by id.
    datacenters: BTreeMap<&'static str, &'static str>,
    /// Id of the folder or datacenter that the inventory view covers.
    container: String,
    /// Instant of the last use of the session.
    used_at: Option<tokio::time::Instant>,
    /// Number of calls in progress.
    n_serving: u32,
    password: String,
}

/// Time after which the fake ends an unused session, as a real vCenter does.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// The fake vCenter.
#[derive(Clone, Debug)]
pub(crate) struct Vcenter {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

impl Vcenter {
    pub(crate) fn new() -> Self {
        let state = State {
            instance: "i-1".to_owned(),
            datacenters: [("datacenter-1", "DC0")].into(),
            password: "secret".to_owned(),
            ..State::default()
        };
        Self { state: Arc::new(Mutex::new(state)), changed: Arc::new(Notify::new()) }
    }

    pub(crate) fn with_zones(self) -> Self {
        self.state.lock().unwrap().zone_tags = true;
        self
    }

    /// Changes the password of the account; sessions stay valid.
    pub(crate) fn set_password(&self, password: &str) {
        self.change(|state| state.password = password.to_owned());
    }

    pub(crate) fn add_datacenter(&self, id: &'static str, name: &'static str) {
        self.change(|state| state.datacenters.insert(id, name));
    }

    /// Sets an instance UUID that is a valid UUID; the default is not one.
    pub(crate) fn with_identity(self) -> Self {
        self.state.lock().unwrap().instance = "dbed6e0c-bd88-4ef6-b594-21283e1c677f".to_owned();
        self
    }

    /// Sets this instance UUID.
    pub(crate) fn called(self, instance: &str) -> Self {
        self.state.lock().unwrap().instance = instance.to_owned();
        self
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap());
        self.changed.notify_waiters();
        result
    }

    pub(crate) fn add(&self, id: &str, uuid: &str, name: &str, address: Option<&str>) {
        self.change(|state| {
            state.changes += 1;
            let vm = Vm {
                uuid: uuid.to_owned(),
                name: name.to_owned(),
                address: address.map(str::to_owned),
                power: "poweredOn",
                datacenter: "datacenter-1",
                version: state.changes,
            };
            state.vms.insert(id.to_owned(), vm);
        });
    }

    pub(crate) fn edit(&self, id: &str, edit: impl FnOnce(&mut Vm)) {
        self.change(|state| {
            state.changes += 1;
            let version = state.changes;
            let vm = state.vms.get_mut(id).unwrap();
            edit(vm);
            vm.version = version;
        });
    }

    pub(crate) fn remove(&self, id: &str) {
        self.change(|state| state.vms.remove(id));
    }

    pub(crate) fn hide(&self, id: &str) {
        self.change(|state| state.hidden.insert(id.to_owned()));
    }

    /// Makes guest properties unreadable, or readable again; the fake sends no update about the
    /// change.
    pub(crate) fn tear_guests(&self, torn: bool) {
        self.change(|state| state.guests_torn = torn);
    }

    /// Makes the root folder contain itself.
    pub(crate) fn go_in_a_circle(&self) {
        self.change(|state| state.in_a_circle = true);
    }

    /// Ends the session as an administrator or a restart would.
    pub(crate) fn end_session(&self) {
        self.change(|state| {
            state.session = None;
            state.has_filter = false;
            state.view.clear();
        });
    }

    pub(crate) fn show(&self, id: &str) {
        self.change(|state| state.hidden.remove(id));
    }

    /// Returns the operations of the calls since the start or since the last take, in order.
    pub(crate) fn take_transcript(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().calls)
    }

    /// Lets the next `times` calls of an operation fail with this fault.
    pub(crate) fn fault(&self, operation: &'static str, fault: &'static str, times: u32) {
        self.change(|state| state.faults.insert(operation, (fault, times)));
    }

    /// Lets each later answer or fault of an operation arrive after `delay`; the answer shows the
    /// state before the delay.
    pub(crate) fn delay(&self, operation: &'static str, delay: Duration) {
        self.change(|state| state.delays.insert(operation, delay));
    }

    /// Refuses all later calls of an operation with status 503 and this `Retry-After` in seconds,
    /// as a proxy in front of the vCenter does.
    pub(crate) fn set_busy(&self, operation: &'static str, retry_after: u32) {
        self.change(|state| state.busy.insert(operation, retry_after));
    }

    pub(crate) fn black_hole(&self, on: bool) {
        self.change(|state| state.black_hole = on);
    }

    /// Ends the session and sets another instance UUID, as if another vCenter answered at the
    /// address.
    pub(crate) fn become_another(&self) {
        self.end_session();
        self.change(|state| state.instance = "i-2".to_owned());
    }

    /// Returns the number of calls since the last take, by operation.
    pub(crate) fn take_calls(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for call in std::mem::take(&mut self.state.lock().unwrap().calls) {
            *counts.entry(call).or_insert(0) += 1;
        }
        counts
    }

    pub(crate) fn has_session(&self) -> bool {
        self.state.lock().unwrap().session.is_some()
    }

    pub(crate) fn transport(&self) -> Transport {
        let this = self.clone();
        from_service(tower::service_fn(move |request: Request<Full<Bytes>>| {
            let this = this.clone();
            async move { Ok::<_, Infallible>(this.serve(request).await) }
        }))
    }

    pub(crate) async fn serve(&self, request: Request<Full<Bytes>>) -> Response<Full<Bytes>> {
        if self.state.lock().unwrap().black_hole {
            self.state.lock().unwrap().calls.push("(black hole)".to_owned());
            std::future::pending::<()>().await;
        }
        let path = request.uri().to_string();
        let cookie = request.headers().get("cookie").map(|c| c.to_str().unwrap().to_owned());
        let method = request.method().clone();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        if path != "/sdk" {
            return self.rest(&method, &path, &text);
        }
        let envelope = xml::parse(&text).unwrap();
        let call = envelope.child("Body").unwrap().children[0].clone();
        let name = call.name.to_string();
        {
            let calls = &mut self.state.lock().unwrap().calls;
            calls.push(name.clone());
            // A busy loop would never end, because the paused clock stands still meanwhile.
            assert!(calls.len() < 100_000, "calls without pause: {:?}", &calls[99_900..]);
        }
        let injected = {
            let faults = &mut self.state.lock().unwrap().faults;
            match faults.iter_mut().find(|(operation, _)| **operation == name) {
                Some((_, (fault, times))) if *times > 0 => {
                    *times -= 1;
                    Some(*fault)
                }
                _ => None,
            }
        };
        let delay = self.state.lock().unwrap().delays.get(name.as_str()).copied();
        if let Some(fault) = injected {
            tokio::time::sleep(delay.unwrap_or_default()).await;
            return soap_fault(fault, "");
        }
        let busy = self.state.lock().unwrap().busy.get(name.as_str()).copied();
        if let Some(seconds) = busy {
            let mut response = answer(503, "no healthy upstream".to_owned());
            response.headers_mut().insert("retry-after", seconds.into());
            return response;
        }
        let is_open = matches!(name.as_str(), "RetrieveServiceContent" | "Login");
        let session = {
            let state = &mut *self.state.lock().unwrap();
            let now = tokio::time::Instant::now();
            if state.n_serving == 0 && state.used_at.is_some_and(|at| at + IDLE <= now) {
                state.session = None;
            }
            state.used_at = Some(now);
            state.session.clone()
        };
        if !is_open && (session.is_none() || cookie != session) {
            return soap_fault("NotAuthenticated", "");
        }
        self.state.lock().unwrap().n_serving += 1;
        let answered = self.soap(&call).await;
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        {
            let state = &mut *self.state.lock().unwrap();
            state.n_serving -= 1;
            state.used_at = Some(tokio::time::Instant::now());
        }
        match answered {
            Ok(inner) => {
                let mut response = answer(
                    200,
                    format!(
                        "<soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\" \
                     xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><soapenv:Body>\
                     <{name}Response xmlns=\"urn:vim25\">{inner}</{name}Response></soapenv:Body></soapenv:Envelope>"
                    ),
                );
                if name == "Login" {
                    let session = self.state.lock().unwrap().session.clone().unwrap();
                    let value = format!("{session}; Path=/; HttpOnly");
                    response.headers_mut().insert("set-cookie", value.parse().unwrap());
                }
                response
            }
            Err((fault, fields)) => soap_fault(fault, &fields),
        }
    }

    async fn soap(&self, call: &Element) -> Result<String, (&'static str, String)> {
        match &*call.name {
            "RetrieveServiceContent" => {
                let instance = self.state.lock().unwrap().instance.clone();
                Ok(format!(
                    "<returnval><rootFolder type=\"Folder\">group-d1</rootFolder>\
                     <propertyCollector type=\"PropertyCollector\">pc</propertyCollector>\
                     <viewManager type=\"ViewManager\">ViewManager</viewManager>\
                     <about><version>8.0.3</version><instanceUuid>{instance}</instanceUuid></about>\
                     <sessionManager type=\"SessionManager\">SessionManager</sessionManager>\
                     <searchIndex type=\"SearchIndex\">SearchIndex</searchIndex></returnval>"
                ))
            }
            "Login" => self.change(|state| {
                if call.text_of("password") != Some(&state.password) {
                    return Err(("InvalidLogin", String::new()));
                }
                state.logins += 1;
                state.session = Some(format!("vmware_soap_session=s{}", state.logins));
                Ok("<returnval><key>k</key></returnval>".to_owned())
            }),
            "Logout" => {
                self.end_session();
                Ok(String::new())
            }
            "FindAllByUuid" => {
                let uuid = call.text_of("uuid").unwrap().to_lowercase();
                let state = self.state.lock().unwrap();
                Ok(visible(&state)
                    .filter(|(_, vm)| vm.uuid == uuid)
                    .map(|(id, _)| format!("<returnval type=\"VirtualMachine\">{id}</returnval>"))
                    .collect())
            }
            "FindByUuid" => {
                let uuid = call.text_of("uuid").unwrap().to_lowercase();
                let within = call.text_of("datacenter");
                let state = self.state.lock().unwrap();
                let is_it = |vm: &Vm| {
                    vm.uuid == uuid && within.is_none_or(|within| vm.datacenter == within)
                };
                let found = visible(&state).find(|(_, vm)| is_it(vm));
                let found = found
                    .map(|(id, _)| format!("<returnval type=\"VirtualMachine\">{id}</returnval>"));
                Ok(found.unwrap_or_default())
            }
            "FindAllByDnsName" => {
                let name = call.text_of("dnsName").unwrap();
                let state = self.state.lock().unwrap();
                Ok(visible(&state)
                    .filter(|(_, vm)| vm.name == name)
                    .map(|(id, _)| format!("<returnval type=\"VirtualMachine\">{id}</returnval>"))
                    .collect())
            }
            "CurrentTime" => Ok("<returnval>2026-01-01T00:00:00Z</returnval>".to_owned()),
            "CreateContainerView" => {
                self.change(|state| {
                    state.container = call.text_of("container").unwrap().to_owned();
                });
                Ok("<returnval type=\"ContainerView\">inventory</returnval>".to_owned())
            }
            "CreateListView" => self.change(|state| {
                state.view = ids(call, "obj");
                state.delivered.clear();
                match state.view.iter().find(|id| !state.vms.contains_key(*id)) {
                    Some(id) => Err(gone(id)),
                    None => Ok("<returnval type=\"ListView\">list</returnval>".to_owned()),
                }
            }),
            "ModifyListView" => self.change(|state| {
                let mut unresolved = String::new();
                for id in ids(call, "add") {
                    if state.vms.contains_key(&id) {
                        state.view.insert(id);
                    } else {
                        let _ = write!(
                            unresolved,
                            "<returnval type=\"VirtualMachine\">{id}</returnval>"
                        );
                    }
                }
                for id in ids(call, "remove") {
                    state.view.remove(&id);
                }
                Ok(unresolved)
            }),
            "DestroyView" | "DestroyPropertyFilter" => Ok(String::new()),
            "CreateFilter" => {
                self.change(|state| state.has_filter = true);
                Ok("<returnval type=\"PropertyFilter\">f</returnval>".to_owned())
            }
            "RetrievePropertiesEx" => self.retrieve(call),
            "WaitForUpdatesEx" => self.wait(call).await,
            other => panic!("the fake does not implement {other}"),
        }
    }

    fn retrieve(&self, call: &Element) -> Result<String, (&'static str, String)> {
        let spec = call.child("specSet").unwrap();
        let traversal = |set: &&Element| {
            set.child("selectSet").and_then(|it| it.text_of("name")).unwrap_or_default().to_owned()
        };
        let (trees, sets): (Vec<&Element>, Vec<&Element>) =
            spec.all("objectSet").partition(|set| traversal(set) == "folders");
        let starts: Vec<Element> = sets.iter().map(|o| o.child("obj").unwrap().clone()).collect();
        let state = self.state.lock().unwrap();
        let mut objects = String::new();
        if !trees.is_empty() {
            objects.push_str(&folders(&state));
        }
        match starts.first().map_or("nothing more", |it| it.type_attr.as_deref().unwrap()) {
            "nothing more" => {}
            "ContainerView" => {
                let is_below = |vm: &&Vm| {
                    matches!(&state.container[..], "group-d1") || vm.datacenter == state.container
                };
                for (id, vm) in visible(&state).filter(|(_, vm)| is_below(vm)) {
                    let _ = write!(
                        objects,
                        "<objects><obj type=\"VirtualMachine\">{id}</obj><propSet><name>config.uuid</name>\
                         <val>{}</val></propSet></objects>",
                        vm.uuid
                    );
                }
            }
            "VirtualMachine" if traversal(&sets[0]) == "traverseParent" => {
                objects.push_str(&folders(&state));
                for (id, vm) in
                    visible(&state).filter(|(id, _)| starts.iter().any(|s| s.text == **id))
                {
                    let _ = write!(
                        objects,
                        "<objects><obj type=\"VirtualMachine\">{id}</obj>{}</objects>",
                        named(&vm.name, Some(("Datacenter", vm.datacenter)))
                    );
                }
            }
            "VirtualMachine" => {
                for start in &starts {
                    let tolerates = spec.text_of("reportMissingObjectsInResults") == Some("true");
                    let vm = match state.vms.get(&start.text) {
                        Some(vm) => vm,
                        None if tolerates => continue,
                        None => return Err(gone(&start.text)),
                    };
                    if state.hidden.contains(&start.text) {
                        continue;
                    }
                    let _ = write!(
                        objects,
                        "<objects><obj type=\"VirtualMachine\">{}</obj>{}</objects>",
                        start.text,
                        properties(vm, "propSet", state.guests_torn)
                    );
                }
            }
            "SessionManager" => {
                objects.push_str(
                    "<objects><obj type=\"SessionManager\">SessionManager</obj><propSet><name>currentSession</name>\
                     <val><key>k</key></val></propSet></objects>",
                );
            }
            "Folder" if traversal(&sets[0]) == "children" => {
                if state.in_a_circle {
                    objects.push_str(&folders(&state));
                } else {
                    objects.push_str(&datacenters(&state));
                }
            }
            "Folder"
                if spec.child("propSet").unwrap().text_of("pathSet") == Some("childEntity") =>
            {
                objects = "<objects><obj type=\"Folder\">group-d1</obj><propSet><name>childEntity</name><val>\
                    <ManagedObjectReference type=\"Datacenter\">datacenter-1</ManagedObjectReference></val></propSet></objects>"
                    .to_owned();
            }
            _ => {
                for (kind, id, parent) in [
                    ("HostSystem", "host-1", "ClusterComputeResource\">domain-c1"),
                    ("ResourcePool", "resgroup-1", "ClusterComputeResource\">domain-c1"),
                    ("ClusterComputeResource", "domain-c1", "Datacenter\">datacenter-1"),
                    ("Folder", "group-v1", "Datacenter\">datacenter-1"),
                    ("Datacenter", "datacenter-1", "Folder\">group-d1"),
                ] {
                    let _ = write!(
                        objects,
                        "<objects><obj type=\"{kind}\">{id}</obj><propSet><name>parent</name>\
                         <val type=\"{parent}</val></propSet></objects>"
                    );
                }
                objects.push_str("<objects><obj type=\"Folder\">group-d1</obj></objects>");
            }
        }
        Ok(format!("<returnval>{objects}</returnval>"))
    }

    async fn wait(&self, call: &Element) -> Result<String, (&'static str, String)> {
        let seconds: u64 =
            call.child("options").unwrap().text_of("maxWaitSeconds").unwrap().parse().unwrap();
        let until = tokio::time::Instant::now() + Duration::from_secs(seconds);
        let session = self.state.lock().unwrap().session.clone();
        if call.text_of("version").is_none() {
            self.state.lock().unwrap().delivered.clear();
        }
        loop {
            let changed = self.changed.notified();
            let updates = {
                let mut state = self.state.lock().unwrap();
                if state.session != session {
                    return Err(("NotAuthenticated", String::new()));
                }
                if !state.has_filter {
                    return Err(("InvalidCollectorVersion", String::new()));
                }
                updates(&mut state)
            };
            if !updates.is_empty() {
                let version = self.state.lock().unwrap().changes;
                return Ok(format!(
                    "<returnval><version>v{version}</version><filterSet>{updates}</filterSet></returnval>"
                ));
            }
            if tokio::time::timeout_at(until, changed).await.is_err() {
                return Ok(String::new());
            }
        }
    }

    fn rest(&self, method: &http::Method, path: &str, body: &str) -> Response<Full<Bytes>> {
        let what = path.rsplit('/').next().unwrap().split(':').next().unwrap().to_owned();
        self.state.lock().unwrap().calls.push(format!("{method} {what}"));
        let value = match what.as_str() {
            "session" => serde_json::json!("rest-1"),
            "tag-association?~action=list-attached-tags-on-objects" => {
                let asked: serde_json::Value = serde_json::from_str(body).unwrap();
                let objects = asked["object_ids"].as_array().unwrap();
                let tagged = |object: &&serde_json::Value| {
                    matches!(object["id"].as_str(), Some("domain-c1" | "datacenter-1"))
                };
                let with_tags = |object: &serde_json::Value| {
                    let tag = if object["id"] == "domain-c1" { "zone-a" } else { "region-eu" };
                    serde_json::json!({"object_id": object, "tag_ids": [tag]})
                };
                objects.iter().filter(tagged).map(with_tags).collect()
            }
            "id" => match path.rsplit_once("id:").unwrap().1 {
                "zone-a" => serde_json::json!({"name": "a", "category_id": "cat-zone"}),
                "region-eu" => serde_json::json!({"name": "eu", "category_id": "cat-region"}),
                "cat-zone" => serde_json::json!({"name": "k8s-zone"}),
                "cat-region" => serde_json::json!({"name": "k8s-region"}),
                other => panic!("{other}"),
            },
            other => panic!("the fake does not implement {other}"),
        };
        answer(200, serde_json::json!({"value": value}).to_string())
    }
}

/// The root folder and the datacenters, without the folders below the datacenters.
fn folders(state: &State) -> String {
    let root = named("Datacenters", None);
    format!("<objects><obj type=\"Folder\">group-d1</obj>{root}</objects>{}", datacenters(state))
}

fn datacenters(state: &State) -> String {
    let mut out = String::new();
    for (id, name) in &state.datacenters {
        let properties = named(name, Some(("Folder", "group-d1")));
        let _ = write!(out, "<objects><obj type=\"Datacenter\">{id}</obj>{properties}</objects>");
    }
    out
}

fn named(name: &str, parent: Option<(&str, &str)>) -> String {
    let mut out = format!("<propSet><name>name</name><val>{name}</val></propSet>");
    if let Some((kind, id)) = parent {
        let _ =
            write!(out, "<propSet><name>parent</name><val type=\"{kind}\">{id}</val></propSet>");
    }
    out
}

fn visible(state: &State) -> impl Iterator<Item = (&String, &Vm)> {
    state.vms.iter().filter(|(id, _)| !state.hidden.contains(*id))
}

fn ids(call: &Element, name: &str) -> BTreeSet<String> {
    call.all(name).map(|o| o.text.clone()).collect()
}

fn updates(state: &mut State) -> String {
    let mut out = String::new();
    let shown: BTreeMap<String, Vm> = visible(state)
        .filter(|(id, _)| state.view.contains(*id))
        .map(|(id, vm)| (id.clone(), vm.clone()))
        .collect();
    for (id, vm) in &shown {
        let kind = match state.delivered.get(id) {
            Some(version) if *version == vm.version => continue,
            Some(_) => "modify",
            None => "enter",
        };
        state.delivered.insert(id.clone(), vm.version);
        let _ = write!(
            out,
            "<objectSet><kind>{kind}</kind><obj type=\"VirtualMachine\">{id}</obj>{}</objectSet>",
            properties(vm, "changeSet", state.guests_torn)
        );
    }
    let left: Vec<String> =
        state.delivered.keys().filter(|id| !shown.contains_key(*id)).cloned().collect();
    for id in left {
        state.delivered.remove(&id);
        let _ = write!(
            out,
            "<objectSet><kind>leave</kind><obj type=\"VirtualMachine\">{id}</obj></objectSet>"
        );
    }
    out
}

fn properties(vm: &Vm, element: &str, guests_torn: bool) -> String {
    let mut out = String::new();
    let mut set = |name: &str, val: &str| {
        if guests_torn && name.starts_with("guest.") {
            let _ = write!(
                out,
                "<missingSet><path>{name}</path><fault><fault xsi:type=\"SystemError\"/></fault></missingSet>"
            );
            return;
        }
        let _ = write!(out, "<{element}><name>{name}</name><op>assign</op>{val}</{element}>");
    };
    set("config.uuid", &format!("<val>{}</val>", vm.uuid));
    set("runtime.powerState", &format!("<val>{}</val>", vm.power));
    set("runtime.host", "<val type=\"HostSystem\">host-1</val>");
    set("resourcePool", "<val type=\"ResourcePool\">resgroup-1</val>");
    set("parent", "<val type=\"Folder\">group-v1</val>");
    set("summary.config.guestId", "<val>ubuntu64Guest</val>");
    set("summary.config.numCpu", "<val>4</val>");
    set("summary.config.memorySizeMB", "<val>8192</val>");
    match &vm.address {
        Some(address) => {
            set("guest.hostName", &format!("<val>{}</val>", vm.name));
            set(
                "guest.net",
                &format!(
                    "<val><GuestNicInfo><ipAddress>{address}</ipAddress><deviceConfigId>4000</deviceConfigId>\
                     </GuestNicInfo></val>"
                ),
            );
        }
        None => {
            set("guest.hostName", "");
            set("guest.net", "");
        }
    }
    out
}

fn gone(id: &str) -> (&'static str, String) {
    ("ManagedObjectNotFound", format!("<obj type=\"VirtualMachine\">{id}</obj>"))
}

fn soap_fault(name: &str, fields: &str) -> Response<Full<Bytes>> {
    answer(
        500,
        format!(
            "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><e:Body><e:Fault><faultcode>ServerFaultCode</faultcode>\
         <faultstring>injected</faultstring><detail><{name}Fault xmlns=\"urn:vim25\" xsi:type=\"{name}\">{fields}</{name}Fault>\
         </detail></e:Fault></e:Body></e:Envelope>"
        ),
    )
}

fn answer(status: u16, body: String) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::new(Bytes::from(body))).unwrap()
}
