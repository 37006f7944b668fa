//! Tests with small ledgers, built from lines as in a file: calls of each need, and similar calls
//! that are needed.

use sim::ledger::Record;

use super::items::Projection;
use super::{CallReport, Mark, Need, Part, Trigger, marks};

/// Builds a ledger from lines with the time in seconds and the content; sequence numbers count from
/// 1.
fn ledger(lines: &[(f64, serde_json::Value)]) -> Vec<Record> {
    let record = |(n, (at, what)): (usize, &(f64, serde_json::Value))| {
        let mut line = what.clone();
        line["seq"] = (n + 1).into();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "seconds of a test"
        )]
        let nanos = (*at * 1e9) as u64;
        line["t"] = nanos.into();
        if let Some(ended) = line.get_mut("ended") {
            ended["at"] = nanos.into();
        }
        Record::from_line(&line.to_string()).unwrap()
    };
    lines.iter().enumerate().map(record).collect()
}

/// Returns a read of vCenter about this machine, whose answer has this digest.
fn read(op: &str, machine: &str, digest: u32) -> serde_json::Value {
    serde_json::json!({
        "kind": "call", "face": "soap", "server": "vc0", "op": op, "class": "read",
        "target": {"kind": "VirtualMachine", "name": machine},
        "client": {"client": "ccm", "user_agent": "ccm/1", "user": "ccm"},
        "ended": {"status": 200, "objects": 1, "bytes": 9, "digest": format!("{digest:016x}")},
    })
}

/// Returns a call that opens or closes a session.
fn session(op: &str) -> serde_json::Value {
    serde_json::json!({
        "kind": "call", "face": "soap", "server": "vc0", "op": op, "class": "login",
        "client": {"client": "anonymous", "user_agent": "ccm/1"},
        "ended": {"status": 200, "objects": 1, "bytes": 9},
    })
}

/// Returns a write to the Node of this name.
fn write(op: &str, node: &str, detail: &str) -> serde_json::Value {
    serde_json::json!({
        "kind": "call", "face": "k8s.guest", "server": "cluster", "op": op, "class": "write",
        "target": {"kind": "Node", "name": node}, "req": {"bytes": 9, "detail": detail},
        "client": {"client": "admin", "user_agent": "ccm/1", "user": "admin"},
        "ended": {"status": 200, "objects": 1, "bytes": 9},
    })
}

fn failing(mut call: serde_json::Value, fault: &str) -> serde_json::Value {
    call["ended"] = serde_json::json!({"status": 500, "fault": fault, "objects": 0, "bytes": 9, "digest": "0000000000000001"});
    call
}

fn starts() -> serde_json::Value {
    serde_json::json!({"kind": "note", "op": "replica 0 starts"})
}

fn event(op: &str) -> serde_json::Value {
    serde_json::json!({"kind": "world", "op": op})
}

fn with(mut call: serde_json::Value, pointer: &str, value: &str) -> serde_json::Value {
    *call.pointer_mut(pointer).unwrap() = value.into();
    call
}

fn needs(lines: &[(f64, serde_json::Value)]) -> Vec<Need> {
    marks(&ledger(lines)).into_iter().map(|it| it.need).collect()
}

use Need::{Needed, PerObject, Relogin, Reread};

