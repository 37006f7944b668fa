//! Compares two answers: returns the paths that differ, and a diff for people.

use std::fmt::Write as _;

use serde_json::Value;

use super::normal::StepAnswer;
use super::sequence::{Sequence, SequenceStep};

/// Returns the paths at which two answers differ, such as `status`, `header content-type`,
/// `body.metadata.generation` or `events[1].type`. If the statuses differ, returns only `status`,
/// because the bodies are then different documents.
pub fn paths(real: &StepAnswer, ours: &StepAnswer) -> Vec<String> {
    if real.status != ours.status {
        return vec!["status".into()];
    }
    let mut paths = Vec::new();
    let names: std::collections::BTreeSet<&String> =
        real.headers.keys().chain(ours.headers.keys()).collect();
    for name in names {
        if real.headers.get(name) != ours.headers.get(name) {
            paths.push(format!("header {name}"));
        }
    }
    let null = Value::Null;
    let body = |answer: &StepAnswer| answer.body.clone().unwrap_or(Value::Null);
    walk(&body(real), &body(ours), "body", &mut paths);
    let events = |answer: &StepAnswer| answer.events.clone().map_or(null.clone(), Value::Array);
    walk(&events(real), &events(ours), "events", &mut paths);
    paths
}

fn walk(real: &Value, ours: &Value, at: &str, paths: &mut Vec<String>) {
    match (real, ours) {
        (Value::Object(real), Value::Object(ours)) => {
            let names: std::collections::BTreeSet<&String> =
                real.keys().chain(ours.keys()).collect();
            for name in names {
                match (real.get(name), ours.get(name)) {
                    (Some(real), Some(ours)) => walk(real, ours, &format!("{at}.{name}"), paths),
                    _ => paths.push(format!("{at}.{name}")),
                }
            }
        }
        (Value::Array(real), Value::Array(ours)) if real.len() == ours.len() => {
            for (n, (real, ours)) in real.iter().zip(ours).enumerate() {
                walk(real, ours, &format!("{at}[{n}]"), paths);
            }
        }
        _ if real == ours => {}
        _ => paths.push(at.to_owned()),
    }
}

/// Returns a description of the step with index `n`, whose answers differ: the request, and a diff
/// of the two answers. `left` and `right` are the names of the sides in the diff.
pub fn report(
    sequence: &Sequence,
    n: usize,
    (left, real): (&str, &StepAnswer),
    (right, ours): (&str, &StepAnswer),
) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}, step {} of {}:", sequence.name, n + 1, sequence.steps.len());
    if let Some(step) = sequence.steps.get(n) {
        let _ = writeln!(out, "  {}", request(step));
    }
    let _ = writeln!(out, "--- {left}\n+++ {right}");
    out + &diff(&text(real), &text(ours))
}

/// Formats the request of a step for people. A body is cut after 600 characters.
pub fn request(step: &SequenceStep) -> String {
    let mut line = match (&step.request, &step.read) {
        (Some(request), _) => request.clone(),
        (None, Some(watch)) => format!("{} events of the watch {watch}", step.events),
        (None, None) => String::new(),
    };
    if let Some(user) = &step.user {
        let _ = write!(line, "  as {user}");
    }
    for (name, value) in [("Accept", &step.accept), ("Content-Type", &step.content_type)] {
        if let Some(value) = value {
            let _ = write!(line, "  {name}: {value}");
        }
    }
    let body = step.body.as_ref().map(ToString::to_string);
    if let Some(body) = body.or_else(|| step.raw.clone()).or_else(|| step.base64.clone()) {
        let short: String = body.chars().take(600).collect();
        let _ = write!(line, "\n  {short}");
    }
    line
}

/// Formats an answer as lines, for the diff.
fn text(answer: &StepAnswer) -> String {
    let mut out = String::new();
    if answer.status > 0 {
        let _ = writeln!(out, "{}", answer.status);
    }
    for (name, value) in &answer.headers {
        let _ = writeln!(out, "{name}: {value}");
    }
    for value in answer.body.iter().chain(answer.events.iter().flatten()) {
        let _ = writeln!(out, "{}", serde_json::to_string_pretty(value).unwrap_or_default());
    }
    out
}

/// Returns a diff with two lines of context around each change.
fn diff(left: &str, right: &str) -> String {
    const AROUND: usize = 2;
    let (left, right): (Vec<&str>, Vec<&str>) = (left.lines().collect(), right.lines().collect());
    // Lengths of the longest common subsequences of the tails. The table is small, because answers
    // have hundreds of lines at most.
    let mut common = vec![vec![0_usize; right.len() + 1]; left.len() + 1];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            common[i][j] = if left[i] == right[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let mut lines = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < left.len() || j < right.len() {
        if i < left.len() && j < right.len() && left[i] == right[j] {
            lines.push((' ', left[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == right.len() || (i < left.len() && common[i + 1][j] >= common[i][j + 1]) {
            lines.push(('-', left[i]));
            i += 1;
        } else {
            lines.push(('+', right[j]));
            j += 1;
        }
    }
    let is_near = |n: usize| {
        let end = (n + AROUND + 1).min(lines.len());
        lines[n.saturating_sub(AROUND)..end].iter().any(|(mark, _)| *mark != ' ')
    };
    let mut out = String::new();
    let mut skipped = false;
    for (n, (mark, line)) in lines.iter().enumerate() {
        if is_near(n) {
            if std::mem::take(&mut skipped) {
                out.push_str("@@\n");
            }
            let _ = writeln!(out, "{mark}{line}");
        } else {
            skipped = true;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(status: u16, body: Value) -> StepAnswer {
        StepAnswer { status, body: Some(body), ..StepAnswer::default() }
    }

    #[test]
    fn paths_name_each_difference_between_two_answers() {
        let left = answer(200, json!({"a": {"b": 1, "c": [1, 2]}, "d": 1}));
        for (name, right, want) in [
            ("equal", left.clone(), vec![]),
            ("with another status, only the status counts", answer(404, json!({})), vec!["status"]),
            (
                "missing, changed",
                answer(200, json!({"a": {"b": 2, "c": [1, 3]}})),
                vec!["body.a.b", "body.a.c[1]", "body.d"],
            ),
            (
                "a list of another length",
                answer(200, json!({"a": {"b": 1, "c": []}, "d": 1})),
                vec!["body.a.c"],
            ),
        ] {
            assert_eq!(paths(&left, &right), want, "{name}");
        }
    }

    #[test]
    fn a_diff_shows_changes_and_two_lines_around_them() {
        assert_eq!(diff("a\nb\nc\nd\ne\nf", "a\nb\nc\nd\nE\nf"), "@@\n c\n d\n-e\n+E\n f\n");
        assert_eq!(diff("same", "same"), "");
    }
}
