//! Plays the checks of servers for the Cluster Autoscaler against the reference, in virtual time: it
//! passes all, and with a flaw it fails exactly the checks that the flaw names.

use std::collections::{BTreeMap, BTreeSet};

use conformance::checks::autoscaler::{AutoscalerCheck, Need, all};
use conformance::judge::verdict::Verdict;
use conformance::lab::autoscaler::{
    Asked, Credentials, Flaw, Generation, Reference, Session, Subject, Transcript, Wire,
};
use conformance::lab::in_virtual_time;

/// Returns the number of a check, such as 42.
fn number(check: &AutoscalerCheck) -> u16 {
    check.id.as_str().trim_start_matches("CA-").parse().unwrap()
}

/// Plays all checks in all their generations, each against a new reference. Returns the verdicts
/// that are not passes.
fn against_reference(flaw: Option<Flaw>, wire: Wire) -> BTreeMap<String, Verdict> {
    let mut verdicts = BTreeMap::new();
    for check in all() {
        for generation in check.generations {
            let (verdict, _) = in_virtual_time(async {
                let wire = if check.need == Need::Tls { Wire::Tls } else { wire };
                check.play(&Reference::new(flaw, wire).subject(), *generation).await
            });
            if verdict != Verdict::Pass {
                let number = number(&check);
                verdicts.insert(format!("{number} {}", generation.as_str()), verdict);
            }
        }
    }
    verdicts
}

#[test]
fn the_reference_passes_every_check() {
    assert_eq!(against_reference(None, Wire::Plain), BTreeMap::new());
}

#[test]
fn a_reference_with_a_flaw_fails_exactly_the_checks_that_the_flaw_names() {
    let threads = std::thread::available_parallelism().unwrap().get();
    let n_per_thread = Flaw::ALL.len().div_ceil(threads);
    let mut wrong: Vec<String> = std::thread::scope(|scope| {
        let judge = |flaws: &'static [Flaw]| {
            scope.spawn(move || flaws.iter().filter_map(judge_flaw).collect())
        };
        let threads: Vec<_> = Flaw::ALL.chunks(n_per_thread).map(judge).collect();
        threads.into_iter().flat_map(|it| -> Vec<String> { it.join().unwrap() }).collect()
    });
    wrong.sort();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn judge_flaw(flaw: &Flaw) -> Option<String> {
    let verdicts = against_reference(Some(*flaw), Wire::Memory);
    let is_failure = |it: &&Verdict| matches!(it, Verdict::Fail(_));
    let number = |key: &String| key.split(' ').next().unwrap().parse::<u16>().unwrap();
    let failed: BTreeSet<u16> =
        verdicts.iter().filter(|(_, it)| is_failure(it)).map(|(key, _)| number(key)).collect();
    let wanted: BTreeSet<u16> = flaw.fails().iter().copied().collect();
    (failed != wanted).then(|| {
        let shown: Vec<String> = verdicts.iter().map(|(id, it)| format!("  {id}: {it}")).collect();
        format!("{flaw:?} fails {failed:?}, not {wanted:?}\n{}", shown.join("\n"))
    })
}

#[test]
fn every_check_of_servers_fails_for_a_flaw() {
    let failed: BTreeSet<u16> = Flaw::ALL.iter().flat_map(|it| it.fails()).copied().collect();
    let checks: BTreeSet<u16> = all().iter().map(number).collect();
    assert_eq!(failed, checks);
}

#[test]
fn a_run_of_all_checks_on_one_server_leaves_its_groups_as_they_were() {
    in_virtual_time(async {
        let subject = Reference::new(None, Wire::Memory).subject();
        let before = sizes(&subject).await;
        for check in all().iter().filter(|it| it.need != Need::Tls) {
            for generation in check.generations {
                let (verdict, _) = check.play(&subject, *generation).await;
                assert_eq!(verdict, Verdict::Pass, "{} {generation:?}", check.id);
                assert_eq!(sizes(&subject).await, before, "{} {generation:?}", check.id);
            }
        }
    });
}

