//! Plays scenarios, and compares each verdict with that of the check of the same ID in virtual
//! time.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;

use super::lab::peer::{Peer, peer};
use super::lab::{Lab, deploy};
use super::scenarios::{ALL, Scenario};
use super::tally::LedgerPosition;
use crate::catalogue::CheckId;
use crate::judge::verdict::Verdict;
use crate::lab::Stage;
use crate::scenario::{Backend, InputError};
use crate::suite::{Conclusion, Filter};

/// Result of a scenario; an entry of `e2e.json`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ScenarioResult {
    id: CheckId,
    title: &'static str,
    mode: Backend,
    seconds: f64,
    /// Verdict in the cluster.
    kind: Verdict,
    /// Number of calls to vCenter or Supervisor during the scenario, by operation, without long
    /// polls, keep-alives and watches; `None` if they could not be counted.
    calls: Option<BTreeMap<String, u64>>,
    /// Verdict of the check with this ID, in virtual time.
    virtual_time: Verdict,
    /// Last log lines of the provider; empty if the scenario passed or was skipped.
    #[serde(skip_serializing_if = "String::is_empty")]
    log: String,
}

/// Selection of scenarios.
#[derive(Args, Clone, Debug, Default)]
pub struct PlayOptions {
    /// IDs of scenarios, or prefixes of IDs [default: all].
    ids: Vec<String>,
    /// Provider for the scenario in which another provider replaces ours for a while: stock-ccm,
    /// upstream-vcenter or upstream-paravirtual, as the path of a static binary or an image of the
    /// Docker engine [default in vCenter mode: stock-ccm, built from its Go module].
    #[arg(long, value_name = "NAME=PATH|IMAGE", value_parser = peer)]
    peer: Option<Peer>,
    /// Directory for e2e.json: the verdicts in the cluster and in virtual time, and the last lines
    /// of the provider's log for a scenario that did not pass.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl PlayOptions {
    /// Checks that the peer of `--peer` exists. The Docker engine must answer.
    ///
    /// # Errors
    /// Fails if the peer does not exist.
    pub(super) async fn check(&self) -> anyhow::Result<()> {
        match &self.peer {
            Some(peer) => peer.check().await.map(drop),
            None => Ok(()),
        }
    }

    /// Returns the selected scenarios of a mode; all of them if no ID is given.
    ///
    /// # Errors
    /// Fails if an ID matches no scenario of the mode, or if the peer is for another mode.
    pub(super) fn wanted(&self, mode: Backend) -> anyhow::Result<Vec<&'static Scenario>> {
        let of_mode = || ALL.iter().filter(|it| it.is_of(mode));
        let ids = &self.ids;
        for id in ids {
            if id.is_empty() || !of_mode().any(|it| it.id.starts_with(id.as_str())) {
                let known: BTreeSet<&str> = of_mode().map(|it| it.id.as_str()).collect();
                let known = known.into_iter().collect::<Vec<_>>().join(", ");
                let unknown =
                    InputError::unknown(format!("no scenario in {mode} mode has the ID"), id);
                return Err(unknown.condition(format!("expected one of {known}")).into());
            }
        }
        if let Some(Peer { program, .. }) = &self.peer
            && program.backend() != mode
        {
            let (name, other) = (program.name(), program.backend());
            let problem =
                format!("works only with the mode {other}, but this lab has the mode {mode}");
            let remedy = format!("name a peer for {mode}, or choose another --mode");
            return Err(InputError::in_flag("--peer", name, problem).remedy(remedy).into());
        }
        let is_asked =
            |it: &&Scenario| ids.is_empty() || ids.iter().any(|id| it.id.starts_with(id.as_str()));
        Ok(of_mode().filter(is_asked).collect())
    }
}

