//! Snapshots of faults of every class, and of HTTP errors, for example while a vCenter starts.

use std::collections::BTreeMap;

use sim::Sim;
use sim::faults::{Action, HttpStatus, Rule};
use sim::world::{ADMINISTRATOR, Command, Grant};

use http::Method;

use super::{CONTENT, Snapshots, bytes, lab};
use crate::client::{COLLECTOR, Client, SESSIONS, object, props};

pub(super) async fn faults(shots: &mut Snapshots) {
    let sim = lab();
    let mut client = Client::new(&sim);
    client.call("RetrieveServiceContent", CONTENT, "").await.ok();
    let wrong = format!("<userName>{ADMINISTRATOR}</userName><password>wrong</password>");
    let answer = client.call("Login", SESSIONS, &wrong).await;
    shots.take(&sim, "fault_login", &answer);
    let read = |spec: String| format!("<specSet>{spec}</specSet><options/>");
    let spec =
        read(format!("{}{}", props("VirtualMachine", &["nmae"]), object("VirtualMachine", "vm-1")));
    let answer = client.call("RetrievePropertiesEx", COLLECTOR, &spec).await;
    shots.take(&sim, "fault_not_authenticated", &answer);
    client.login(&sim).await;
    let answer = client.call("RetrievePropertiesEx", COLLECTOR, &spec).await;
    shots.take(&sim, "fault_property", &answer);
    let spec = read(format!(
        "{}{}",
        props("VirtualMachine", &["name"]),
        object("VirtualMachine", "vm-9999")
    ));
    let answer = client.call("RetrievePropertiesEx", COLLECTOR, &spec).await;
    shots.take(&sim, "fault_not_found", &answer);
    let answer = client.call("WaitForUpdatesEx", COLLECTOR, "<version>7</version>").await;
    shots.take(&sim, "fault_version", &answer);
    let answer = client.post("<a>").await;
    shots.take(&sim, "fault_malformed", &answer);
    let answer = client.call("MakeCoffee", CONTENT, "").await;
    shots.take(&sim, "fault_unknown", &answer);
}

/// Fault classes in the snapshot.
const SHOWN: [&str; 31] = [
    "SystemError",
    "InvalidLogin",
    "NotAuthenticated",
    "NoPermission",
    "ManagedObjectNotFound",
    "InvalidProperty",
    "RequestCanceled",
    "InvalidCollectorVersion",
    "InvalidArgument",
    "InvalidRequest",
    "InvalidType",
    "MethodNotFound",
    "NotSupported",
    "NotImplemented",
    "HostNotConnected",
    "HostNotReachable",
    "HostCommunication",
    "InvalidPowerState",
    "InvalidState",
    "TaskInProgress",
    "ToolsUnavailable",
    "DuplicateName",
    "InvalidName",
    "NotFound",
    "AlreadyExists",
    "ResourceInUse",
    "ConcurrentAccess",
    "LimitExceeded",
    "Timedout",
    "RuntimeFault",
    "PasswordExpired",
];

/// Answers with a fault of every class that a rule can name. Takes a snapshot of some of them, with
/// the fields of each class.
pub(super) async fn every_fault_class(shots: &mut Snapshots) {
    let sim = lab();
    let mut client = Client::logged_in(&sim).await;
    let mut shown = BTreeMap::new();
    for class in sim::fault_classes() {
        let fault = Action::soap_fault(*class);
        sim.fault(Rule::new(*class, [fault]).op(["CurrentTime"]))
            .expect("the rule is valid")
            .keep();
        let answer = client.call("CurrentTime", CONTENT, "").await;
        assert_eq!(answer.fault().as_deref(), Some(*class));
        if SHOWN.contains(class) {
            shown.insert(*class, format!("--- {class}\n{}\n", bytes(&answer)));
        }
        sim.heal();
    }
    let shown = SHOWN.map(|class| shown.remove(class).expect("vim25 has the class"));
    shots.compare("fault_classes", &shown.concat());
}

pub(super) async fn denied_and_unavailable(shots: &mut Snapshots) {
    let sim = lab();
    let mut client = Client::logged_in(&sim).await;
    let machine = client.machine("node-0001").await;
    let grant =
        Grant { vcenter: None, user: ADMINISTRATOR.to_owned(), object: "node-0001".to_owned() };
    sim.apply(Command::RevokePrivilege(grant)).expect("the user and the machine exist");
    let answer = client.call("PowerOnVM_Task", ("VirtualMachine", &machine), "").await;
    shots.take(&sim, "fault_no_permission", &answer);
    for (name, method, path) in
        [("http_not_found", Method::GET, "/sdk/nothing.xml"), ("http_method", Method::PUT, "/sdk")]
    {
        let answer = client.rest(method, path, &[], "").await;
        shots.take(&sim, name, &answer);
    }
    let json = [("content-type", "application/json")];
    let answer = client.rest(Method::POST, "/sdk", &json, "{}").await;
    shots.take(&sim, "http_media_type", &answer);
    let busy = Action::from(HttpStatus::new(503).retry_after(7));
    sim.fault(Rule::new("busy", [busy])).expect("the rule is valid").keep();
    for (name, path) in [
        ("http_busy", "/sdk"),
        ("rest_busy", "/rest/com/vmware/cis/session"),
        ("api_busy", "/api/session"),
    ] {
        let answer = client.rest(Method::POST, path, &[], "").await;
        shots.take(&sim, name, &answer);
    }
    sim.heal();
    sim.apply(Command::StopVCenter { vcenter: None }).expect("the vCenter runs");
    sim.apply(Command::StartVCenter { vcenter: None }).expect("the vCenter is stopped");
    let answer = client.call("RetrieveServiceContent", CONTENT, "").await;
    shots.take(&sim, "http_starting", &answer);
}

/// Takes snapshots of the answers of a vCenter that has reached its limits of SOAP and vAPI
/// sessions.
pub(super) async fn too_many_sessions(shots: &mut Snapshots) {
    let sim: Sim = lab();
    let rules =
        sim::world::vcenter::LoginRules { soap_cap: 1, vapi_cap_per_user: 0, ..Default::default() };
    sim.apply(Command::SetLoginRules { vcenter: None, rules }).expect("the world has a vCenter");
    let mut first = Client::new(&sim);
    first.call("RetrieveServiceContent", CONTENT, "").await.ok();
    let mut second = Client::new(&sim);
    let answer = second.call("RetrieveServiceContent", CONTENT, "").await;
    shots.take(&sim, "http_too_many_sessions", &answer);
    let basic = super::basic(&sim);
    let headers = [("authorization", basic.as_str())];
    for (name, path) in [
        ("rest_too_many_sessions", "/rest/com/vmware/cis/session"),
        ("api_too_many_sessions", "/api/session"),
    ] {
        let answer = second.rest(Method::POST, path, &headers, "").await;
        shots.take(&sim, name, &answer);
    }
}
