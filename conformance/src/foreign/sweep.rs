//! `conformance sweep --provider`: plays every life with a process, first without and then with single failures.
//!
//! The healthy run of a life shows the calls that this provider makes; each of them can fail. World time runs `compress`
//! times as fast as the clock, and the constants of a provider (deadlines, back-offs) cannot be shortened. So with
//! failures only safety is judged, unless the world runs in real time. Lives with several replicas always do, because the
//! duration of a lease is such a constant.

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use futures::stream::{self, StreamExt as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::command::{Surroundings, Usage, guarded, setup};
use super::plan::{hindrance, pace};
use super::{Settings, Setup, Subject};
use crate::catalogue::Class;
use crate::judge::{Invariant, Violation};
use crate::lab::Run;
use crate::lives::{self, Life};
use crate::report::seconds;
use crate::scenario::Scenario;
use crate::sweep::{self, Ended, Kind, Trial, mode_name};

/// Parameters of a sweep.
#[derive(Debug)]
pub struct Request<'a> {
    /// Path of the manifest, or name of a built-in one.
    pub provider: &'a str,
    /// Program for `$(binary)` in the manifest.
    pub binary: Option<PathBuf>,
    /// Seconds of world time per second.
    pub compress: u32,
    /// Number of parallel lives, each with a process of its own.
    pub jobs: NonZeroUsize,
    /// Seed of all random draws.
    pub seed: u64,
    /// Kinds of failures to sweep; empty plays the lives without failures only.
    pub kinds: &'a [Kind],
    /// Names of the lives to play; empty for all.
    pub lives: &'a [String],
    /// Number of trials of each kind, spread evenly; `None` for all.
    pub sample: Option<NonZeroUsize>,
    /// Text that selects trials by their line; prints their ledgers and logs.
    pub trial: Option<&'a str>,
}

/// Plays the lives of the manifest's mode.
///
/// # Errors
/// Returns [`Usage`], or the error of the harness.
pub fn run(
    out: &mut impl Write,
    request: &Request<'_>,
    surroundings: &Surroundings,
) -> anyhow::Result<ExitCode> {
    if request.compress == 0 {
        return Err(Usage("--compress 0: write 1 or more".to_owned()).into());
    }
    let setup = setup(request.provider, request.binary.as_deref(), surroundings)?;
    let all = lives::all(setup.manifest.spec.mode);
    if let Some(name) = request.lives.iter().find(|it| all.iter().all(|life| life.name != **it)) {
        let mode = setup.manifest.spec.mode;
        return Err(Usage(format!(
            "--life {name}: {mode} mode has no such life (--list-lives prints every one)"
        ))
        .into());
    }
    let settings = Settings {
        seed: request.seed,
        jobs: request.jobs.get(),
        compress: request.compress,
        longest: Duration::MAX,
        retries: 0,
        now: surroundings.now,
    };
    guarded(setup, async |setup, stop| {
        let mut subject = Subject::new(Arc::clone(setup), settings);
        tokio::select! {
            biased;
            () = stop.cancelled() => bail!("interrupted"),
            measured = subject.calibrate() => measured?,
        };
        Sweep { request, setup, subject: &subject, stop }.play(out, all).await
    })
}

/// True if a violation counts even if this machine was late. Policy does not count, because other providers do not
/// promise it.
fn is_unsafe(violation: &Violation) -> bool {
    let invariant = violation.invariant;
    invariant.class() == Class::Safety && !invariant.is_policy()
}

/// Result of a life or a trial that a process played.
struct Played {
    run: Run,
    ended: Ended,
    /// Violations of policy beyond the contract, which are not defects of other providers.
    policy: Vec<Violation>,
    /// Reason why the run proves nothing; `None` if the run proves something.
    vain: Option<String>,
}

