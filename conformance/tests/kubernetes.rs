//! The simulated Kubernetes API held to the recorded answers of a real one: one test per sequence,
//! `cargo test --test kubernetes -- configmap`.

use std::collections::BTreeSet;

use conformance::kubernetes::known::{self, Difference, State};
use conformance::kubernetes::normal::Answer;
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
    let decided = known.iter().filter(|it| it.state == State::Decided);
    let decided: BTreeSet<String> = decided.map(|it| it.sequence.clone()).collect();
    trials.push(Trial::test("what is decided stands in the docs, and nothing else", move || {
        let documented = documented(&names)?;
        let apart: Vec<&String> = decided.symmetric_difference(&documented).collect();
        if apart.is_empty() { Ok(()) } else { Err(Failed::from(format!("{apart:?}"))) }
    }));
    libtest_mimic::run(&arguments, trials).exit();
}

/// The sequences that rows of the docs name.
fn documented(sequences: &[String]) -> Result<BTreeSet<String>, Failed> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/kubernetes-differences.md");
    let text = std::fs::read_to_string(path)?;
    let rows = text.lines().filter(|line| line.starts_with("| D"));
    let words = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).map(str::to_owned);
    Ok(words.filter(|word| sequences.contains(word)).collect())
}

fn hold(sequence: &Sequence, real: &[Answer], known: &[Difference]) -> Result<(), Failed> {
    let ours = conformance::kubernetes::simulated(sequence)
        .map_err(|error| Failed::from(format!("{error:#}")))?;
    known::judge(sequence, real, &ours, known).map_err(Failed::from)
}