#[test]
fn a_read_is_redundant_if_the_client_last_received_the_same_answer() {
    let get = |machine, digest| read("RetrievePropertiesEx", machine, digest);
    let other = |it: serde_json::Value| with(it, "/client/user_agent", "backup/2");
    for (name, lines, want) in [
        (
            "the same again",
            vec![get("a", 1), get("a", 1), get("a", 1)],
            vec![Needed, Reread, Reread],
        ),
        ("it has changed", vec![get("a", 1), get("a", 2)], vec![Needed, Needed]),
        ("and changed back", vec![get("a", 1), get("a", 2), get("a", 1)], vec![Needed; 3]),
        ("another object", vec![get("a", 1), get("b", 1)], vec![Needed, Needed]),
        ("another client", vec![get("a", 1), other(get("a", 1))], vec![Needed, Needed]),
        (
            "a process that has just started",
            vec![get("a", 1), starts(), get("a", 1)],
            vec![Needed, Needed],
        ),
        (
            "a read after a failure",
            vec![get("a", 1), failing(get("b", 1), "SystemError"), get("a", 1), get("a", 1)],
            vec![Needed, Needed, Needed, Reread],
        ),
        (
            "a read after the end of a watch",
            vec![get("a", 1), event(r#"{"cluster.endWatches":{}}"#), get("a", 1)],
            vec![Needed, Needed],
        ),
        (
            "a refused call has no answer",
            vec![failing(get("a", 1), "NoPermission"), failing(get("a", 1), "NoPermission")],
            vec![Needed, Needed],
        ),
        (
            "a health request needs the present state",
            vec![read("get /healthz", "", 1), read("get /healthz", "", 1)],
            vec![Needed; 2],
        ),
    ] {
        let lines: Vec<_> =
            lines.into_iter().enumerate().map(|(n, it)| (n as f64 * 60.0, it)).collect();
        assert_eq!(needs(&lines), want, "{name}");
    }
}

#[test]
fn each_page_of_a_list_is_compared_with_the_same_page_of_the_last_list() {
    let page = |detail: &str, digest| {
        let mut call = read("list virtualmachines", "", digest);
        call["face"] = "k8s.supervisor".into();
        call["req"] = serde_json::json!({"bytes": 0, "detail": detail});
        call
    };
    let pages = |at: f64, version: &str| {
        let first = format!("{version}limit=500");
        let next = format!("{version}limit=500 continue");
        [(at, page(&first, 1)), (at, page(&next, 2)), (at, page(&next, 3))]
    };
    let lines: Vec<_> =
        pages(0.0, "").into_iter().chain(pages(60.0, "resourceVersion=0 ")).collect();
    assert_eq!(needs(&lines), [Needed, Needed, Needed, Reread, Reread, Reread]);
}

#[test]
fn a_login_is_redundant_during_a_session_or_after_the_clients_own_logout() {
    let (login, logout) = (|| session("Login"), || session("Logout"));
    let get = |digest| read("RetrievePropertiesEx", "a", digest);
    let at = |lines: Vec<serde_json::Value>| {
        lines.into_iter().enumerate().map(|(n, it)| (n as f64 * 60.0, it)).collect::<Vec<_>>()
    };
    for (name, lines, want) in [
        ("a second session", at(vec![login(), get(1), login()]), vec![Needed, Needed, Relogin]),
        (
            "a session per operation",
            at(vec![login(), get(1), logout(), login(), get(2), logout()]),
            vec![Needed, Needed, Relogin, Relogin, Needed, Needed],
        ),
        (
            "the session was refused",
            at(vec![login(), failing(get(1), "NotAuthenticated"), login()]),
            vec![Needed, Needed, Needed],
        ),
        (
            "sessions were ended",
            at(vec![login(), get(1), event(r#"{"session.expireAll":{}}"#), login()]),
            vec![Needed, Needed, Needed],
        ),
        (
            "the session was idle for too long",
            vec![(0.0, login()), (1.0, get(1)), (1802.0, login())],
            vec![Needed, Needed, Needed],
        ),
        (
            "the session was used recently",
            vec![(0.0, login()), (1700.0, get(1)), (3400.0, login())],
            vec![Needed, Needed, Relogin],
        ),
        (
            "the first login was refused",
            at(vec![failing(login(), "InvalidLogin"), login()]),
            vec![Needed, Needed],
        ),
        ("the client stops", at(vec![login(), logout()]), vec![Needed, Needed]),
        (
            "the client stops and starts again",
            at(vec![login(), logout(), starts(), login()]),
            vec![Needed, Needed, Needed],
        ),
        (
            "another program under the same account",
            at(vec![login(), with(login(), "/client/user_agent", "backup/2")]),
            vec![Needed, Needed],
        ),
    ] {
        assert_eq!(needs(&lines), want, "{name}");
    }
}

#[test]
fn lookups_of_three_objects_in_a_burst_count_as_n_plus_one_except_the_first() {
    let find = |at: f64, machine: &str, digest| (at, read("FindByUuid", machine, digest));
    for (name, lines, want) in [
        (
            "three in a burst",
            vec![find(0.0, "a", 1), find(1.0, "b", 2), find(2.0, "c", 3)],
            vec![Needed, PerObject, PerObject],
        ),
        ("two do not count", vec![find(0.0, "a", 1), find(1.0, "b", 2)], vec![Needed, Needed]),
        (
            "lookups with long pauses",
            vec![find(0.0, "a", 1), find(20.0, "b", 2), find(40.0, "c", 3)],
            vec![Needed; 3],
        ),
        (
            "two lookups of the same object",
            vec![find(0.0, "a", 1), find(1.0, "a", 2), find(2.0, "b", 3)],
            vec![Needed; 3],
        ),
        (
            "three of different kinds",
            ["VirtualMachine", "Folder", "SessionManager"]
                .map(|kind| {
                    (0.0, with(read("RetrievePropertiesEx", kind, 1), "/target/kind", kind))
                })
                .to_vec(),
            vec![Needed; 3],
        ),
        (
            "an operation without a variant for several objects",
            ["x", "y", "z"].map(|tag| (0.0, read("tagging.tag.get", tag, 1))).to_vec(),
            vec![Needed; 3],
        ),
        (
            "writes of single objects",
            ["x", "y", "z"].map(|node| (0.0, write("patch nodes", node, "{}"))).to_vec(),
            vec![Needed; 3],
        ),
    ] {
        assert_eq!(needs(&lines), want, "{name}");
    }
    // The second round is both a re-read and N+1: the first reason counts, and the other is kept.
    let twice: Vec<_> = [0.0, 300.0]
        .into_iter()
        .flat_map(|at| ["a", "b", "c"].map(|machine| find(at, machine, 1)))
        .collect();
    let judged: Vec<_> = marks(&ledger(&twice)).iter().map(|it| (it.need, it.per_object)).collect();
    assert_eq!(judged[3..], [(Reread, false), (Reread, true), (Reread, true)]);
}

#[test]
fn the_trigger_of_a_call_comes_from_the_phase_or_from_the_ledger() {
    let triggers = |lines: &[(f64, serde_json::Value)]| -> Vec<Trigger> {
        marks(&ledger(lines)).into_iter().map(|it| it.trigger).collect()
    };
    let get = |at: f64, machine: &str| (at, read("RetrievePropertiesEx", machine, 1));
    let phase = |mut it: (f64, serde_json::Value), phase: &str| {
        it.1["phase"] = phase.into();
        it
    };
    // The driver's phases name the trigger; calls before any machine is looked up belong to the
    // start.
    let told = [
        phase((0.0, session("Login")), "join"),
        phase(get(1.0, "a"), "join"),
        phase(get(600.0, "a"), "steady"),
    ];
    assert_eq!(triggers(&told), [Trigger::StartUp, Trigger::Join, Trigger::StatusPeriod]);
    // Without phases, the ledger shows an initialized Node, periods and a deletion.
    let captured = [
        (0.0, session("Login")),
        get(1.0, "a"),
        (2.0, write("patch nodes", "a", r#"{"spec":{"providerID":"vsphere://…"}}"#)),
        get(300.0, "a"),
        get(600.0, "a"),
        get(705.0, "b"),
        get(710.0, "b"),
        get(715.0, "b"),
        (716.0, write("delete nodes", "b", "")),
    ];
    use Trigger::{Deletion, Join, NotReady, Reconnect, StartUp, StatusPeriod, Unknown};
    assert_eq!(
        triggers(&captured),
        [StartUp, Join, Unknown, StatusPeriod, StatusPeriod, NotReady, Deletion, Deletion, Unknown]
    );
    // The client reconnects from a failure until something succeeds again.
    let lost = [
        get(0.0, "a"),
        (300.0, failing(read("FindByUuid", "a", 1), "NotAuthenticated")),
        (301.0, session("Login")),
        get(302.0, "a"),
        get(600.0, "a"),
    ];
    assert_eq!(triggers(&lost)[1..], [Reconnect, Reconnect, Reconnect, StatusPeriod]);
}

#[test]
fn ledgers_in_one_file_are_judged_separately() {
    let get = read("RetrievePropertiesEx", "a", 1);
    let mut records = ledger(&[(0.0, get.clone()), (1.0, get.clone())]);
    records.extend(ledger(&[(0.0, get)]));
    let needs: Vec<Need> = marks(&records).iter().map(|it: &Mark| it.need).collect();
    assert_eq!(needs, [Needed, Reread, Needed]);
}

/// Returns the ledger of two address syncs without news: a call per node and one call for all
/// nodes.
fn steady(n: u32) -> Vec<Record> {
    let mut lines = Vec::new();
    for (at, phase) in [(0.0, ""), (300.0, "steady")] {
        for machine in 0..n {
            lines.push((at, phase, read("FindByUuid", &format!("m{machine}"), machine)));
        }
        lines.push((at, phase, read("list-tags", "", 7)));
    }
    let told = lines.into_iter().map(|(at, phase, mut it)| {
        it["phase"] = phase.into();
        (at, it)
    });
    ledger(&told.collect::<Vec<_>>())
}

#[test]
fn prices_of_large_fleets_are_extrapolated_from_small_fleets() {
    let (few, many) = (steady(10), steady(30));
    let parts = [Part { nodes: Some(10), records: &few }, Part { nodes: Some(30), records: &many }];
    let bill = CallReport::of_phases("mine", 300, &parts);
    assert_eq!(bill.price, Projection::Fitted);
    let dearest = &bill.items[0];
    assert_eq!((dearest.need, dearest.operation.as_str()), (Reread, "FindByUuid"));
    assert_eq!(dearest.each_time, [(1000, 1000), (5000, 5000)].into());
    assert_eq!(dearest.per_hour, [(1000, 12_000), (5000, 60_000)].into());
    let tags = bill.items.iter().find(|it| it.operation == "list-tags").unwrap();
    assert_eq!(tags.each_time, [(1000, 1), (5000, 1)].into());
    assert!(bill.text().contains("wait for changes"), "{}", bill.text());
    assert!(
        bill.markdown().contains("| re-read | status period | vCenter | FindByUuid | 10 | 30 |")
    );
}

#[test]
fn a_captured_ledger_has_prices_only_if_the_number_of_nodes_is_given() {
    let records = steady(10);
    let bill = CallReport::of_ledger("some.jsonl", Some(10), &records);
    let dearest = &bill.items[0];
    assert_eq!((dearest.operation.as_str(), bill.price), ("FindByUuid", Projection::Proportional));
    assert_eq!(dearest.each_time[&5000], 5000);
    // The ledger lasted five minutes.
    assert_eq!(dearest.per_hour[&5000], 60_000);
    let bill = CallReport::of_ledger("some.jsonl", None, &records);
    assert!(bill.items.iter().all(|it| it.each_time.is_empty()));
    assert!(bill.text().contains("give it with --nodes"));
}
