//! Tests that `docs/supervisor-cases.md` names only tests that exist, and all tests of the
//! directories that it covers. An unpacked package has no documents, so there the tests end at once.

use std::{collections::BTreeSet, path::Path};

/// Directories all of whose tests must be in the list.
const WHOLE: [&str; 2] = ["tests/it/obligations", "src/instances/supervisor/tests/upstream"];

/// Returns the text of the list, or `None` in an unpacked package.
fn list() -> Option<String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let is_unpacked = package.join("Cargo.toml.orig").exists();
    let read = || std::fs::read_to_string(package.join("../docs/supervisor-cases.md")).unwrap();
    (!is_unpacked).then(read)
}

/// Returns the names of the tests in a file: the functions in the line after a test attribute.
fn tests_of(path: &str) -> BTreeSet<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|err| panic!("{path}: {err}"));
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut tests = BTreeSet::new();
    for pair in lines.windows(2) {
        let is_marked = pair[0] == "#[test]" || pair[0].starts_with("#[tokio::test");
        let name = pair[1].trim_start_matches("async ").strip_prefix("fn ");
        if let (true, Some((name, _))) = (is_marked, name.and_then(|it| it.split_once('('))) {
            tests.insert(name.to_owned());
        }
    }
    tests
}

/// Returns the rows of the list: a case, and its tests as pairs of file and function.
fn rows(list: &str) -> Vec<(String, Vec<(String, String)>)> {
    let rows = list.lines().filter(|line| line.starts_with("| ") && line.contains(".rs`: "));
    let row = |line: &str| {
        let (case, held_by) = line.trim_matches('|').rsplit_once(" | ").unwrap();
        let mut tests = Vec::new();
        for part in held_by.split("; ") {
            let (path, names) = part.trim().strip_prefix('`').unwrap().split_once("`: ").unwrap();
            tests.extend(names.split(", ").map(|it| (path.to_owned(), it.trim().to_owned())));
        }
        (case.trim().to_owned(), tests)
    };
    rows.map(row).collect()
}

#[test]
fn every_case_names_tests_that_exist() {
    let Some(list) = list() else { return };
    let rows = rows(&list);
    assert!(rows.len() > 80, "{} cases were read", rows.len());
    let mut wrong = Vec::new();
    for (case, tests) in &rows {
        for (path, name) in tests {
            if !tests_of(path).contains(name) {
                wrong.push(format!("{case}: {path} has no test {name}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_test_that_is_a_case_is_in_the_list() {
    let Some(list) = list() else { return };
    let named: BTreeSet<(String, String)> =
        rows(&list).into_iter().flat_map(|(_, tests)| tests).collect();
    let mut missing = Vec::new();
    for directory in WHOLE {
        let entries = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
        for entry in std::fs::read_dir(entries).unwrap() {
            let path = format!("{directory}/{}", entry.unwrap().file_name().display());
            let unnamed = |name: &String| !named.contains(&(path.clone(), name.clone()));
            missing.extend(tests_of(&path).into_iter().filter(unnamed));
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn all_26_cases_of_instances_v2_are_listed() {
    let Some(list) = list() else { return };
    let section = list.split("\n## ").nth(1).unwrap();
    let n_cases = section.lines().filter(|line| line.contains(".rs`: ")).count();
    assert_eq!(n_cases, 26);
}
