//! Plays scenarios, and holds each verdict against that of its check in virtual time.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use super::deploy;
use super::lab::Lab;
use super::scenarios::{ALL, Scenario};
use super::usage::Usage;
use crate::backend::Backend;
use crate::lab::Stage;
use crate::suite::{Conclusion, Filter};
use crate::verdict::Verdict;

/// What came of a scenario; a line of `e2e.json`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Played {
    id: &'static str,
    title: &'static str,
    mode: Backend,
    seconds: f64,
    /// In the cluster.
    kind: Verdict,
    /// Of the check with this ID, in virtual time.
    virtual_time: Verdict,
    /// What the provider said last, where it did not pass.
    #[serde(skip_serializing_if = "String::is_empty")]
    log: String,
}

/// Scenarios of a mode with these IDs, or beginnings of IDs; all if there are none.
///
/// # Errors
/// An ID that no scenario of the mode has.
pub(super) fn wanted(ids: &[String], mode: Backend) -> anyhow::Result<Vec<&'static Scenario>> {
    let of_mode = || ALL.iter().filter(|it| it.is_of(mode));
    for id in ids {
        if id.is_empty() || !of_mode().any(|it| it.id.starts_with(id.as_str())) {
            let known: Vec<&str> = of_mode().map(|it| it.id).collect();
            let known = known.join(", ");
            return Err(Usage::error(format!(
                "no scenario with {mode} has the ID {id:?}; there are {known}"
            )));
        }
    }
    let is_asked =
        |it: &&Scenario| ids.is_empty() || ids.iter().any(|id| it.id.starts_with(id.as_str()));
    Ok(of_mode().filter(is_asked).collect())
}

/// Plays them in a laboratory; `out` is told, and `files` gets `e2e.json`.
///
/// # Errors
/// What the harness failed at.
pub(super) async fn play(
    out: &mut impl Write,
    lab: &Lab,
    ids: &[String],
    files: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let mode = lab.made.backend;
    let scenarios = wanted(ids, mode)?;
    let of: Vec<&'static str> = scenarios.iter().map(|it| it.id).collect();
    // A runtime of its own, beside the cluster.
    let imagined = tokio::task::spawn_blocking(move || in_virtual_time(&of, mode));
    let mut all = Vec::new();
    for scenario in scenarios {
        let begin = tokio::time::Instant::now();
        let kind = match scenario.play(lab).await {
            Ok(verdict) => verdict,
            Err(error) => Verdict::HarnessError(format!("{error:#}")),
        };
        let seconds = begin.elapsed().as_secs_f64();
        let (id, title) = (scenario.id, scenario.title);
        writeln!(out, "{id:<14} {:<14} {seconds:>6.1} s  {title}", kind.word())?;
        let log = match kind.reason() {
            None => String::new(),
            Some(why) => {
                let log = deploy::last_words(&lab.cluster).await;
                writeln!(out, "    {why}\n{}", indented(&log))?;
                log
            }
        };
        out.flush()?;
        let virtual_time = Verdict::Skipped("not there yet".to_owned());
        all.push(Played { id, title, mode, seconds, kind, virtual_time, log });
    }
    let imagined = imagined.await?;
    for played in &mut all {
        played.virtual_time = imagined.get(played.id).cloned().unwrap_or_else(none);
    }
    if let Some(directory) = files {
        let path = directory.join("e2e.json");
        std::fs::create_dir_all(directory)
            .and_then(|()| std::fs::write(&path, serde_json::to_vec_pretty(&all)?))
            .with_context(|| path.display().to_string())?;
    }
    sum_up(out, &all)
}

fn none() -> Verdict {
    Verdict::Skipped("the catalogue has no check of this ID that is run".to_owned())
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("      {line}\n")).collect()
}

/// Verdicts of the checks with these IDs.
fn in_virtual_time(ids: &[&'static str], mode: Backend) -> BTreeMap<&'static str, Verdict> {
    let stage = Stage { mode: mode.into(), ..Stage::default() };
    let verdict = |id: &&'static str| {
        let filter = Filter { ids: vec![(*id).to_owned()], ..Filter::default() };
        let check = filter.checks(mode).into_iter().find(|it| it.id == *id)?;
        // Nobody looks at how long these took.
        Some((*id, Conclusion::reach(&check, &stage, &mut || Duration::ZERO).verdict))
    };
    ids.iter().filter_map(verdict).collect()
}

fn sum_up(out: &mut impl Write, all: &[Played]) -> anyhow::Result<ExitCode> {
    let n_passed = all.iter().filter(|it| it.kind == Verdict::Pass).count();
    let word = |verdict: &Verdict| verdict.word();
    let differ = |it: &&Played| word(&it.kind) != word(&it.virtual_time);
    let differing: Vec<&Played> = all.iter().filter(differ).collect();
    for it in &differing {
        let (id, kind, imagined) = (it.id, word(&it.kind), word(&it.virtual_time));
        let why = it.virtual_time.reason().map_or_else(String::new, |why| format!(": {why}"));
        writeln!(out, "{id}: {kind} in kind, {imagined} in virtual time{why}")?;
    }
    let n_failed = all.len() - n_passed;
    writeln!(
        out,
        "{n_passed} passed, {n_failed} failed; {} differ from virtual time",
        differing.len()
    )?;
    Ok(ExitCode::from(u8::from(n_failed > 0 || !differing.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_has_a_check_that_is_run_in_its_mode() {
        for mode in Backend::ALL {
            for scenario in wanted(&[], mode).unwrap() {
                let checks = Filter { ids: vec![scenario.id.to_owned()], ..Filter::default() };
                let found = checks.checks(mode).iter().any(|it| it.id == scenario.id);
                assert!(found, "{} with {mode}", scenario.id);
            }
        }
    }

    #[test]
    fn an_id_that_is_none_is_refused_with_those_that_there_are() {
        let error = wanted(&["LIVE-9".to_owned()], Backend::VCenter).unwrap_err().to_string();
        assert!(error.contains("\"LIVE-9\"") && error.contains("NODE-DEL-010"), "{error}");
        let only_vcenter = wanted(&["LIVE-001".to_owned()], Backend::Supervisor);
        assert!(only_vcenter.is_err());
    }

    #[test]
    fn a_verdict_that_differs_from_virtual_time_fails_the_run() {
        let played = |virtual_time: Verdict| Played {
            id: "NODE-001",
            title: "",
            mode: Backend::VCenter,
            seconds: 1.0,
            kind: Verdict::Pass,
            virtual_time,
            log: String::new(),
        };
        let mut out = Vec::new();
        let same = sum_up(&mut out, &[played(Verdict::Pass)]).unwrap();
        assert_eq!(same, ExitCode::SUCCESS);
        let other = played(Verdict::Fail("a node is gone".to_owned()));
        let differs = sum_up(&mut out, &[other]).unwrap();
        assert_ne!(differs, ExitCode::SUCCESS);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("NODE-001: pass in kind, FAIL in virtual time: a node is gone"));
    }
}
