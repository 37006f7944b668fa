//! Tests that sims in one process are isolated from each other, and that no secret leaks.

use http::Method;
use sim::world::{ADMINISTRATOR, Command, PROVIDER_USER};
use sim::{ListenOptions, Sim};

use crate::client::{Client, SESSIONS, machines};
use crate::wire;

#[tokio::test]
async fn two_sims_share_no_machines_rules_or_sessions() {
    let (one, two) = (machines(3), machines(3));
    let (ours, theirs) =
        tokio::join!(one.listen(ListenOptions::default()), two.listen(ListenOptions::default()));
    let (ours, theirs) = (ours.expect("free ports"), theirs.expect("free ports"));
    assert_ne!(ours.vcenters["vc0"].address, theirs.vcenters["vc0"].address);
    assert_ne!(ours.ca_pem(), theirs.ca_pem());
    let mut client = Client::logged_in(&one).await;
    one.apply(Command::DeleteMachine("node-0001".into())).expect("the machine exists");
    let rule = sim::faults::Rule::new("r", [sim::faults::Action::Reset]);
    one.fault(rule).expect("the rule is valid").keep();
    assert_eq!(two.ledger().next_seq(), 1, "the ledger of the other sim is empty");
    assert!(two.faults().list().is_empty());
    let mut stranger = Client::new(&two);
    stranger.cookie.clone_from(&client.cookie);
    let fault = stranger.call("CurrentTime", ("ServiceInstance", "ServiceInstance"), "").await;
    assert_eq!(fault.fault().as_deref(), Some("NotAuthenticated"), "sims do not share sessions");
    let mut other = Client::logged_in(&two).await;
    other.machine("node-0001").await;
    one.heal();
    let path = "<inventoryPath>DC0/vm/node-0001</inventoryPath>";
    let answer = client.call("FindByInventoryPath", crate::client::SEARCH, path).await;
    assert_eq!(answer.returned(), None);
}

#[tokio::test]
async fn no_secret_is_in_the_ledger_or_shown_by_the_admin_port() {
    let sim = Sim::builder().start();
    let endpoints = sim.listen(ListenOptions::default()).await.expect("free ports");
    let mut client = Client::logged_in(&sim).await;
    let vapi = crate::snapshots::rest_login(&sim, &mut client).await;
    let headers = [("vmware-api-session-id", vapi.as_str())];
    client.rest(Method::GET, "/api/session", &headers, "").await;
    let typo = "<userName>administrator@vsphere.local</userName><password>nearly-right</password>";
    client.call("Login", SESSIONS, typo).await;
    let cluster = sim.cluster().service("");
    let mut kube = Client { service: cluster, cookie: None };
    let bearer = format!("Bearer {}", sim.admin_token());
    kube.rest(Method::GET, "/api/v1/nodes", &[("authorization", &bearer)], "").await;
    sim.apply(Command::RotatePassword {
        vcenter: None,
        user: ADMINISTRATOR.to_owned(),
        password: sim::world::vcenter::Password::new("rotated-secret"),
    })
    .expect("the administrator has an account");
    let stream =
        tokio::net::TcpStream::connect(endpoints.admin.address).await.expect("the admin port");
    let mut admin = wire::http(stream).await;
    let mut told = format!("{sim:?}{endpoints:?}{}", sim.ledger().to_jsonl());
    for path in ["/world", "/ledger", "/ledger?format=counts", "/faults", "/clock"] {
        let answer = wire::exchange(&mut admin, wire::request("GET", path, "")).await;
        told.push_str(&answer.expect("an answer").1);
    }
    let password =
        |user| sim.password("vc0", user).expect("the user has an account").expose().to_owned();
    let cookie = client.cookie.clone().expect("a session");
    let token = cookie.split('"').nth(1).expect("a token");
    for (name, secret) in [
        ("the administrator's new password", "rotated-secret"),
        ("a wrong password", "nearly-right"),
        ("the provider's password", &password(PROVIDER_USER)),
        ("a SOAP session", token),
        ("a vAPI session", &vapi),
        ("a bearer token", sim.admin_token()),
    ] {
        assert!(!told.contains(secret), "the output contains {name}");
    }
}
