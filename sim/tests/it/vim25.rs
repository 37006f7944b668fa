//! Tests of requests that the schema of vim25 decides: properties, methods and arguments.

use sim::world::Command;

use crate::client::{COLLECTOR, SEARCH, SESSIONS, lab, object, props};

/// Properties of managers that the sim does not hold, by type and id.
const OF_MANAGERS: [(&str, &str, &str); 8] = [
    ("PerformanceManager", "PerfMgr", "perfCounter"),
    ("LicenseManager", "LicenseManager", "licenses"),
    ("EventManager", "EventManager", "description.eventInfo"),
    ("OptionManager", "VpxSettings", "setting"),
    ("AuthorizationManager", "AuthorizationManager", "roleList"),
    ("CustomFieldsManager", "CustomFieldsManager", "field"),
    ("AlarmManager", "AlarmManager", "defaultExpression"),
    ("CryptoManagerKmip", "CryptoManager", "kmipServers"),
];

#[tokio::test(start_paused = true)]
async fn a_property_without_a_value_is_unset_and_an_unknown_one_is_invalid() {
    let (_sim, mut client) = lab(1).await;
    let one = client.machine("node-0001").await;
    let of_machine = ["value", "availableField", "capability", "layoutEx", "config.vAppConfig"];
    let of_machine = of_machine.map(|path| ("VirtualMachine", one.as_str(), path));
    for (kind, id, path) in OF_MANAGERS.into_iter().chain(of_machine) {
        assert_eq!(client.fetch((kind, id), path).await, None, "{kind} {path}");
        let spec =
            format!("<specSet>{}{}</specSet><options/>", props(kind, &[path]), object(kind, id));
        let answer = client.call("RetrievePropertiesEx", COLLECTOR, &spec).await;
        let content = answer.returned().and_then(|it| it.child("objects").cloned());
        let content = content.unwrap_or_else(|| panic!("{kind} {path}: {}", answer.body));
        assert_eq!(content.children.len(), 1, "{kind} {path}: only `obj`: {}", answer.body);
        for wrong in [format!("{path}s.x"), "nosuch".to_owned()] {
            let wrong = format!("<prop>{wrong}</prop>");
            let answer = client.call("Fetch", (kind, id), &wrong).await;
            assert_eq!(answer.fault().as_deref(), Some("InvalidProperty"), "{kind} {wrong}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_property_of_a_later_release_is_unknown_until_an_upgrade() {
    let (sim, mut client) = lab(1).await;
    let one = client.machine("node-0001").await;
    let this = ("VirtualMachine", one.as_str());
    let newer = "<prop>config.tdxEnabled</prop>";
    let answer = client.call("Fetch", this, newer).await;
    assert_eq!(answer.fault().as_deref(), Some("InvalidProperty"));
    sim.apply(Command::StopVCenter { vcenter: None }).expect("the vCenter runs");
    sim.apply(Command::UpgradeVCenter {
        vcenter: None,
        version: "9.0.0".to_owned(),
        build: "24755230".to_owned(),
    })
    .expect("the vCenter is stopped");
    sim.apply(Command::StartVCenter { vcenter: None }).expect("the vCenter is stopped");
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    client.login(&sim).await;
    assert_eq!(client.call("Fetch", this, newer).await.fault(), None);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_or_missing_argument_is_refused_by_name() {
    let (_sim, mut client) = lab(1).await;
    let one = client.machine("node-0001").await;
    let this = ("VirtualMachine", one.as_str());
    for (operation, this, arguments, fault, name) in [
        (
            "FindByUuid",
            SEARCH,
            "<uuid>x</uuid><vmSearch>true</vmSearch><vmsearch/>",
            "InvalidRequest",
            "vmsearch",
        ),
        ("FindByUuid", SEARCH, "<uuid>x</uuid>", "InvalidArgument", "vmSearch"),
        ("PowerOnVM_Task", this, "<when>now</when>", "InvalidRequest", "when"),
        ("Destroy_Task", this, "<force>true</force>", "InvalidRequest", "force"),
        ("ReconfigVM_Task", this, "<spec><numCPU>2</numCPU></spec>", "InvalidRequest", "numCPU"),
        (
            "ReconfigVM_Task",
            this,
            "<spec><tdxEnabled>true</tdxEnabled></spec>",
            "InvalidRequest",
            "tdxEnabled",
        ),
        ("ReconfigVM_Task", this, "<spec xsi:type=\"Toaster\"/>", "InvalidRequest", "Toaster"),
        (
            "ReconfigVM_Task",
            this,
            "<spec><extraConfig><value xsi:type=\"xsd:string\">b</value></extraConfig></spec>",
            "InvalidArgument",
            "spec.extraConfig.key",
        ),
        ("ReconfigVM_Task", this, "", "InvalidArgument", "spec"),
        ("Login", SESSIONS, "<userName>a</userName>", "InvalidArgument", "password"),
    ] {
        let answer = client.call(operation, this, arguments).await;
        assert_eq!(answer.fault().as_deref(), Some(fault), "{operation} {arguments}");
        assert!(answer.payload().text_of("faultstring").contains(name), "{}", answer.body);
    }
}