#[test]
fn machines_that_were_there_before_survive_a_run_of_all_checks() {
    in_virtual_time(async {
        let known = Reference::new(None, Wire::Memory).subject();
        let subject = Subject { may_delete_existing: false, ..known };
        session(&subject).await.increase("pool", 7).await.unwrap();
        let before = live(&subject).await;
        let mut judged = BTreeMap::new();
        for check in all().iter().filter(|it| it.need != Need::Tls) {
            let (verdict, _) = check.play(&subject, check.generations[0]).await;
            assert_eq!(live(&subject).await, before, "{}", check.id);
            judged.insert(check.id.as_str(), verdict.word());
        }
        let not_passed: BTreeMap<_, _> =
            judged.iter().filter(|(_, word)| **word != "pass").collect();
        insta::assert_debug_snapshot!(not_passed);
    });
}

/// Returns the instances of each group.
async fn live(subject: &Subject) -> Vec<BTreeSet<String>> {
    let session = session(subject).await;
    let mut all = Vec::new();
    for group in session.groups().await.unwrap() {
        all.push(session.live(&group.id).await.unwrap());
    }
    all
}

async fn session(subject: &Subject) -> Session {
    let channel = subject.endpoint.connect(Credentials::Expected).await.unwrap().channel;
    let (transcript, asked) = (Transcript::default(), Asked::default());
    Session::new(channel, Generation::G3, subject.deadline, transcript, asked)
}

/// Returns the size of each group.
async fn sizes(subject: &Subject) -> Vec<(String, i32)> {
    let session = session(subject).await;
    let mut sizes = Vec::new();
    for group in session.groups().await.unwrap() {
        let size = session.target(&group.id).await.unwrap();
        sizes.push((group.id, size));
    }
    sizes
}

#[test]
fn without_knowledge_and_permission_nothing_is_judged_that_needs_them() {
    let judged = |flaw, id: &str| {
        in_virtual_time(async {
            let known = Reference::new(flaw, Wire::Memory).subject();
            let subject = Subject { overrides: None, control: None, may_change: false, ..known };
            let check = all().into_iter().find(|it| it.id.as_str() == id).unwrap();
            check.play(&subject, Generation::G1).await.0
        })
    };
    for (id, word) in [
        ("CA-008", "pass"),
        ("CA-037", "skipped"),
        ("CA-042", "skipped"),
        ("CA-046", "skipped"),
        ("CA-003", "not-supported"),
    ] {
        assert_eq!(judged(None, id).word(), word, "{id}");
    }
    // Without knowledge a constant looks like an override; another value does not.
    assert_eq!(judged(Some(Flaw::IgnoresDefaults), "CA-038").word(), "pass");
    assert_eq!(judged(Some(Flaw::ThresholdAboveOne), "CA-041").word(), "FAIL");
}

#[test]
fn an_address_without_a_server_is_refused_and_not_judged() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("server.yaml");
    let text = format!(
        "apiVersion: sim.vsphere/v1alpha1\nkind: Provider\nmetadata: {{name: none}}\n\
         spec: {{mode: autoscaler, address: '{closed}'}}\n"
    );
    std::fs::write(&manifest, text).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_conformance"))
        .args(["run", "CA-00", "--provider"])
        .arg(&manifest)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{shown}");
    assert!(shown.contains("spec.address") && shown.contains("start the server"), "{shown}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_server_at_a_socket_is_judged_by_its_manifest() {
    let (sender, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(socket.local_addr().unwrap()).unwrap();
            Reference::new(Some(Flaw::AcceptsNoIncrease), Wire::Plain)
                .listen(socket)
                .await
                .unwrap();
        });
    });
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("server.yaml");
    let text = format!(
        "apiVersion: sim.vsphere/v1alpha1\nkind: Provider\nmetadata: {{name: reference}}\n\
         spec: {{mode: autoscaler, address: '{}', changes: true, overrides: {{tuned: \
         [scaleDownUnneededTime]}}, acts: {{command: [sh, -c, exit 3]}}}}\n",
        address.recv().unwrap()
    );
    std::fs::write(&manifest, text).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_conformance"))
        .args(["run", "CA-003", "CA-008", "CA-037", "CA-042", "CA-043", "CA-046", "--provider"])
        .arg(&manifest)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    for (id, word) in [
        ("CA-003", "not-supported"),
        ("CA-008", "pass"),
        ("CA-037", "pass"),
        ("CA-042", "pass"),
        ("CA-043", "FAIL"),
        ("CA-046", "skipped"),
    ] {
        let line = shown.lines().find(|it| it.starts_with(id)).unwrap_or_default();
        assert_eq!(line.split_whitespace().nth(1), Some(word), "{shown}");
    }
}
