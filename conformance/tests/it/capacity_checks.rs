//! Plays the checks of reconcilers of machine templates against the reference, in virtual time: it
//! passes all, and with a flaw it fails exactly the checks that the flaw names.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use conformance::checks::capacity::{CapacityCheck, Scope, all};
use conformance::judge::verdict::Verdict;
use conformance::lab::capacity::{
    Configuration, FaultyReader, Flaw, Management, NotStarted, OurReader, Pace, Reader, ReaderFlaw,
    Reconciler, Reference, Running, Subject, TemplateKind,
};
use conformance::lab::in_virtual_time;

/// Returns the number of a check, such as 32.
fn number(check: &CapacityCheck) -> u16 {
    check.id.as_str().trim_start_matches("CAPZ-").parse().unwrap()
}

fn subject(flaw: Option<Flaw>, reader: impl Reader + 'static) -> Subject {
    Subject {
        reconciler: Arc::new(Reference { example: None, flaw }),
        reader: Some(Arc::new(reader)),
        kind: TemplateKind::of_supervisor(),
        is_vsphere: true,
        pace: Pace {
            quiet: Duration::from_secs(30),
            look: Duration::from_secs(1),
            ..Pace::VIRTUAL
        },
    }
}

/// Plays all checks that `is_meant` selects. Returns the verdicts that are not passes, by number.
fn judged(subject: &Subject, is_meant: impl Fn(&CapacityCheck) -> bool) -> BTreeMap<u16, Verdict> {
    let mut verdicts = BTreeMap::new();
    for check in all().iter().filter(|it| is_meant(it)) {
        let (verdict, ..) = in_virtual_time(check.play(subject, 0));
        if verdict != Verdict::Pass {
            verdicts.insert(number(check), verdict);
        }
    }
    verdicts
}

/// Returns how the failures differ from the wanted ones.
fn deviation(name: &str, verdicts: &BTreeMap<u16, Verdict>, wanted: &[u16]) -> Option<String> {
    let failed = verdicts.iter().filter(|(_, it)| matches!(it, Verdict::Fail(_)));
    let failed: BTreeSet<u16> = failed.map(|(number, _)| *number).collect();
    let is_right = failed == wanted.iter().copied().collect() && failed.len() == verdicts.len();
    (!is_right).then(|| {
        let shown: Vec<String> = verdicts.iter().map(|(id, it)| format!("  {id}: {it}")).collect();
        format!("{name} fails {failed:?}, not {wanted:?}\n{}", shown.join("\n"))
    })
}

#[test]
fn the_reference_passes_every_check() {
    assert_eq!(judged(&subject(None, OurReader), |_| true), BTreeMap::new());
}

#[test]
fn a_reconciler_with_a_flaw_fails_exactly_the_checks_that_the_flaw_names() {
    let threads = std::thread::available_parallelism().unwrap().get();
    let judge_flaw = |flaw: &Flaw| {
        let verdicts = judged(&subject(Some(*flaw), OurReader), |it| it.scope != Scope::Reader);
        deviation(flaw.as_str(), &verdicts, flaw.fails())
    };
    let mut wrong: Vec<String> = std::thread::scope(|scope| {
        let judge = |n: usize| {
            let flaws = Flaw::ALL.iter().skip(n).step_by(threads);
            scope.spawn(move || flaws.filter_map(judge_flaw).collect())
        };
        let threads: Vec<_> = (0..threads).map(judge).collect();
        threads.into_iter().flat_map(|it| -> Vec<String> { it.join().unwrap() }).collect()
    });
    wrong.sort();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_reader_with_a_flaw_fails_exactly_the_checks_that_the_flaw_names() {
    let judges_reader = |it: &CapacityCheck| it.scope == Scope::Reader || number(it) == 20;
    let judge = |flaw: &ReaderFlaw| {
        let verdicts = judged(&subject(None, FaultyReader(*flaw)), judges_reader);
        deviation(flaw.as_str(), &verdicts, flaw.fails())
    };
    let wrong: Vec<String> = ReaderFlaw::ALL.iter().filter_map(judge).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A reconciler that sends no request.
struct Idle;

impl Reconciler for Idle {
    fn start<'a>(
        &'a self,
        _: &'a Management,
        _: &'a Configuration,
    ) -> BoxFuture<'a, Result<Box<dyn Running>, NotStarted>> {
        Box::pin(async { Ok(Box::new(Self) as Box<dyn Running>) })
    }
}

