//! Snapshots for review by people: the calls and the final Nodes of each scenario.
//!
//! The scenarios are those of phases of the cost table, a life, a failover, and those of checks
//! with vCenter. Each scenario of such a check has a snapshot, except those in [`LARGE`]. The
//! snapshot shows the first case of the first check with that scenario, unless this file names
//! another one. A transcript has a line per call, with repetitions folded: client, server,
//! operation, kind of object, outcome, and the rules that fired. It leaves out polls and watches
//! that returned nothing, and renewals of a lease.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

use conformance::cost::CountedMode;
use conformance::lab::{Run, Stage, run};
use conformance::scenario::{Act, Backend, Scenario};
use conformance::{catalogue, checks, lives};
use serde_json::{Value, json};
use sim::Class;
use sim::ledger::{Kind, Record};
use sim::world::objects::GroupResource;
use sim::world::{Command, Topology};

/// Fleet size; small, but with the seventh machine, which one phase deletes.
const FLEET: u32 = 7;

/// Returns the transcript of a phase of the cost table.
fn phase(name: &str) -> String {
    let mut phases = CountedMode::Vcenter.phases().iter();
    let phase = phases.find(|phase| phase.name == name).expect("the phase exists");
    let run = run(&until_the_end_of(name, (phase.scenario)(FLEET)), &Stage::default());
    transcript(&run, |record| record.phase.as_deref() == Some(name))
}

/// Returns the scenario without what follows a phase, so that the run ends with the phase.
fn until_the_end_of(phase: &str, mut scenario: Scenario) -> Scenario {
    let begins = |act: &Act| matches!(act, Act::Phase(name) if name == phase);
    let mut after = scenario.timeline.iter().skip_while(|step| !begins(&step.act)).skip(1);
    if let Some(end) = after.find(|step| matches!(step.act, Act::Phase(_))).map(|step| step.at) {
        scenario.timeline.retain(|step| step.at < end);
        scenario.horizon = end;
    }
    scenario
}

/// Plays one case of the check `id`, the first one if `case` is empty, and returns its verdict and
/// transcript. According to the catalogue, the check must use `scenario`.
fn check(scenario: &str, id: &str, case: &str) -> String {
    let entry = catalogue::entry(id).expect("the catalogue has the check");
    assert_eq!(entry.scenario.as_deref(), Some(scenario), "{id}");
    let all = checks::all(Backend::VCenter);
    let check =
        all.iter().find(|check| check.id.as_str() == id).expect("vCenter mode has the check");
    let case = check.cases.iter().find(|it| case.is_empty() || it.name == case);
    let outcome = case.expect("the check has this case").run(&Stage::default());
    let verdict = &outcome.verdict;
    let case = if outcome.case.is_empty() { String::new() } else { format!(", {}", outcome.case) };
    format!("{id}{case}: {verdict}\n{}", transcript(&outcome.run, |_| true))
}

/// Returns the transcript of the usual life, from join to delete.
fn life() -> String {
    transcript(&run(&lives::usual(), &Stage::default()), |_| true)
}

/// Returns the transcript of two replicas: the leader is killed and replaced, then its successor is
/// stopped.
fn failover() -> String {
    let s = std::time::Duration::from_secs;
    let address = |last| Command::SetAddresses {
        machine: "node-0001".into(),
        addresses: vec![vec![std::net::Ipv4Addr::new(10, 6, 0, last).into()]],
    };
    let scenario = Scenario::new("failover", Topology::zones(3).machines(2), s(300))
        .with_provider(|it| it.replicas = 2)
        .at(s(60), Act::CrashLeader)
        .at(s(61), address(1))
        .at(s(120), Act::StartAll)
        .at(s(180), Act::StopLeader)
        .at(s(181), address(2));
    transcript(&run(&scenario, &Stage::default()), |_| true)
}

fn transcript(run: &Run, wanted: impl Fn(&Record) -> bool) -> String {
    let mut lines = Vec::new();
    let mut phase = None;
    let mut leases = BTreeMap::new();
    for record in run.ledger.iter().filter(|record| wanted(record)) {
        if record.phase != phase {
            phase.clone_from(&record.phase);
            lines.push(format!("== {}", phase.as_deref().unwrap_or_default()));
        }
        let line = line(record);
        if record.kind != Kind::Call {
            // After an act, shows the next write of each lease again, because it may be a release.
            leases.clear();
        } else if says_nothing(record) {
            continue;
        } else if record.op.contains("leases") {
            let before = leases.insert(record.client.client.clone(), line.clone());
            if before.as_ref() == Some(&line) {
                continue;
            }
        }
        lines.push(line);
    }
    let nodes = nodes(run);
    let text = serde_saphyr::to_string(&nodes.iter().take(SHOWN).collect::<Vec<_>>()).unwrap();
    let more = nodes.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("… and {more} more\n") } else { String::new() };
    format!("{}== nodes at the end\n{text}{more}", folded(&lines))
}

