//! The list of known differences, which must match the actual differences exactly.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::compare;
use super::normal::StepAnswer;
use super::sequence::Sequence;

/// Places at which answers to a sequence differ: the number of the step, from 1, and the paths in
/// its answer.
pub type Places = BTreeMap<usize, BTreeSet<String>>;

/// A known difference between the simulated API server and a real one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Name of the sequence that shows the difference.
    pub sequence: String,
    /// State of the difference.
    pub state: State,
    /// Description of the difference, as a sentence.
    pub what: String,
    /// Reason for the difference.
    pub why: String,
    /// Places of the difference.
    pub steps: Places,
}

/// Decision about a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The difference is to be removed.
    Open,
    /// The difference stays; `docs/kubernetes-differences.md` has the reason.
    Decided,
}

/// Returns the places at which the answers of two servers differ.
pub fn places(real: &[StepAnswer], ours: &[StepAnswer]) -> Places {
    real.iter()
        .zip(ours)
        .enumerate()
        .map(|(n, (real, ours))| (n + 1, compare::paths(real, ours).into_iter().collect()))
        .filter(|(_, paths): &(usize, BTreeSet<String>)| !paths.is_empty())
        .collect()
}

/// Returns the places of all known differences of a sequence.
pub fn listed(known: &[Difference], sequence: &str) -> Places {
    let mut places = Places::new();
    for difference in known.iter().filter(|it| it.sequence == sequence) {
        for (step, paths) in &difference.steps {
            places.entry(*step).or_default().extend(paths.iter().cloned());
        }
    }
    places
}

/// Checks that the answers differ exactly at the places of the known differences.
///
/// # Errors
/// Returns a report of the first step with an unlisted difference, and of all listed differences
/// that no longer exist. Also fails if `real` does not have one answer per step.
pub fn judge(
    sequence: &Sequence,
    real: &[StepAnswer],
    ours: &[StepAnswer],
    known: &[Difference],
) -> Result<(), String> {
    if real.len() != sequence.steps.len() {
        return Err(format!(
            "{}: {} steps but {} recorded answers; record them again: conformance kubernetes record --only {}\n",
            sequence.name,
            sequence.steps.len(),
            real.len(),
            sequence.name
        ));
    }
    let found = places(real, ours);
    let listed = listed(known, &sequence.name);
    let mut out = String::new();
    let unlisted = |(step, paths): (&usize, &BTreeSet<String>)| {
        let new: Vec<String> = paths
            .iter()
            .filter(|path| !listed.get(step).is_some_and(|known| known.contains(*path)))
            .cloned()
            .collect();
        (!new.is_empty()).then_some((*step, new))
    };
    if let Some((step, new)) = found.iter().find_map(unlisted) {
        let n = step - 1;
        let (left, right) = (("kube-apiserver", &real[n]), ("sim", &ours[n]));
        let _ = write!(out, "{}", compare::report(sequence, n, left, right));
        let _ = writeln!(out, "not listed in known-differences.yaml: {}", new.join(", "));
    }
    for (step, paths) in &listed {
        for path in paths {
            if !found.get(step).is_some_and(|found| found.contains(path)) {
                let _ = writeln!(
                    out,
                    "{}, step {step}: {path} no longer differs; remove it from known-differences.yaml (conformance kubernetes known --write)",
                    sequence.name
                );
            }
        }
    }
    if out.is_empty() { Ok(()) } else { Err(out) }
}

/// Returns the known differences with the actual places, which `found` has for every sequence with
/// differences. Leaves out differences that no longer exist, adds new ones as open, and keeps the
/// texts of all others.
pub fn updated(known: &[Difference], found: &[(String, Places)]) -> Vec<Difference> {
    let mut out = Vec::new();
    for (sequence, places) in found {
        let mut left = places.clone();
        for old in known.iter().filter(|it| it.sequence == *sequence) {
            let mut steps = Places::new();
            for (step, paths) in &old.steps {
                let Some(found) = left.get_mut(step) else { continue };
                let kept: BTreeSet<String> = paths.intersection(found).cloned().collect();
                found.retain(|path| !kept.contains(path));
                if !kept.is_empty() {
                    steps.insert(*step, kept);
                }
            }
            if !steps.is_empty() {
                out.push(Difference { steps, ..old.clone() });
            }
        }
        left.retain(|_, paths| !paths.is_empty());
        if !left.is_empty() {
            let what = "not looked into yet".to_owned();
            let why = "not built yet".to_owned();
            let sequence = sequence.clone();
            out.push(Difference { sequence, state: State::Open, what, why, steps: left });
        }
    }
    out
}

/// Returns the content of `known-differences.yaml`.
pub fn text(known: &[Difference]) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut out = String::from(
        "# Differences between the answers of the simulated API server and those of kube-apiserver. Tests fail for any other\n\
         # difference, and for a listed one that no longer exists. `conformance kubernetes known --write` updates the places.\n\
         # state: open (to be fixed) or decided (stays; docs/kubernetes-differences.md has the reason).\n",
    );
    if known.is_empty() {
        out.push_str("[]\n");
    }
    for it in known {
        let state = if it.state == State::Open { "open" } else { "decided" };
        let _ = writeln!(out, "- sequence: {}\n  state: {state}", it.sequence);
        let _ = writeln!(out, "  what: {}\n  why: {}\n  steps:", quoted(&it.what), quoted(&it.why));
        for (step, paths) in &it.steps {
            let paths: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
            let _ = writeln!(out, "    {step}: [{}]", paths.join(", "));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence() -> Sequence {
        serde_saphyr::from_str("{name: s, clause: writing, steps: [{do: GET /}]}").unwrap()
    }

    fn answer(status: u16) -> Vec<StepAnswer> {
        vec![StepAnswer { status, ..StepAnswer::default() }]
    }

    #[test]
    fn an_unlisted_difference_is_an_error_and_so_is_a_listed_one_that_no_longer_exists() {
        let (real, same, other) = (answer(200), answer(200), answer(404));
        let known = updated(&[], &[("s".into(), places(&real, &other))]);
        let known: Vec<Difference> = serde_saphyr::from_str(&text(&known)).unwrap();
        for (name, ours, known, want) in [
            ("alike, nothing listed", &same, &[][..], true),
            ("different, nothing listed", &other, &[], false),
            ("different and listed", &other, &known, true),
            ("listed and alike", &same, &known, false),
        ] {
            assert_eq!(judge(&sequence(), &real, ours, known).is_ok(), want, "{name}");
        }
        assert!(updated(&known, &[("s".into(), places(&real, &same))]).is_empty());
    }
}