impl Played {
    /// Collects the violations that count: all safety violations, and others if `all` is true and this machine was not
    /// late.
    fn of(run: Run, late: Option<Duration>, all: bool) -> Self {
        let mut ended = Ended::of(&run);
        let policy = ended.violations.extract_if(.., |it| it.invariant.is_policy()).collect();
        ended.violations.retain(|it| is_unsafe(it) || (all && late.is_none()));
        let vain = match run.refusals().next() {
            Some(refused) => Some(format!("a step did not happen: {refused}")),
            None if run.calls().next().is_none() => Some("the provider made no call".to_owned()),
            None => late.map(|late| format!("this machine was {} ms late", late.as_millis())),
        };
        Self { run, ended, policy, vain }
    }
}

/// Result of the trials of one kind.
#[derive(Default)]
struct Tally {
    played: usize,
    fired: usize,
    broken: usize,
    vain: usize,
}

struct Sweep<'a> {
    request: &'a Request<'a>,
    setup: &'a Setup,
    subject: &'a Subject,
    stop: &'a CancellationToken,
}

impl Sweep<'_> {
    async fn play(&self, out: &mut impl Write, all: Vec<Life>) -> anyhow::Result<ExitCode> {
        let Request { kinds, compress, .. } = *self.request;
        let name = &self.setup.manifest.name;
        let (healthy, mut tally) = self.healthy(out, all).await?;
        if !kinds.is_empty() && compress > 1 {
            writeln!(
                out,
                "where something fails, safety alone is judged: the world lives {compress} seconds in one, and constants of a provider do not; --compress 1 judges everything, and lives with several replicas always run in real time"
            )?;
        }
        let mut n_trials = 0;
        for kind in kinds {
            let begin = Instant::now();
            let of_life = |(life, run): &(Life, Run)| sweep::of_healthy(*kind, life, run);
            let mut trials: Vec<Trial> = healthy.iter().flat_map(of_life).collect();
            let n_all = trials.len();
            if let Some(text) = self.request.trial {
                trials.retain(|trial| trial.to_string().contains(text));
            }
            if let Some(n) = self.request.sample {
                trials = sweep::sample(&trials, n.get());
            }
            let of_kind = self.trials(out, &trials).await?;
            writeln!(
                out,
                "{name} {}: {} of {n_all} trials, {} whose failure happened, {} with violations, {} that show nothing, {}",
                kind.as_str(),
                of_kind.played,
                of_kind.fired,
                of_kind.broken,
                of_kind.vain,
                seconds(begin.elapsed())
            )?;
            n_trials += of_kind.played;
            tally.broken += of_kind.broken;
            tally.vain += of_kind.vain + usize::from(of_kind.played == 0);
        }
        if let Some(text) = self.request.trial.filter(|_| n_trials == 0) {
            let what = format!("invalid trial {text:?}: no line of the wanted sweeps contains it");
            return Err(Usage(what).into());
        }
        Ok(match tally {
            Tally { broken: 1.., .. } => ExitCode::from(1),
            Tally { vain: 1.., .. } | Tally { played: 0, .. } => ExitCode::from(7),
            _ => ExitCode::SUCCESS,
        })
    }

    /// Plays every life without failures; returns their runs, from which trials are made.
    async fn healthy(
        &self,
        out: &mut impl Write,
        mut all: Vec<Life>,
    ) -> anyhow::Result<(Vec<(Life, Run)>, Tally)> {
        let manifest = &self.setup.manifest;
        let begin = Instant::now();
        let wanted = self.request.lives;
        all.retain(|life| wanted.is_empty() || wanted.iter().any(|it| it == life.name));
        let n_all = all.len();
        let mut can = Vec::new();
        for life in all {
            match hindrance(&life.scenario, manifest, self.setup.apiserver()) {
                None => can.push(life),
                Some(why) => writeln!(out, "not played: {}: {why}", life.name)?,
            }
        }
        let mut tally = Tally::default();
        let scenarios = can.iter().map(|it| (it.name.to_owned(), it.scenario.clone()));
        let mut runs = Vec::new();
        self.each(scenarios.collect(), true, |n, played| {
            tally.take(&played);
            told(out, can[n].name, &played)?;
            runs.push((n, played.run));
            Ok(())
        })
        .await?;
        runs.sort_by_key(|(n, _)| *n);
        writeln!(
            out,
            "{} lives: {} of {n_all}, {} with violations, {} that show nothing, {}",
            manifest.name,
            tally.played,
            tally.broken,
            tally.vain,
            seconds(begin.elapsed())
        )?;
        Ok((can.into_iter().zip(runs.into_iter().map(|(_, run)| run)).collect(), tally))
    }

    async fn trials(&self, out: &mut impl Write, trials: &[Trial]) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        let scenarios = trials.iter().map(|it| (it.to_string(), it.scenario()));
        let all = self.request.compress == 1;
        self.each(scenarios.collect(), all, |n, mut played| {
            // Policy violations were printed with the healthy lives.
            played.policy.clear();
            if !played.ended.fired {
                played.vain.get_or_insert_with(|| "the failure never happened".to_owned());
            }
            tally.take(&played);
            let line = trials[n].to_string();
            if self.request.trial.is_some() {
                played.run.ledger.iter().try_for_each(|record| writeln!(out, "{record}"))?;
                writeln!(out, "{}", played.run.logs)?;
            }
            told(out, &line, &played)
        })
        .await?;
        Ok(tally)
    }

    /// Plays scenarios in parallel; `ended` gets each result, in the order in which they end.
    async fn each(
        &self,
        scenarios: Vec<(String, Scenario)>,
        all: bool,
        mut ended: impl FnMut(usize, Played) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mode = mode_name(self.subject.stage().mode);
        let compress = self.request.compress;
        let mut runs = stream::iter(scenarios.into_iter().enumerate())
            .map(|(n, (line, scenario))| {
                let folder = format!("{mode}-{n}");
                async move {
                    let mut played = self.subject.witness(&folder, &scenario).await;
                    // Repeats a run on a late machine, unless it shows a safety violation.
                    if matches!(&played, Ok((run, Some(_))) if !Life::broken(run).iter().any(is_unsafe)) {
                        let folder = format!("{folder}-again");
                        played = self.subject.witness(&folder, &scenario).await;
                    }
                    (n, line, pace(&scenario, compress) == 1, played)
                }
            })
            .buffer_unordered(self.request.jobs.get());
        loop {
            let next = tokio::select! {
                biased;
                () = self.stop.cancelled() => bail!("interrupted"),
                next = runs.next() => next,
            };
            match next {
                None => return Ok(()),
                Some((n, _, is_real, Ok((run, late)))) => {
                    ended(n, Played::of(run, late, all || is_real))?;
                }
                Some((_, line, _, Err(error))) => return Err(error.context(line)),
            }
        }
    }
}