/// Maximum number of final Nodes in a transcript; enough for the largest fleet whose nodes differ.
const SHOWN: usize = 12;

/// Folds repeated lines, and repeated groups of up to four lines, into one with a count.
fn folded(lines: &[String]) -> String {
    let repeats = |at: usize, length: usize| {
        let mut groups = lines[at..].chunks_exact(length);
        let first = groups.next();
        1 + groups.take_while(|group| Some(*group) == first).count()
    };
    let mut out = String::new();
    let mut at = 0;
    while at < lines.len() {
        let longest = 4.min(lines.len() - at);
        let folds = (1..=longest).map(|length| (length, repeats(at, length)));
        let best = folds.max_by_key(|(length, n)| (length * (n - 1), Reverse(*length)));
        let (length, n) = best.unwrap_or((1, 1));
        let (length, n) = if n == 1 { (1, 1) } else { (length, n) };
        for (k, line) in lines[at..at + length].iter().enumerate() {
            match (n, length, k + 1 == length) {
                (1, ..) => writeln!(out, "{line}"),
                (_, 1, _) => writeln!(out, "{line}  × {n}"),
                (_, _, true) => writeln!(out, "{line:<104}┘ × {n}"),
                (_, _, false) if k == 0 => writeln!(out, "{line:<104}┐"),
                _ => writeln!(out, "{line:<104}│"),
            }
            .unwrap();
        }
        at += length * n;
    }
    out
}

/// True for a long poll or watch that no rule disturbed and that is still open or returned nothing.
fn says_nothing(record: &Record) -> bool {
    let is_wait = record.class == Some(Class::Longpoll) && !record.was_faulted();
    let came_back = record.ended.as_ref();
    is_wait
        && came_back.is_none_or(|it| it.objects == 0 && it.fault.is_none() && it.broken.is_none())
}

fn line(record: &Record) -> String {
    if record.kind != Kind::Call {
        let mut text = record.op.clone();
        if let Some((at, _)) = text.char_indices().nth(140) {
            text.replace_range(at.., "…");
        }
        return format!("-- {text}");
    }
    let kind = record.target.kind.as_deref().unwrap_or("-");
    let mut line =
        format!("{:<11}{:<9}{:<54}{kind:<18}", record.client.client, record.server, record.op);
    match &record.ended {
        None => line.push('…'),
        Some(ended) => {
            let parts = [
                ended.status.map(|status| status.to_string()),
                ended.fault.clone(),
                ended.broken.map(str::to_owned),
            ];
            line.push_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(" "));
        }
    }
    for rule in record.rules.iter().filter(|rule| rule.fired) {
        write!(line, " [{}]", rule.rule).unwrap();
    }
    line.trim_end().to_owned()
}

/// Returns the fields of the Nodes that do not change with every heartbeat.
fn nodes(run: &Run) -> Vec<Value> {
    let shown = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().find(|it| it["type"] == "Ready").cloned();
        json!({
            "name": node["metadata"]["name"],
            "labels": node["metadata"]["labels"],
            "annotations": node["metadata"]["annotations"],
            "spec": node["spec"],
            "addresses": node["status"]["addresses"],
            "ready": ready.map(|it| it["status"].clone()),
        })
    };
    run.end.cluster.all(&GroupResource::core("nodes")).map(|node| shown(node)).collect()
}

/// Scenarios with a test of their own below.
const NAMED: &[&str] = &[
    "address-change",
    "credential-rotation",
    "fault-heal",
    "guest-info-lost",
    "join-conflict",
    "join-dual-stack",
    "join-duplicate-uuid",
    "join-late-guest",
    "join-uuid-empty",
    "lockout",
    "machine-deleted",
    "machine-deleted-refused",
    "machine-unreachable",
    "mass-vanish",
    "power-fault",
    "power-off",
    "power-on",
    "privilege-lost",
    "replace-same-name",
    "restart-in-outage",
    "restart-steady",
    "sigterm",
    "suspend",
    "tag-outage",
    "vcenter-down-of-two",
    "vmotion-zones",
    "zones",
    "zones-off",
];

/// Scenarios that are too long for a transcript. Other transcripts show the same behavior.
const LARGE: [&str; 2] = ["join-many", "many-changes"];

