//! Tests of the release that a vCenter reports to its clients.

use std::time::Duration;

use http::Method;
use sim::world::Command;

use crate::client::{Client, machines};

#[tokio::test(start_paused = true)]
async fn an_upgraded_vcenter_shows_its_release_to_every_client() {
    let sim = machines(1);
    sim.apply(Command::StopVCenter { vcenter: None }).expect("the vCenter runs");
    let (version, build) = ("7.0.2".to_owned(), "17694817".to_owned());
    sim.apply(Command::UpgradeVCenter { vcenter: None, version, build })
        .expect("the vCenter is stopped");
    sim.apply(Command::StartVCenter { vcenter: None }).expect("the vCenter is stopped");
    tokio::time::sleep(Duration::from_secs(120)).await;
    let mut client = Client::new(&sim);
    let content =
        client.call("RetrieveServiceContent", ("ServiceInstance", "ServiceInstance"), "").await;
    for text in [
        "<fullName>VMware vCenter Server 7.0.2 build-17694817</fullName>",
        "<version>7.0.2</version><build>17694817</build>",
        "<apiVersion>7.0.2.0</apiVersion>",
        "<licenseProductVersion>7.0</licenseProductVersion>",
    ] {
        assert!(content.body.contains(text), "{text} in {}", content.body);
    }
    let versions = client.rest(Method::GET, "/sdk/vimServiceVersions.xml", &[], "").await;
    let begin = "<version>7.0.2.0</version><priorVersions><version>7.0.1.1</version>";
    assert!(versions.body.contains(begin), "{}", versions.body);
    assert!(!versions.body.contains("8.0"), "{}", versions.body);
}
