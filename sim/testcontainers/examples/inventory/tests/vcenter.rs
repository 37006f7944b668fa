//! Tests of the program `inventory` and its library against a simulated vCenter with fault rules.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::json;

// ANCHOR: test
use inventory::{Error, Machine, list};
use sim_testcontainers::{Action, Rule, Sim, SimContainer};

/// Lists the machines of `vc0` with the library under test.
async fn listed(sim: &SimContainer) -> Result<Vec<Machine>, Error> {
    let vcenter = sim.vcenter("vc0").expect("every world has vc0");
    let account = &vcenter.administrator;
    list(&vcenter.url, &account.username, &account.password, sim.ca_pem().as_bytes()).await
}

#[tokio::test]
async fn a_busy_vcenter_is_asked_again() {
    let sim = Sim::new().machines(20).zones(3).start().await.expect("a sim");
    let busy = Rule::new("busy", [Action::status(503)]).op(["Login"]).first(2);
    sim.admin().add(busy).await.expect("the rule is valid");

    assert_eq!(listed(&sim).await.expect("a list").len(), 20);
    let counts = sim.admin().counts().await.expect("counts");
    assert_eq!(counts.of("Login"), 3, "two failures, one success");
}
// ANCHOR_END: test

fn machine(name: &str, power: &str) -> Machine {
    Machine { name: name.to_owned(), power: power.to_owned() }
}

#[tokio::test]
async fn the_inventory_lists_every_machine_and_logs_out() {
    let sim = Sim::new().machines(3).nodes(0).start().await.expect("a sim");
    sim.admin().happen(&json!({"vm.powerOff": "node-0002"})).await.expect("the event applies");
    assert_eq!(
        listed(&sim).await.expect("a list"),
        [
            machine("node-0001", "poweredOn"),
            machine("node-0002", "poweredOff"),
            machine("node-0003", "poweredOn")
        ]
    );
    let counts = sim.admin().counts().await.expect("counts");
    assert_eq!((counts.of("Login"), counts.of("Logout"), counts.total), (1, 1, 5), "{counts:?}");
}

#[tokio::test]
async fn a_call_whose_connection_breaks_is_made_at_most_three_times() {
    let sim = Sim::new().machines(2).nodes(0).start().await.expect("a sim");
    let admin = sim.admin();

    let down = Rule::new("down", [Action::Reset]).op(["Retrieve*"]);
    admin.add(down).await.expect("the rule is valid");
    let error = listed(&sim).await.expect_err("every connection breaks");
    assert!(
        matches!(error, Error::Unavailable { operation: "RetrieveServiceContent", .. }),
        "{error}"
    );
    let broken = admin.ledger(0).await.expect("a ledger");
    let broken: Vec<_> =
        broken.iter().filter_map(|it| it.ended.as_ref()?.broken.as_deref()).collect();
    assert_eq!(broken, ["reset"; 3], "the library gives up after three tries");
    assert_eq!(admin.faults().await.expect("rules")[0].fired, 3);
}

#[tokio::test]
async fn a_lost_session_is_replaced_once() {
    let sim = Sim::new().machines(250).nodes(0).start().await.expect("a sim");
    let lost = Rule::new("lost", [Action::soap_fault("NotAuthenticated")])
        .op(["ContinueRetrievePropertiesEx"])
        .nth(1);
    sim.admin().add(lost).await.expect("the rule is valid");
    assert_eq!(listed(&sim).await.expect("a list").len(), 250, "three pages");
    let counts = sim.admin().counts().await.expect("counts");
    assert_eq!(counts.of("Login"), 2, "{counts:?}");
}

#[tokio::test]
async fn the_binary_names_the_user_whose_login_is_refused() {
    let sim = Sim::new().machines(1).nodes(0).start().await.expect("a sim");
    let vcenter = sim.vcenter("vc0").expect("every world has vc0");
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let ca = directory.join(format!("ca-{}.pem", std::process::id()));
    std::fs::write(&ca, sim.ca_pem()).expect("a file");
    let run = |password: &str| -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_inventory"))
            .args([&vcenter.url, &vcenter.administrator.username])
            .arg(&ca)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        child.stdin.take().expect("a pipe").write_all(password.as_bytes()).expect("a reader");
        child.wait_with_output().expect("the binary ends")
    };
    let listed = run(&vcenter.administrator.password);
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "node-0001\tpoweredOn\n");
    let refused = run("wrong");
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    let user = &vcenter.administrator.username;
    assert_eq!(
        said,
        format!("error: the vCenter refused the login of {user}: check user name and password\n")
    );
    std::fs::remove_file(&ca).expect("the file exists");
}