/// Plays the selected scenarios in a lab, prints the results and writes `e2e.json` to the folder in
/// `options`. Returns the exit code of [`sum_up`].
///
/// # Errors
/// Fails for a wrong selection, if the peer of `--peer` does not exist, and if the harness fails.
pub(super) async fn play(
    out: &mut impl Write,
    lab: &Lab,
    options: &PlayOptions,
) -> anyhow::Result<ExitCode> {
    let mode = lab.made.backend;
    let scenarios = options.wanted(mode)?;
    options.check().await?;
    let of: Vec<CheckId> = scenarios.iter().map(|it| it.id).collect();
    // The checks in virtual time run on their own runtime, in parallel to the scenarios.
    let imagined = tokio::task::spawn_blocking(move || in_virtual_time(&of, mode));
    let mut all = Vec::new();
    for scenario in scenarios {
        let begin = tokio::time::Instant::now();
        let mut since = LedgerPosition::now(&lab.simulator).await?;
        let kind = match scenario.play(lab, options.peer.as_ref()).await {
            Ok(verdict) => verdict,
            Err(error) => Verdict::harness_error(format!("{error:#}")),
        };
        let seconds = begin.elapsed().as_secs_f64();
        let (id, title) = (scenario.id, scenario.title);
        // If the simulator does not answer after a scenario, the number of calls is unknown, not
        // zero.
        let calls = since.calls(&lab.simulator).await.ok();
        let n_calls = calls.as_ref().map_or_else(|| "?".to_owned(), |it| it.total().to_string());
        let word = kind.word();
        writeln!(out, "{id:<14} {word:<14} {seconds:>6.1} s {n_calls:>5} calls  {title}")?;
        let log = match kind.reason() {
            None => String::new(),
            Some(why) if matches!(kind, Verdict::Skipped(_)) => {
                writeln!(out, "    {why}")?;
                String::new()
            }
            Some(why) => {
                let log = deploy::last_words(&lab.cluster).await;
                writeln!(out, "    {why}\n{}", indented(&log))?;
                log
            }
        };
        out.flush()?;
        let virtual_time = Verdict::skipped("the run in virtual time has not ended yet");
        let calls = calls.map(|it| it.calls);
        all.push(ScenarioResult { id, title, mode, seconds, kind, calls, virtual_time, log });
        // Saves the results of the played scenarios, in case a later one aborts the run.
        write(options, &all)?;
    }
    let imagined = imagined.await?;
    for played in &mut all {
        played.virtual_time = imagined.get(&played.id).cloned().unwrap_or_else(none);
    }
    write(options, &all)?;
    sum_up(out, &all)
}

/// Writes `e2e.json`, if `--out` names a folder.
fn write(options: &PlayOptions, all: &[ScenarioResult]) -> anyhow::Result<()> {
    let Some(directory) = &options.out else { return Ok(()) };
    let path = directory.join("e2e.json");
    let document = serde_json::json!({"stage": "kind", "scenarios": all});
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&path, serde_json::to_vec_pretty(&document)?))
        .with_context(|| {
            format!("cannot write {}; choose a writable folder with --out", path.display())
        })
}

fn none() -> Verdict {
    Verdict::skipped("the catalogue has no check with this ID that virtual time can play")
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("      {line}\n")).collect()
}

/// Runs the checks with these IDs in virtual time and returns their verdicts, by ID. Leaves out IDs
/// without a check in this mode.
fn in_virtual_time(ids: &[CheckId], mode: Backend) -> BTreeMap<CheckId, Verdict> {
    let stage = Stage { mode: mode.into(), ..Stage::default() };
    let verdict = |id: &CheckId| {
        let filter = Filter { ids: vec![id.to_string()], ..Filter::default() };
        let check = filter.checks(mode).into_iter().find(|it| it.id == *id)?;
        // The clock always returns zero, because the duration of these checks is not reported.
        Some((*id, Conclusion::run(&check, &stage, || Duration::ZERO).verdict))
    };
    ids.iter().filter_map(verdict).collect()
}

