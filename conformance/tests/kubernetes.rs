//! Compares the simulated Kubernetes API with the recorded answers of a real one, with one test per
//! sequence: `cargo test --test kubernetes -- configmap`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use conformance::kubernetes::known::{self, Difference, State};
use conformance::kubernetes::normal::StepAnswer;
use conformance::kubernetes::sequence::Sequence;
use conformance::kubernetes::store::Folder;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::from_args();
    let folder = Folder::default();
    let known = folder.known()?;
    let mut trials = Vec::new();
    let mut names = Vec::new();
    for topic in folder.topics()? {
        let mut recorded = folder.recorded(&topic.name)?;
        for sequence in topic.sequences {
            let real = recorded.remove(&sequence.name).unwrap_or_default();
            let known: Vec<Difference> =
                known.iter().filter(|it| it.sequence == sequence.name).cloned().collect();
            names.push(sequence.name.clone());
            trials.push(Trial::test(sequence.name.clone(), move || hold(&sequence, &real, &known)));
        }
        let left: Vec<String> = recorded.into_keys().collect();
        trials.push(Trial::test(
            format!("{}: no answers without a sequence", topic.name),
            move || {
                if left.is_empty() { Ok(()) } else { Err(Failed::from(left.join(", "))) }
            },
        ));
    }
    let lost: Vec<String> =
        known.iter().map(|it| it.sequence.clone()).filter(|name| !names.contains(name)).collect();
    trials.push(Trial::test("no known difference without a sequence", move || {
        if lost.is_empty() { Ok(()) } else { Err(Failed::from(lost.join(", "))) }
    }));
    let all = names.clone();
    let decided = known.iter().filter(|it| it.state == State::Decided);
    let decided: BTreeSet<String> = decided.map(|it| it.sequence.clone()).collect();
    // An unpacked package contains no documents.
    let is_unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml.orig").exists();
    let of_docs = Trial::test("the docs list exactly the decided differences", move || {
        let documented: BTreeSet<String> = rows()?.into_iter().flat_map(|row| row.shown).collect();
        let documented = documented.into_iter().filter(|name| names.contains(name)).collect();
        let apart: Vec<&String> = decided.symmetric_difference(&documented).collect();
        if apart.is_empty() {
            Ok(())
        } else {
            Err(Failed::from(format!("decided or documented, but not both: {apart:?}")))
        }
    });
    trials.push(of_docs.with_ignored_flag(is_unpacked));
    let of_rows =
        Trial::test("every row of the docs names existing sequences or tests", move || {
            let functions = functions()?;
            let mut missing = Vec::new();
            for Row { id, shown } in rows()? {
                let is_there = |name: &String| all.contains(name) || functions.contains(name);
                missing.extend(
                    shown.iter().filter(|name| !is_there(name)).map(|it| format!("{id}: {it}")),
                );
                if shown.is_empty() {
                    missing.push(format!("{id} names no sequence or test"));
                }
            }
            if missing.is_empty() { Ok(()) } else { Err(Failed::from(missing.join(", "))) }
        });
    trials.push(of_rows.with_ignored_flag(is_unpacked));
    libtest_mimic::run(&arguments, trials).exit();
}

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A row of `docs/kubernetes-differences.md`: a decided difference.
struct Row {
    id: String,
    /// Names of sequences and test functions in the last column.
    shown: Vec<String>,
}

fn rows() -> Result<Vec<Row>, Failed> {
    let text = fs::read_to_string(Path::new(ROOT).join("docs/kubernetes-differences.md"))?;
    let rows = text.lines().filter(|line| line.starts_with("| D"));
    let cells = rows.map(|row| row.trim_matches(['|', ' ']).split(" | ").collect::<Vec<_>>());
    let row = |cells: Vec<&str>| match cells[..] {
        [id, _, _, shown] => {
            let shown = shown.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            Ok(Row { id: id.to_owned(), shown })
        }
        _ => Err(Failed::from(format!("expected a row of four cells: {cells:?}"))),
    };
    cells.map(row).collect()
}

/// Returns the names of all test functions in `sim`, `conformance/src` and `conformance/tests`.
fn functions() -> Result<BTreeSet<String>, Failed> {
    let mut names = BTreeSet::new();
    let mut folders: Vec<PathBuf> =
        ["sim", "conformance/src", "conformance/tests"].map(|it| Path::new(ROOT).join(it)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                names.extend(tests_in(&fs::read_to_string(path)?));
            }
        }
    }
    Ok(names)
}

/// Returns the names of functions with a test attribute.
fn tests_in(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_, rest)) = line.split_once("fn ")
            && std::mem::take(&mut is_test)
        {
            names.extend(rest.split('(').next().map(str::to_owned));
        }
    }
    names
}

fn hold(sequence: &Sequence, real: &[StepAnswer], known: &[Difference]) -> Result<(), Failed> {
    let ours = conformance::kubernetes::simulated(sequence)
        .map_err(|error| Failed::from(format!("{error:#}")))?;
    known::judge(sequence, real, &ours, known).map_err(Failed::from)
}