impl Running for Idle {
    fn stop(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    fn end(&mut self) -> Option<String> {
        None
    }
}

#[test]
fn a_reconciler_that_sends_no_request_fails_every_check_of_reconcilers() {
    let subject = Subject { reconciler: Arc::new(Idle), ..subject(None, OurReader) };
    let verdicts = judged(&subject, |it| it.scope != Scope::Reader);
    let wanted: Vec<u16> =
        all().iter().filter(|it| it.scope != Scope::Reader).map(number).collect();
    assert_eq!(deviation("Idle", &verdicts, &wanted), None);
    let why = verdicts[&3].to_string();
    assert!(why.contains("reads no vspheremachinetemplates"), "{why}");
}

#[test]
fn an_act_after_the_end_of_the_held_write_is_inconclusive() {
    let mut subject = subject(None, OurReader);
    subject.pace.hold = Duration::from_millis(1);
    let verdicts = judged(&subject, |it| [17, 32].contains(&number(it)));
    let words: Vec<_> = verdicts.values().map(Verdict::word).collect();
    assert_eq!(words, ["inconclusive", "inconclusive"], "{verdicts:?}");
}

#[test]
fn a_half_that_cannot_be_judged_makes_a_check_partial_or_skipped() {
    let mut subject = subject(None, OurReader);
    subject.kind.samples.truncate(1);
    let verdicts = judged(&subject, |it| number(it) == 6);
    assert!(matches!(&verdicts[&6], Verdict::Partial(_)), "{verdicts:?}");
    subject.kind.samples[0].status.node_info.clear();
    let verdicts = judged(&subject, |it| number(it) == 18);
    assert!(matches!(&verdicts[&18], Verdict::Skipped(_)), "{verdicts:?}");
}

#[test]
fn every_check_of_reconcilers_and_readers_fails_for_a_flaw() {
    let of_reconciler = Flaw::ALL.iter().flat_map(|it| it.fails());
    let of_reader = ReaderFlaw::ALL.iter().flat_map(|it| it.fails());
    let failed: BTreeSet<u16> = of_reconciler.chain(of_reader).copied().collect();
    let checks: BTreeSet<u16> = all().iter().map(number).collect();
    assert_eq!(failed, checks);
}

#[test]
fn without_a_reader_the_checks_of_readers_are_skipped() {
    let subject = Subject { reader: None, ..subject(None, OurReader) };
    let verdicts = judged(&subject, |it| it.scope == Scope::Reader);
    assert_eq!(verdicts.len(), 7);
    assert!(verdicts.values().all(|it| matches!(it, Verdict::Skipped(_))), "{verdicts:?}");
}

/// Returns a path in the folder of the examples.
fn example(name: &str) -> String {
    format!("{}/examples/capacity/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn conformance(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
    command.arg("run").args(arguments).output().unwrap()
}

/// Returns the word of the verdict of each check in a table.
fn words(output: &Output) -> BTreeMap<String, String> {
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = shown.lines().filter(|it| it.starts_with("CAPZ-") && it.contains(" cases  "));
    let parts = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next().unwrap().to_owned(), words.next().unwrap().to_owned())
    };
    lines.map(parts).collect()
}

/// Judges the reconciler of an example.
fn judge_example(name: &str, more: &[&str]) -> Output {
    let (definition, manifest) =
        (example(&format!("{name}.crd.yaml")), example(&format!("{name}.yaml")));
    let flags = ["--template-crd", &definition, "--provider", &manifest, "--surface", "capacity"];
    conformance(&[more, &flags].concat())
}

#[test]
fn reconcilers_of_three_platforms_pass_what_applies_to_their_kinds() {
    // Kind, checks that are skipped beside those of vSphere and readers, checks that are partial.
    for (name, skipped, partial) in [
        ("instance-type", &["CAPZ-003"][..], &[][..]),
        ("sizes", &["CAPZ-003", "CAPZ-018"], &["CAPZ-016", "CAPZ-017"]),
        ("flavor", &["CAPZ-018"], &[]),
    ] {
        let output = judge_example(name, &[]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{name}: {text}");
        let words = words(&output);
        assert_eq!(words.len(), 32, "{text}");
        for check in all() {
            let id = check.id.as_str();
            let expected = match check.scope {
                Scope::Vsphere | Scope::Reader => "skipped",
                Scope::AnyKind if skipped.contains(&id) => "skipped",
                Scope::AnyKind if partial.contains(&id) => "partial",
                Scope::AnyKind => "pass",
            };
            assert_eq!(words[id], expected, "{name} {id}: {text}");
        }
    }
}

#[test]
fn a_flawed_reconciler_of_another_platform_fails() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(example("instance-type.yaml")).unwrap();
    let text = text.replace("example-reconciler,", "example-reconciler, --flaw=IgnoresPause,");
    let manifest = folder.path().join("manifest.yaml").display().to_string();
    std::fs::write(&manifest, text).unwrap();
    let definition = example("instance-type.crd.yaml");
    let output = conformance(&[
        "CAPZ-001",
        "CAPZ-013",
        "--template-crd",
        &definition,
        "--provider",
        &manifest,
    ]);
    let words = words(&output);
    assert_eq!(output.status.code(), Some(1), "{words:?}");
    assert_eq!((&*words["CAPZ-001"], &*words["CAPZ-013"]), ("pass", "FAIL"));
}

