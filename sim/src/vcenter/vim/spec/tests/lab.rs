//! A vCenter of the newest release, with a machine that is powered off, and a client.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use sim_world::{ADMINISTRATOR, Command, Nodes, Topology};
use tower::ServiceExt as _;

use super::samples;
use super::walk::Place;
use crate::Sim;
use crate::vcenter::soap::parse;
use crate::vcenter::vim::data::Node;

pub(super) struct Lab {
    sim: Sim,
    cookie: Option<String>,
    machine: String,
    host: String,
}

impl Lab {
    pub(super) async fn new() -> Self {
        let topology = Topology::zones(3).machines(1).nodes(Nodes::Count(0));
        let sim = Sim::builder().topology(topology).start();
        let version = "9.1.1".to_owned();
        let build = "1".to_owned();
        for command in [
            Command::StopVCenter { vcenter: None },
            Command::UpgradeVCenter { vcenter: None, version, build },
            Command::StartVCenter { vcenter: None },
        ] {
            sim.apply(command).expect("the vCenter can be upgraded");
        }
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let mut lab = Self { sim, cookie: None, machine: String::new(), host: String::new() };
        let password = lab.sim.password("vc0", ADMINISTRATOR).expect("an account");
        let password = password.expose().replace('&', "&amp;").replace('<', "&lt;");
        let login = format!("<userName>{ADMINISTRATOR}</userName><password>{password}</password>");
        lab.call("Login", ("SessionManager", "SessionManager"), &login).await;
        let path = "<inventoryPath>DC0/vm/node-0001</inventoryPath>";
        let found = lab.call("FindByInventoryPath", ("SearchIndex", "SearchIndex"), path).await;
        lab.machine = returned(&found).text;
        lab.host = lab.fetch("runtime.host").await.text;
        lab.task("PowerOffVM_Task", "").await;
        lab
    }

    pub(super) async fn call(&mut self, operation: &str, this: (&str, &str), body: &str) -> String {
        let (kind, id) = this;
        let envelope = format!(
            "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\" \
             xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><s:Body>\
             <{operation} xmlns=\"urn:vim25\"><_this type=\"{kind}\">{id}</_this>{body}\
             </{operation}></s:Body></s:Envelope>"
        );
        let mut request = Request::post("/sdk").header(header::CONTENT_TYPE, "text/xml");
        if let Some(cookie) = &self.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        let request = request.body(Full::new(Bytes::from(envelope))).expect("a valid request");
        let service = self.sim.vcenter("vc0").expect("vc0 exists").service("");
        let response = service.oneshot(request).await.expect("an answer");
        let (parts, body) = response.into_parts();
        if let Some(cookie) = parts.headers.get(header::SET_COOKIE) {
            let cookie = cookie.to_str().expect("text").split(';').next().unwrap_or_default();
            self.cookie = Some(cookie.to_owned());
        }
        let body = body.collect().await.expect("a complete body").to_bytes();
        String::from_utf8(body.to_vec()).expect("text")
    }

    /// Calls an operation of the machine and waits for its task. Panics if it fails.
    pub(super) async fn task(&mut self, operation: &str, body: &str) {
        let machine = self.machine.clone();
        let answer = self.call(operation, ("VirtualMachine", &machine), body).await;
        assert!(answer.contains("type=\"Task\""), "{operation} {body}: {answer}");
        let task = returned(&answer).text;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let info = self.call("Fetch", ("Task", &task), "<prop>info</prop>").await;
        assert!(info.contains(">success<"), "{operation} {body}: {info}");
    }

    pub(super) async fn reconfigure(&mut self, fields: &str) {
        self.task("ReconfigVM_Task", &format!("<spec>{fields}</spec>")).await;
    }

    /// Reads a property of the machine, which must be set.
    pub(super) async fn fetch(&mut self, path: &str) -> Node {
        let machine = self.machine.clone();
        let prop = format!("<prop>{path}</prop>");
        let answer = self.call("Fetch", ("VirtualMachine", &machine), &prop).await;
        returned(&answer)
    }

    /// Tries to add a device, and returns the answer.
    pub(super) async fn add_device(&mut self, kind: &str, backing: &str) -> String {
        let machine = self.machine.clone();
        let body = format!(
            "<spec><deviceChange><operation>add</operation>{}</deviceChange></spec>",
            samples::around("device", kind, backing, "")
        );
        self.call("ReconfigVM_Task", ("VirtualMachine", &machine), &body).await
    }

    pub(super) async fn remove_device(&mut self, shown: &Node, kind: &str) {
        let key =
            samples::newest(shown, kind).text_of("key").expect("a device has a key").to_owned();
        let device = format!("<device xsi:type=\"VirtualDevice\"><key>{key}</key></device>");
        let change = format!("<deviceChange><operation>remove</operation>{device}</deviceChange>");
        self.reconfigure(&change).await;
    }

    /// Sends a request with a value in one field and the fields that are mandatory around it.
    pub(super) async fn send(&mut self, place: &Place) -> String {
        let mut body = samples::mandatory(place.owner, &place.field);
        let mut except = place.field.name;
        for (field, kind) in place.way.iter().rev() {
            if *kind == "VirtualDeviceConfigSpec" && except != "operation" {
                body.insert_str(0, "<operation>add</operation>");
            }
            body = samples::around(field.name, kind, &body, except);
            except = field.name;
        }
        let this = match place.method {
            "CreateVM_Task" => ("Folder", "group-v3".to_owned()),
            _ => ("VirtualMachine", self.machine.clone()),
        };
        let method = crate::call::vim25::managed(this.0).and_then(|it| it.method(place.method));
        for parameter in method.expect("the method exists").parameters() {
            if !parameter.declared.is_optional && parameter.name != except {
                body.push_str(&samples::mandatory(place.method, &parameter));
            }
        }
        if place.method == "RelocateVM_Task" {
            let spec = "<spec xsi:type=\"VirtualMachineRelocateSpec\">";
            let host = format!("{spec}<host type=\"HostSystem\">{}</host>", self.host);
            body = body.replacen(spec, &host, 1);
        }
        self.call(place.method, (this.0, &this.1), &body).await
    }
}

fn returned(answer: &str) -> Node {
    let envelope = parse(answer);
    let body = envelope.child("Body").expect("a body");
    let returned = body.children[0].child("returnval").cloned();
    returned.unwrap_or_else(|| panic!("no result in {answer}"))
}
