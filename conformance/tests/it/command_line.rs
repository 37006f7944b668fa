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
        (vec!["run", "NO-SUCH"], "conformance list"),
        (vec!["run", "--mutant", "Nope"], "there are ErrorIsGone"),
        (vec!["runn"], "run"),
    ] {
        let output = conformance(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = text(&output.stderr);
        assert!(error.contains(remedy), "{arguments:?}: {error}");
    }
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
