//! Tests `conformance judge`: a recording shows the violations of its run, and files without a run
//! do not pass.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use conformance::judge::{self, Invariant};
use conformance::lab::{RecordedRun, Run, Stage, run};
use conformance::lives;
use conformance::scenario::{Backend, ProviderSetup};
use provider::Mutant;
use sim::ledger::Record;
use sim::world::objects::{self, Key};
use sim::world::{Command, Time};

/// Writes the recording and the ledger of a run, as `sim serve` does.
fn write(run: &Run, directory: &Path) {
    std::fs::write(directory.join("recording"), recording(run)).unwrap();
    let note = sim::Recording::note(run.log.base().unwrap());
    let note = serde_json::json!({"seq": 1, "t": 0, "kind": "note", "op": note}).to_string() + "\n";
    let calls = run.ledger.iter().cloned().zip(2..);
    let lines = calls.map(|(it, seq)| Record { seq, ..it }.to_line() + "\n");
    let ledger: String = std::iter::once(note).chain(lines).collect();
    std::fs::write(directory.join("ledger"), ledger).unwrap();
}

fn recording(run: &Run) -> Vec<u8> {
    // A run ends before the lab asks the provider to stop, so the recording lasts until the last
    // event.
    let until = run.log.entries().last().unwrap().0;
    let mut recording = Vec::new();
    sim::write_recording(&run.log, until, &mut recording).unwrap();
    recording
}

fn judge(directory: &Path, more: &[&str]) -> (Option<i32>, String) {
    let file = |name: &str| directory.join(name).display().to_string();
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_conformance"));
    program.args(["judge", "--record", &file("recording"), "--ledger", &file("ledger")]).args(more);
    let Output { status, stdout, stderr } = program.output().unwrap();
    let told = [stdout, stderr].concat();
    (status.code(), String::from_utf8_lossy(&told).into_owned())
}

fn played(backend: Backend, mutant: Option<Mutant>) -> Run {
    run(&lives::usual(), &Stage { mode: backend.into(), mutant, ..Stage::default() })
}

/// Returns the run as `conformance judge` reads it from its recording.
fn recorded(run: &Run) -> Run {
    let recorded = RecordedRun {
        recording: sim::read_recording(&recording(run)[..]).unwrap(),
        ledger: run.ledger.clone(),
        of_others: Vec::new(),
        provider_log: run.logs.clone(),
        tokens: run.tokens.clone(),
        mode: run.stage.mode,
        provider: ProviderSetup::default(),
        starts: vec![run.log.base().unwrap().epoch()],
        killed: false,
    };
    recorded.into_run().unwrap()
}

#[test]
fn a_run_and_its_recording_have_the_same_violations() {
    let mutants = [
        (Backend::VCenter, None, &[][..]),
        (Backend::Supervisor, None, &[]),
        (Backend::VCenter, Some(Mutant::AlwaysWriteAddresses), &[Invariant::NoIdleWrite]),
        (Backend::Supervisor, Some(Mutant::AlwaysWriteAddresses), &[Invariant::NoIdleWrite]),
        (Backend::VCenter, Some(Mutant::NoLogout), &[Invariant::NoSessionLeft]),
        (Backend::VCenter, Some(Mutant::LoginPerCall), &[Invariant::FewSessions]),
    ];
    for (backend, mutant, wanted) in mutants {
        let run = played(backend, mutant);
        let of = |run: &Run| {
            let found = judge::safety(run).into_iter();
            found.map(|it| (it.invariant, it.text)).collect::<Vec<_>>()
        };
        let (live, read) = (of(&run), of(&recorded(&run)));
        assert_eq!(live, read, "{backend} {mutant:?}");
        let broken = |invariant: &Invariant| live.iter().any(|(it, _)| it == invariant);
        assert!(wanted.iter().all(broken), "{backend} {mutant:?}: {live:?}");
        assert_eq!(live.is_empty(), wanted.is_empty(), "{backend} {mutant:?}: {live:?}");
    }
}

#[test]
fn a_recording_without_a_defect_passes_and_one_with_a_defect_fails_with_its_invariant() {
    let directory = tempfile::tempdir().unwrap();
    let mode = |it: Backend| ["--mode", it.as_str(), "--start", "2026-01-01T00:00:00Z"];
    for backend in Backend::ALL {
        write(&played(backend, None), directory.path());
        let (code, told) = judge(directory.path(), &mode(backend));
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains("judged invariants held"), "{told}");
        assert!(told.contains("not judged, because --settled is not given"), "{told}");

        write(&played(backend, Some(Mutant::AlwaysWriteAddresses)), directory.path());
        let (code, told) = judge(directory.path(), &mode(backend));
        assert!(code == Some(1) && told.contains("FAIL invariant 22 at"), "{code:?}: {told}");
        let exempt = ["--exempt", "22=it repeats its writes"];
        let (code, told) = judge(directory.path(), &[&mode(backend)[..], &exempt].concat());
        assert!(code == Some(0) && told.contains("exempt: invariant 22 at"), "{code:?}: {told}");
    }
}