/// Returns the scenarios of checks of vCenter mode, each with the first check that uses it.
fn scenarios() -> BTreeMap<&'static str, &'static str> {
    let mut all = BTreeMap::new();
    for check in checks::all(Backend::VCenter) {
        let entry = catalogue::entry(check.id.as_str()).expect("the catalogue has the check");
        let scenario = entry.scenario.as_deref().unwrap_or_default();
        assert!(!scenario.is_empty(), "{} names no scenario", check.id);
        all.entry(scenario).or_insert(check.id.as_str());
    }
    all
}

#[test]
fn every_scenario_of_the_catalogue_matches_its_snapshot() {
    for (scenario, id) in scenarios() {
        if !NAMED.contains(&scenario) && !LARGE.contains(&scenario) {
            let name = format!("scenario_{}", scenario.replace('-', "_"));
            insta::assert_snapshot!(name, check(scenario, id, ""));
        }
    }
}

#[test]
fn every_scenario_snapshot_belongs_to_a_scenario_of_the_catalogue() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots");
    let all = scenarios();
    for named in NAMED {
        assert!(all.contains_key(named), "no check is built on {named}");
    }
    let mut wanted: Vec<String> = all
        .keys()
        .filter(|it| !NAMED.contains(*it) && !LARGE.contains(*it))
        .map(|it| format!("it__snapshots__scenario_{}.snap", it.replace('-', "_")))
        .collect();
    wanted.sort();
    let mut there: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("it__snapshots__scenario_") && name.ends_with(".snap"))
        .collect();
    there.sort();
    assert_eq!(there, wanted);
}

macro_rules! transcripts {
    ($($name:ident: $text:expr;)*) => {$(
        #[test]
        fn $name() {
            insta::assert_snapshot!(stringify!($name), $text);
        }
    )*};
}

transcripts! {
    phase_join: phase("join");
    phase_steady: phase("steady");
    phase_not_ready: phase("not-ready");
    phase_delete: phase("delete");
    phase_change: phase("change");
    phase_session_lost: phase("session-lost");
    phase_takeover: phase("takeover");

    join_to_delete: life();
    leader_killed_then_stopped: failover();

    join_late_guest: check("join-late-guest", "NODE-INIT-002", "");
    join_conflict: check("join-conflict", "NODE-032", "");
    join_duplicate_uuid: check("join-duplicate-uuid", "NODE-ID-005", "in one vCenter");
    join_duplicate_uuid_elsewhere: check("join-duplicate-uuid", "NODE-ID-005", "in two vCenters");
    join_uuid_empty: check("join-uuid-empty", "NODE-ID-002", "");
    join_dual_stack: check("join-dual-stack", "NODE-ADDR-008", "");
    restart: check("restart-steady", "NODE-034", "");
    restart_in_outage: check("restart-in-outage", "LIVE-003", "vCenter down, nodes known");
    address_change: check("address-change", "NODE-016", "");
    guest_info_lost: check("guest-info-lost", "NODE-018", "");
    power_off: check("power-off", "LIFE-005", "");
    power_on: check("power-on", "LIFE-007", "");
    power_fault: check("power-fault", "LIFE-009", "after a restart");
    suspend: check("suspend", "NODE-SHUT-003", "");
    machine_deleted: check("machine-deleted", "LIFE-001", "");
    machine_deleted_refused: check("machine-deleted-refused", "LIFE-012", "");
    machine_unreachable: check("machine-unreachable", "NODE-DEL-004", "");
    mass_vanish: check("mass-vanish", "NODE-DEL-008", "");
    replace_same_name: check("replace-same-name", "NODE-ID-004", "");
    vcenter_down_of_two: check("vcenter-down-of-two", "ISO-001", "stopped");
    vcenter_restart: check("fault-heal", "LIVE-002", "vCenter gone for two minutes");
    privilege_lost: check("privilege-lost", "NODE-DEL-007", "");
    lockout: check("lockout", "SESS-007", "");
    credential_rotation: check("credential-rotation", "SESS-008", "");
    zones: check("zones", "ZONE-001", "");
    zones_off: check("zones-off", "ZONE-006", "");
    zones_vmotion: check("vmotion-zones", "ZONE-005", "");
    tag_outage: check("tag-outage", "ZONE-007", "");
    sigterm: check("sigterm", "SESS-004", "");
}

#[test]
fn the_events_of_a_life_match_their_snapshot() {
    let run = run(&lives::usual(), &Stage::default());
    let events = GroupResource::core("events");
    let mut shown: Vec<String> = run
        .end
        .cluster
        .all(&events)
        .map(|event| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            format!(
                "{} {} {}: {}",
                text(&event["involvedObject"]["name"]),
                text(&event["type"]),
                text(&event["reason"]),
                text(&event["message"])
            )
        })
        .collect();
    shown.sort();
    insta::assert_snapshot!("the_events_of_a_life_match_their_snapshot", shown.join("\n"));
}