#[test]
fn input_that_describes_no_reconciler_is_refused_before_any_check() {
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str, text: &str| {
        let path = folder.path().join(name).display().to_string();
        std::fs::write(&path, text).unwrap();
        path
    };
    let read = |name: &str| std::fs::read_to_string(example(name)).unwrap();
    let (definition, manifest) = (example("sizes.crd.yaml"), example("sizes.yaml"));
    let without = written("a.yaml", &read("sizes.crd.yaml").replace("capacity:", "conditions:"));
    let unknown = written("b.yaml", &read("sizes.yaml").replace("quiet:", "silence:"));
    let sizes = read("sizes.yaml");
    let (before, _) = sizes.split_once("    samples:").unwrap();
    let empty = written("c.yaml", &format!("{before}    samples: []\n"));
    let stock = written("d.yaml", &read("sizes.yaml").replace("$(conformance)", "/bin/false"));
    let lost = written("e.yaml", &read("sizes.yaml").replace("$(conformance)", "/no/program"));
    let info = "nodeInfo: {architecture: amd64, operatingSystem: linux}";
    let status = "capacity: {cpu: \"16\", memory: 8Gi}";
    let informed =
        written("f.yaml", &read("sizes.yaml").replace(status, &format!("{status}, {info}")));
    let server = written(
        "g.yaml",
        "apiVersion: sim.vsphere/v1alpha1\nkind: Provider\nmetadata: {name: x}\n\
         spec: {mode: autoscaler, address: '127.0.0.1:1'}\n",
    );
    for (flags, code, expected) in [
        (&["--provider", &manifest][..], 2, "--template-crd"),
        (&["--provider", &manifest, "--template-crd", &without], 2, "properties.capacity"),
        (&["--provider", &unknown, "--template-crd", &definition], 2, "spec.capacity.silence"),
        (&["--provider", &empty, "--template-crd", &definition], 2, "samples: []: has no sample"),
        (&["--provider", &server, "--template-crd", &definition], 2, "mode: capacity"),
        (&["--provider", &informed, "--template-crd", &definition], 2, "change.status.nodeInfo"),
        (&["--provider", &lost, "--template-crd", &definition], 3, "spec.run.process.command"),
        (&["--provider", "stock-ccm", "--template-crd", &definition], 2, "mode: capacity"),
        (&["--template-crd", &definition], 2, "--provider"),
        (&["--provider", &stock, "--template-crd", &definition], 3, "before its first request"),
    ] {
        let output = conformance(&[&["CAPZ"], flags].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {error}");
        assert!(error.contains(expected), "{flags:?}: {error}");
        assert!(words(&output).is_empty());
        assert!(code == 2 || error.contains("remedy: "), "{flags:?}: {error}");
    }
}

#[test]
fn rules_of_further_definitions_are_left_out_with_a_notice() {
    let folder = tempfile::tempdir().unwrap();
    let definition = std::fs::read_to_string(example("flavors.crd.yaml")).unwrap();
    let schema = "openAPIV3Schema:\n        type: object\n";
    let rules = "        x-kubernetes-validations: [{rule: 'self.spec.vcpus > 100'}]\n";
    assert!(definition.contains(schema));
    let path = folder.path().join("flavors.crd.yaml");
    std::fs::write(&path, definition.replace(schema, &format!("{schema}{rules}"))).unwrap();
    let manifest = folder.path().join("flavor.yaml").display().to_string();
    std::fs::copy(example("flavor.yaml"), &manifest).unwrap();
    let definition = example("flavor.crd.yaml");
    let flags = ["CAPZ-001", "--template-crd", &definition, "--provider", &manifest];
    let output = conformance(&flags);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let notice = format!("x-kubernetes-validations of {} are not checked", path.display());
    assert!(text.contains(&notice), "{text}");
}