#[test]
fn a_policy_is_reported_and_fails_only_if_policies_count() {
    let directory = tempfile::tempdir().unwrap();
    write(&played(Backend::VCenter, Some(Mutant::NoLogout)), directory.path());
    let asked = ["--mode", "vcenter", "--start", "2026-01-01T00:00:00Z"];
    let (code, told) = judge(directory.path(), &asked);
    assert!(code == Some(0) && told.contains("policy: invariant 54"), "{code:?}: {told}");
    let (code, told) = judge(directory.path(), &[&asked[..], &["--policies"]].concat());
    assert!(code == Some(1) && told.contains("FAIL invariant 54"), "{code:?}: {told}");
    let (code, told) = judge(directory.path(), &[&asked[..], &["--policies", "--killed"]].concat());
    assert!(code == Some(0) && told.contains("because --killed is given: 54"), "{code:?}: {told}");
}

#[test]
fn a_secret_in_the_log_of_the_provider_is_found() {
    let directory = tempfile::tempdir().unwrap();
    write(&played(Backend::Supervisor, None), directory.path());
    let file = |name: &str| directory.path().join(name).display().to_string();
    let asked =
        ["--mode", "supervisor", "--provider-log", &file("log"), "--secret", &file("token")];
    std::fs::write(file("token"), "0123456789abcdef-token\n").unwrap();
    for (log, wanted) in [("Bearer of nothing", 0), ("Bearer 0123456789abcdef-token", 1)] {
        std::fs::write(file("log"), log).unwrap();
        let (code, told) = judge(directory.path(), &asked);
        assert_eq!(code, Some(wanted), "{told}");
        assert_eq!(told.contains("FAIL invariant 63"), wanted == 1, "{told}");
    }
    std::fs::write(file("token"), "\n").unwrap();
    let (code, told) = judge(directory.path(), &asked);
    assert!(
        code == Some(2) && told.contains("--secret") && told.contains("the file is empty"),
        "{told}"
    );
}

#[test]
fn a_recording_in_which_the_provider_made_no_call_is_inconclusive() {
    let directory = tempfile::tempdir().unwrap();
    let mut run = played(Backend::VCenter, None);
    let kubectl = |call: &mut Record| call.client.user_agent = "kubectl/v1.36".to_owned();
    run.ledger.iter_mut().for_each(kubectl);
    write(&run, directory.path());
    let is_inconclusive = || {
        let (code, told) = judge(directory.path(), &["--mode", "vcenter"]);
        assert!(code == Some(7) && told.contains("no call of the provider"), "{code:?}: {told}");
    };
    is_inconclusive();
    // The recording of a world in which nothing happened.
    let recording = std::fs::read_to_string(directory.path().join("recording")).unwrap();
    let head = recording.lines().next().unwrap().to_owned();
    let empty = head + "\n{\"until\":0,\"end\":true}\n";
    std::fs::write(directory.path().join("recording"), empty).unwrap();
    is_inconclusive();
}

#[test]
fn a_start_outside_the_recording_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let run = played(Backend::VCenter, None);
    write(&run, directory.path());
    let with = |start: &str| judge(directory.path(), &["--mode", "vcenter", "--start", start]);
    // The clock of the world may be some seconds late, so the second start also counts.
    for start in ["2026-01-01T00:00:00Z", "2025-12-31T23:59:58Z"] {
        assert_eq!(with(start).0, Some(0), "{start}");
    }
    for start in ["2025-12-31T23:59:50Z", "2026-01-01T03:00:00Z"] {
        let (code, told) = with(start);
        let wanted = format!("--start {start}: the time is outside the recording");
        assert!(code == Some(2) && told.contains(&wanted), "{code:?}: {told}");
    }
}

#[test]
fn a_ledger_of_another_simulator_or_with_a_gap_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    write(&played(Backend::VCenter, None), directory.path());
    let ledger = directory.path().join("ledger");
    let text = std::fs::read_to_string(&ledger).unwrap();
    let refused = |text: &str, wanted: &str| {
        std::fs::write(&ledger, text).unwrap();
        let (code, told) = judge(directory.path(), &["--mode", "vcenter"]);
        assert!(code == Some(2) && told.contains(wanted), "{code:?}: {told}");
    };
    let other = text.replacen("recording of 2026-01-01", "recording of 2026-01-02", 1);
    refused(&other, "another simulator than that of");
    let gap: String = text.split_inclusive('\n').filter(|it| !it.contains("\"seq\":7,")).collect();
    refused(&gap, "record 7 is missing");
}

