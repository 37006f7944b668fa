//! The command line: what it explains, and how it refuses.

use std::process::{Command, Output};

fn conformance(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_conformance"));
    program.args(arguments).output().expect("the program was built with this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn it_explains_itself() {
    let output = conformance(&["--help"]);
    assert!(output.status.success());
    insta::assert_snapshot!("help", text(&output.stdout));
}

#[test]
fn it_explains_a_check() {
    let output = conformance(&["explain", "NODE-DEL-010"]);
    assert!(output.status.success());
    insta::assert_snapshot!("explain", text(&output.stdout));
}

#[test]
fn wrong_usage_ends_with_2_and_a_remedy() {
    for (arguments, remedy) in [
        (vec!["explain", "NODE-DEL-099"], "is it NODE-"),
        (vec!["explain", ""], "conformance list --all"),
        (vec!["run", "???"], "conformance list"),
        (vec!["run", "NODE-INIT-001", "NODE-INIT-0O2"], "is it NODE-INIT-00"),
        (vec!["run", "--surface", "nodes"], "is it node?"),
        (
            vec!["run", "NODE-INIT-001", "--out", "/proc/nope"],
            "--out /proc/nope: cannot be written to; choose a folder",
        ),
        (vec!["list", "NO-SUCH-CHECK"], "no check is called"),
        (vec!["list", "--surface", "zones"], "is it zone?"),
        (vec!["sweep", "--sample", "0"], "--sample"),
        (vec!["run", "--mutant", "Nope"], "there are ErrorIsGone"),
        (vec!["runn"], "run"),
        (vec!["kubernetes", "diff", "--server", "https://x"], "--token"),
        (vec!["kubernetes", "diff", "--token", "t"], "--server"),
        (vec!["kubernetes", "fuzz", "--etcd", "http://x"], "--server"),
        (
            vec!["kubernetes", "diff", "--server", "x", "--token", "t"],
            "'x' for '--server <SERVER>'",
        ),
        (
            vec!["kubernetes", "fuzz", "--server", "https://", "--token", "t"],
            "give one like https://",
        ),
        (vec!["kubernetes", "diff", "--only", "no-such"], "--only no-such: no sequence"),
        (vec!["kubernetes", "record", "--only", "no-such"], "`conformance kubernetes list`"),
        (vec!["kubernetes", "known", "--show", "--only", "no-such"], "--only no-such: no sequence"),
        (vec!["kubernetes", "known", "--only", "create"], "--show"),
        (vec!["kubernetes", "fuzz", "--runs", "0"], "'0' for '--runs <RUNS>'"),
    ] {
        let output = conformance(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = text(&output.stderr);
        assert!(error.contains(remedy), "{arguments:?}: {error}");
    }
}

#[test]
fn an_alias_is_run_as_the_check_that_holds_it() {
    let output = conformance(&["run", "NODE-SHUT-001"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.contains("NODE-SHUT-001 says the same as LIFE-005"), "{shown}");
    assert!(shown.contains("1 passed"), "{shown}");
}

#[test]
fn a_reader_that_leaves_stops_a_list_and_not_a_run() {
    use std::process::Stdio;

    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    for arguments in [vec!["list", "--all"], vec!["run", "NODE-INIT-001", "--out", out]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_conformance"))
            .args(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    }
    assert!(dir.path().join("summary.md").exists());
}

#[test]
fn a_run_leaves_its_files_and_two_processes_agree() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = |name: &str| {
        let out = dir.path().join(name);
        let output = conformance(&["run", "NODE-0", "--seed", "7", "--out", out.to_str().unwrap()]);
        assert!(output.status.success(), "{}", text(&output.stdout));
        for file in ["results.json", "junit.xml", "summary.md"] {
            assert!(out.join(file).exists(), "{file}");
        }
        std::fs::read(out.join("ledger.jsonl")).unwrap()
    };
    let (a, b) = (ledger("a"), ledger("b"));
    assert!(!a.is_empty());
    assert!(a == b, "two processes wrote different ledgers");
}