impl Tally {
    fn take(&mut self, played: &Played) {
        let Played { ended, vain, .. } = played;
        self.played += 1;
        self.fired += usize::from(ended.fired);
        self.broken += usize::from(!ended.violations.is_empty());
        self.vain += usize::from(ended.violations.is_empty() && vain.is_some());
    }
}

/// Prints the violations, or the reason why the run proves nothing: of each invariant the first violation and the number
/// of others.
fn told(out: &mut impl Write, line: &str, played: &Played) -> anyhow::Result<()> {
    let Played { ended, policy, vain, .. } = played;
    match vain {
        Some(why) if ended.violations.is_empty() => writeln!(out, "shows nothing: {line}: {why}")?,
        _ if ended.violations.is_empty() && policy.is_empty() => {}
        _ => writeln!(out, "{line}")?,
    }
    for (violations, word) in [(&ended.violations, ""), (policy, "policy: ")] {
        let mut of_each = BTreeMap::<Invariant, Vec<&Violation>>::new();
        for violation in violations {
            of_each.entry(violation.invariant).or_default().push(violation);
        }
        for of_one in of_each.values() {
            let more = match of_one.len() {
                1 => String::new(),
                n => format!(", and {} more", n - 1),
            };
            writeln!(out, "    {word}{}{more}", of_one[0])?;
        }
    }
    out.flush()?;
    Ok(())
}