#[test]
fn the_last_calls_of_a_simulator_that_still_runs_may_be_missing() {
    let directory = tempfile::tempdir().unwrap();
    let run = played(Backend::VCenter, None);
    write(&run, directory.path());
    let (recording, ledger) = (directory.path().join("recording"), directory.path().join("ledger"));
    let text = std::fs::read_to_string(&recording).unwrap();
    std::fs::write(&recording, text.replace(",\"end\":true", "")).unwrap();
    let text = std::fs::read_to_string(&ledger).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let without = |missing: usize| {
        let kept = lines.iter().enumerate().filter(|(n, _)| *n != missing).map(|(_, it)| *it);
        std::fs::write(&ledger, kept.collect::<String>()).unwrap();
        judge(directory.path(), &["--mode", "vcenter", "--killed"])
    };
    let (code, told) = without(lines.len() - 2);
    assert!(code == Some(0) && told.contains("still runs or was killed"), "{code:?}: {told}");
    let (code, told) = without(lines.len() / 2);
    assert!(code == Some(2) && told.contains("is missing"), "{code:?}: {told}");
}

#[test]
fn a_recording_without_its_end_is_judged_until_its_last_mark() {
    let directory = tempfile::tempdir().unwrap();
    let run = played(Backend::VCenter, Some(Mutant::AlwaysWriteAddresses));
    write(&run, directory.path());
    // Ends the recording before the first write that changes nothing, which comes after five
    // minutes.
    let path = directory.path().join("recording");
    let text = std::fs::read_to_string(&path).unwrap();
    let end = 20_000_000_000;
    let is_early = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["t"].as_u64().is_none_or(|t| t < end) && line["until"].is_null()
    };
    let early: String = text.split_inclusive('\n').filter(|line| is_early(line)).collect();
    std::fs::write(&path, format!("{early}{{\"until\":{end}}}\n")).unwrap();
    let (code, told) = judge(directory.path(), &["--mode", "vcenter", "--killed"]);
    assert!(code == Some(0) && told.contains("still runs or was killed"), "{code:?}: {told}");
    assert!(told.contains("events until 20.000s"), "{told}");
}

#[test]
fn a_node_that_kubectl_deletes_is_not_deleted_by_the_provider() {
    let directory = tempfile::tempdir().unwrap();
    let key = Key::node("node-0001");
    let delete = objects::Command::delete(key);
    let scenario = lives::usual().at(Duration::from_secs(100), Command::Cluster(delete));
    let mut run = run(&scenario, &Stage::default());
    let from = Time::after_start(Duration::from_secs(100));
    let call = run.calls().find(|call| call.op == "delete nodes").unwrap();
    let (mut call, mut ended) = (call.clone(), call.ended.clone().unwrap());
    (call.t, ended.at, call.target.name) = (from, from, Some("node-0001".to_owned()));
    call.ended = Some(ended);
    // If kubectl's request was refused, only the provider can have deleted the Node.
    for (agent, status, wanted) in
        [("kubectl/v1.36", 200, 0), ("another", 200, 1), ("kubectl/v1.36", 403, 1)]
    {
        call.client.user_agent = agent.to_owned();
        call.ended.as_mut().unwrap().status = Some(status);
        run.ledger.push(call.clone());
        write(&run, directory.path());
        let (code, told) = judge(directory.path(), &["--mode", "vcenter"]);
        assert_eq!(code, Some(wanted), "{told}");
        assert_eq!(told.contains("FAIL invariant 1 at"), wanted == 1, "{told}");
        run.ledger.pop();
    }
}

#[test]
fn a_file_that_is_not_a_recording_is_refused_with_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |file: &str, text: &str, wanted: &str| {
        let scenario = lives::usual();
        let scenario =
            conformance::scenario::Scenario { horizon: Duration::from_secs(5), ..scenario };
        write(&run(&scenario, &Stage::default()), directory.path());
        std::fs::write(directory.path().join(file), text).unwrap();
        let (code, told) = judge(directory.path(), &["--mode", "vcenter"]);
        assert!(code == Some(2) && told.contains(wanted), "{code:?}: {told}");
    };
    refused("recording", "{}\n", "line 1: ");
    refused("recording", "", "name a file of `sim serve --record`");
    refused("ledger", "no ledger\n", "line 1: ");
    let (code, told) = judge(Path::new("/nowhere"), &["--mode", "vcenter"]);
    assert!(code == Some(2) && told.contains("--record /nowhere/recording"), "{code:?}: {told}");
    let (code, told) = judge(directory.path(), &["--mode", "vcenter", "--exempt", "3=x"]);
    assert!(code == Some(2) && told.contains("no invariant has the number 3"), "{code:?}: {told}");
}