/// Prints the differences from virtual time and the totals. Returns exit code 3 if a scenario ended
/// with a harness error; else 1 if one did not pass or differs; else 0. A skipped scenario does not
/// count.
fn sum_up(out: &mut impl Write, all: &[ScenarioResult]) -> anyhow::Result<ExitCode> {
    let is_skipped = |it: &&ScenarioResult| matches!(it.kind, Verdict::Skipped(_));
    let n_passed = all.iter().filter(|it| it.kind == Verdict::Pass).count();
    let n_skipped = all.iter().filter(is_skipped).count();
    let word = |verdict: &Verdict| verdict.word();
    let differ = |it: &&ScenarioResult| !is_skipped(it) && !it.kind.agrees_with(&it.virtual_time);
    let differing: Vec<&ScenarioResult> = all.iter().filter(differ).collect();
    for it in &differing {
        let (id, kind, imagined) = (it.id, word(&it.kind), word(&it.virtual_time));
        let why = it.virtual_time.reason().map_or_else(String::new, |why| format!(": {why}"));
        writeln!(out, "{id}: {kind} in kind, {imagined} in virtual time{why}")?;
    }
    let n_failed = all.len() - n_passed - n_skipped;
    let skipped = if n_skipped > 0 { format!(", {n_skipped} skipped") } else { String::new() };
    writeln!(
        out,
        "{n_passed} passed, {n_failed} failed{skipped}; {} differ from virtual time",
        differing.len()
    )?;
    // A scenario that could not be observed makes the run a harness failure.
    let is_blind = |it: &ScenarioResult| matches!(it.kind, Verdict::HarnessError(_));
    if all.iter().any(is_blind) {
        return Ok(ExitCode::from(3));
    }
    Ok(ExitCode::from(u8::from(n_failed > 0 || !differing.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_has_a_check_that_is_run_in_its_mode() {
        for mode in Backend::ALL {
            for scenario in PlayOptions::default().wanted(mode).unwrap() {
                let checks = Filter { ids: vec![scenario.id.to_string()], ..Filter::default() };
                let found = checks.checks(mode).iter().any(|it| it.id == scenario.id);
                assert!(found, "{} with {mode}", scenario.id);
            }
        }
    }

    #[test]
    fn an_unknown_scenario_id_is_refused_with_the_known_ids() {
        let only = |id: &str| PlayOptions { ids: vec![id.to_owned()], ..PlayOptions::default() };
        let error = only("LIVE-9").wanted(Backend::VCenter).unwrap_err().to_string();
        assert!(error.contains("\"LIVE-9\"") && error.contains("NODE-DEL-010"), "{error}");
        let only_vcenter = only("LIVE-001").wanted(Backend::Supervisor);
        assert!(only_vcenter.is_err());
    }

    #[test]
    fn a_peer_of_the_other_mode_is_refused() {
        let peer = Some(peer("stock-ccm=/bin/x").unwrap());
        let options = PlayOptions { peer, ..PlayOptions::default() };
        assert!(options.wanted(Backend::VCenter).is_ok());
        let error = options.wanted(Backend::Supervisor).unwrap_err().to_string();
        assert!(error.contains("--peer stock-ccm") && error.contains("another --mode"), "{error}");
    }

    #[test]
    fn a_verdict_that_differs_from_virtual_time_fails_the_run() {
        let played = |virtual_time: Verdict| ScenarioResult {
            id: CheckId::new("NODE-001"),
            title: "",
            mode: Backend::VCenter,
            seconds: 1.0,
            kind: Verdict::Pass,
            calls: None,
            virtual_time,
            log: String::new(),
        };
        let mut out = Vec::new();
        let blind =
            ScenarioResult { kind: Verdict::harness_error("docker"), ..played(Verdict::Pass) };
        assert_eq!(sum_up(&mut out, &[blind]).unwrap(), ExitCode::from(3));
        let same = sum_up(&mut out, &[played(Verdict::Pass)]).unwrap();
        assert_eq!(same, ExitCode::SUCCESS);
        let other = played(Verdict::fail("a node is gone"));
        let differs = sum_up(&mut out, &[other]).unwrap();
        assert_ne!(differs, ExitCode::SUCCESS);
        let not_played = ScenarioResult { kind: Verdict::skipped(""), ..played(Verdict::Pass) };
        assert_eq!(sum_up(&mut out, &[not_played]).unwrap(), ExitCode::SUCCESS);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("NODE-001: pass in kind, FAIL in virtual time: a node is gone"));
        assert!(text.contains("0 passed, 0 failed, 1 skipped"));
    }
}
