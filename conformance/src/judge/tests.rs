//! Tests of the judges, with runs that a test has modified.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sim::ledger::Record;
use sim::world::objects::{self, GroupResource, Key, PatchKind};
use sim::world::{Command, PROVIDER_USER, Time, Topology};

use super::{Invariant, safety};
use crate::lab::{self, Run, Stage};
use crate::scenario::{Backend, Scenario};

const HOUR: Duration = Duration::from_secs(3600);

fn a_run(backend: Backend) -> Run {
    let scenario = Scenario::new("", Topology::zones(1).machines(1), Duration::from_secs(30));
    lab::run(&scenario, &Stage { mode: backend.into(), ..Stage::default() })
}

fn tells(run: &Run) -> Vec<String> {
    let found = safety(run).into_iter().filter(|it| it.invariant == Invariant::NoSecretTold);
    found.map(|it| it.text).collect()
}

#[test]
fn a_credential_in_base64_and_a_cookie_in_a_verbose_line_are_found() {
    let mut run = a_run(Backend::VCenter);
    assert_eq!(tells(&run), Vec::<String>::new());
    let vcenter = run.end.vcenters.values().next().unwrap();
    let password = vcenter.logins.users[PROVIDER_USER].password.expose().to_owned();
    let cookie = vcenter.logins.sessions.keys().next().unwrap().clone();

    let basic = STANDARD.encode(format!("{PROVIDER_USER}:{password}"));
    let logs = std::mem::replace(&mut run.logs, format!("1.0 request\n2.0 Basic {basic}\n"));
    assert_eq!(tells(&run), ["a password, in base64, is in line 2 of the log"]);

    run.logs = logs;
    run.debug_words = format!("1.0 TRACE Cookie: vmware_soap_session={cookie}\n");
    assert_eq!(tells(&run), ["a session, in plain text, is in line 1 of the log"]);
}

#[test]
fn the_token_of_a_supervisor_is_a_secret() {
    let mut run = a_run(Backend::Supervisor);
    assert_eq!(tells(&run), Vec::<String>::new());
    let token = run.tokens.first().unwrap();
    run.logs = format!("1.0 Authorization: Bearer {token}\n");
    assert_eq!(tells(&run), ["a token, in plain text, is in line 1 of the log"]);
}

#[test]
fn logins_repeated_after_failures_are_a_storm_unless_a_minute_apart() {
    let mut run = a_run(Backend::VCenter);
    let storm = |run: &Run| safety(run).iter().any(|it| it.invariant == Invariant::NoLoginStorm);
    assert!(!storm(&run));
    let login = run.calls().find(|call| call.op == "Login").unwrap().clone();
    let login_at = login.t;
    let failing = |every: Duration| {
        let attempts =
            (1..).map(move |n| login_at + every * n).take_while(|t| *t < Time::ZERO + HOUR);
        attempts.map(|t| {
            let mut again = Record { t, ..login.clone() };
            again.ended.as_mut().unwrap().fault = Some("InvalidLogin".to_owned());
            again
        })
    };
    let begin = run.ledger.len();
    for (every, is_storm) in [(100, true), (5_000, true), (15_000, true), (60_000, false)] {
        run.ledger.truncate(begin);
        run.ledger.extend(failing(Duration::from_millis(every)));
        assert_eq!(storm(&run), is_storm, "a login every {every} ms, each for the failure before");
    }
}

#[test]
fn a_password_in_an_event_that_is_gone_is_found() {
    let run = a_run(Backend::VCenter);
    let vcenter = run.end.vcenters.values().next().unwrap();
    let password = vcenter.logins.users[PROVIDER_USER].password.expose();
    let events = GroupResource::core("events");
    let key = Key::new(events.clone(), "default", "told");
    let event = serde_json::json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "told", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": "node-0001", "namespace": "default"},
        "message": format!("cannot log in with {password}"),
    });
    let scenario = run
        .scenario
        .at(
            Duration::from_secs(10),
            Command::Cluster(objects::Command::create(events, "default", event)),
        )
        .at(Duration::from_secs(11), Command::Cluster(objects::Command::delete(key)));
    let mut run = lab::run(&scenario, &Stage::default());
    // The ledger records the step of the scenario, with the password, too.
    run.ledger.clear();
    assert_eq!(tells(&run), ["a password, in plain text, is in an event"]);
}

#[test]
fn a_provider_id_is_true_while_the_uuid_of_its_machine_is_not_loaded_and_false_once_it_is_another()
{
    let (own, other) = (uuid::Uuid::from_u128(1), uuid::Uuid::from_u128(2));
    let set = |uuid| Command::SetUuid { machine: "node-0001".into(), uuid };
    let is_untrue = |later, twin: Option<uuid::Uuid>| {
        let spec = serde_json::json!({"spec": {"providerID": format!("vsphere://{own}")}});
        let patch = objects::Command::patch(Key::node("node-0001"), PatchKind::Merge, spec);
        let topology = Topology::zones(1).machines(2);
        let scenario = Scenario::new("", topology, Duration::from_secs(30))
            .with_provider(|provider| provider.start = false)
            .at(
                Duration::from_secs(4),
                Command::SetUuid { machine: "node-0002".into(), uuid: twin },
            )
            .at(Duration::from_secs(5), set(Some(own)))
            .at(Duration::from_secs(6), set(later))
            .at(Duration::from_secs(7), Command::Cluster(patch));
        let found = safety(&lab::run(&scenario, &Stage::default()));
        found.iter().any(|it| it.invariant == Invariant::ProviderIdIsTrue)
    };
    assert!(!is_untrue(Some(own), Some(other)));
    assert!(!is_untrue(None, Some(other)));
    assert!(is_untrue(Some(other), None));
    // Another machine shows the UUID, so that nobody can tell whose it was.
    assert!(is_untrue(None, Some(own)));
}
