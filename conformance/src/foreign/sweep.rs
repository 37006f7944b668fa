//! `conformance sweep --provider`: plays lives with a provider on the real clock, first without
//! failures and then with one failure per run.
//!
//! The healthy run of a life shows the calls that this provider makes, and a trial lets one of them
//! fail. World time runs `compress` times as fast as the clock, but the constants of a provider
//! (deadlines, back-offs, the duration of a lease) cannot be shortened. So trials are judged by
//! safety alone, unless world time runs as fast as the clock. It always does in lives in which
//! replicas elect a leader.

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

use super::command::{Surroundings, setup, with_setup};
use super::run::delay_meter::Delay;
use super::run::feasibility::{hindrance, pace, paces_of_repetitions};
use super::{Settings, Setup, Subject};
use crate::catalogue::Class;
use crate::judge::{Invariant, Violation};
use crate::lab::Run;
use crate::lives::sweep::{self, SweepKind, Trial, TrialResult, mode_name};
use crate::lives::{self, Life};
use crate::scenario::{InputError, Scenario};
use crate::suite::report::seconds;

/// Parameters of a sweep.
#[derive(Debug)]
pub struct SweepOptions<'a> {
    /// Path of the manifest, or name of a built-in one.
    pub provider: &'a str,
    /// Program for `$(binary)` in the manifest.
    pub binary: Option<PathBuf>,
    /// Seconds of world time per second of the clock, except in lives in which replicas elect a
    /// leader: those run in real time.
    pub compress: u32,
    /// Number of parallel runs, each with its own sim and provider.
    pub jobs: NonZeroUsize,
    /// Seed of all random draws.
    pub seed: u64,
    /// Kinds of failures to sweep; empty to play the lives only without failures.
    pub kinds: &'a [SweepKind],
    /// Names of the lives to play; empty for all.
    pub lives: &'a [String],
    /// Maximum number of trials to play of each kind, spread evenly over the selected trials;
    /// `None` for all.
    pub sample: Option<NonZeroUsize>,
    /// Text that selects the trials whose line contains the text, and makes the sweep print their
    /// ledgers and logs; `None` for all trials.
    pub trial: Option<&'a str>,
}

/// Plays the selected lives and their trials, and prints the results. Returns exit code 1 for a
/// violation that counts; else 7 if a run proved nothing, or if no life or no trial of a kind could
/// be played; else 0.
///
/// # Errors
/// Returns an [`InputError`], or an error of the harness.
pub fn run(
    out: &mut impl Write,
    request: &SweepOptions<'_>,
    surroundings: &Surroundings,
) -> anyhow::Result<ExitCode> {
    if request.compress == 0 {
        return Err(InputError::wrong_flag("--compress", 0).remedy("write 1 or more").into());
    }
    let setup = setup(request.provider, request.binary.as_deref(), surroundings)?;
    let all = lives::all(setup.manifest.spec.mode);
    if let Some(name) = request.lives.iter().find(|it| all.iter().all(|life| life.name != **it)) {
        let mode = setup.manifest.spec.mode;
        let unknown =
            InputError::in_flag("--life", name, format!("{mode} mode has no life with this name"));
        return Err(unknown.note("--list-lives prints all lives").into());
    }
    let settings = Settings {
        seed: request.seed,
        jobs: request.jobs.get(),
        compress: request.compress,
        longest: Duration::MAX,
        retries: 0,
        now: surroundings.now,
    };
    with_setup(setup, async |setup, stop| {
        let mut subject = Subject::new(Arc::clone(setup), settings);
        tokio::select! {
            biased;
            () = stop.cancelled() => bail!(
                "interrupted by SIGINT or SIGTERM; the run is not complete, so play it again"
            ),
            measured = subject.calibrate() => measured?,
        };
        Sweep { request, setup, subject: &subject, stop }.play(out, all).await
    })
}

/// True if a violation counts in every run, even if this computer was late. Such a violation breaks
/// a safety invariant that is not a policy of our provider; other providers do not promise our
/// policies.
fn is_unsafe(violation: &Violation) -> bool {
    let invariant = violation.invariant;
    invariant.class() == Class::Safety && !invariant.is_policy()
}

/// Result of a life or a trial.
struct LifeResult {
    run: Run,
    /// Result with the violations that count.
    ended: TrialResult,
    /// Violations of our policies. These violations are not defects of other providers, because our
    /// policies go beyond the contract of `k8s.io/cloud-provider`.
    policy: Vec<Violation>,
    /// Reason why the run proves nothing, which matters only if no violation counts; `None` without
    /// such a reason.
    vain: Option<String>,
}

impl LifeResult {
    /// Sorts the violations of a run. Those of policies do not count. Of the other ones, violations
    /// of safety invariants always count, and the rest count if `all` is true and this computer was
    /// not late.
    fn new(run: Run, late: Option<Delay>, all: bool) -> Self {
        let mut ended = TrialResult::from_run(&run);
        let policy = ended.violations.extract_if(.., |it| it.invariant.is_policy()).collect();
        ended.violations.retain(|it| is_unsafe(it) || (all && late.is_none()));
        let vain = match run.refusals().next() {
            Some(refused) => {
                Some(format!("the lab could not carry out a step of the scenario: {refused}"))
            }
            None if run.calls().next().is_none() => Some("the provider made no call".to_owned()),
            None => late.map(|late| late.to_string()),
        };
        Self { run, ended, policy, vain }
    }
}

/// Numbers of lives, or of trials of one kind, by result.
#[derive(Default)]
struct Tally {
    played: usize,
    /// Number of runs in which the failure happened.
    fired: usize,
    /// Number of runs with violations that count.
    broken: usize,
    /// Number of runs that prove nothing and in which no violation counts.
    vain: usize,
}

struct Sweep<'a> {
    request: &'a SweepOptions<'a>,
    setup: &'a Setup,
    subject: &'a Subject,
    stop: &'a CancellationToken,
}

impl Sweep<'_> {
    async fn play(&self, out: &mut impl Write, all: Vec<Life>) -> anyhow::Result<ExitCode> {
        let SweepOptions { kinds, compress, .. } = *self.request;
        let name = &self.setup.manifest.name;
        let (healthy, mut tally) = self.healthy(out, all).await?;
        if !kinds.is_empty() && compress > 1 {
            writeln!(
                out,
                "trials are judged by the safety invariants alone, because world time runs {compress} times as fast as the clock, but a provider's own deadlines and back-offs cannot be shortened; --compress 1 judges all invariants, and lives with several replicas always run in real time"
            )?;
        }
        let mut n_trials = 0;
        for kind in kinds {
            let begin = Instant::now();
            let of_life = |(life, run): &(Life, Run)| sweep::trials_of(*kind, life, run);
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
                "{name} {}: {} of {n_all} trials, {} whose failure happened, {} with violations, {} inconclusive, {}",
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
            let unknown = InputError::unknown("invalid trial", text);
            return Err(unknown.condition("no trial of the selected kinds contains it").into());
        }
        Ok(match tally {
            Tally { broken: 1.., .. } => ExitCode::from(1),
            Tally { vain: 1.., .. } | Tally { played: 0, .. } => ExitCode::from(7),
            _ => ExitCode::SUCCESS,
        })
    }

    /// Plays the selected lives without failures and prints their results. Returns the lives that
    /// could be played, each with its run, and the tally.
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
                Some(why) => writeln!(out, "life not played: {}: {why}", life.name)?,
            }
        }
        let mut tally = Tally::default();
        let scenarios = can.iter().map(|it| (it.name.to_owned(), it.scenario.clone()));
        let mut runs = Vec::new();
        self.each(scenarios.collect(), true, |n, played| {
            tally.take(&played);
            print_result(out, can[n].name, &played)?;
            runs.push((n, played.run));
            Ok(())
        })
        .await?;
        runs.sort_by_key(|(n, _)| *n);
        writeln!(
            out,
            "{} lives: {} of {n_all}, {} with violations, {} inconclusive, {}",
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
            // Violations of policies are printed for healthy runs only.
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
            print_result(out, &line, &played)
        })
        .await?;
        Ok(tally)
    }

    /// Plays scenarios in parallel, and calls `ended` with the index and the result of each, in the
    /// order in which they end. If `all` is false, only safety counts in scenarios whose world time
    /// runs faster than the clock.
    async fn each(
        &self,
        scenarios: Vec<(String, Scenario)>,
        all: bool,
        mut ended: impl FnMut(usize, LifeResult) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mode = mode_name(self.subject.stage().mode);
        let compress = self.request.compress;
        let mut runs = stream::iter(scenarios.into_iter().enumerate())
            .map(|(n, (line, scenario))| {
                let folder = format!("{mode}-{n}");
                async move {
                    let usual = pace(&scenario, compress);
                    let mut played = self.subject.witness(&folder, &scenario).await;
                    // Repeats a run at lower paces while this computer is late, unless the run has
                    // a violation that counts in every run.
                    for (again, pace) in paces_of_repetitions(usual).enumerate().skip(1) {
                        if !matches!(&played, Ok((run, Some(_))) if !Life::broken(run).iter().any(is_unsafe)) {
                            break;
                        }
                        let folder = format!("{folder}-again-{again}");
                        played = self.subject.witness_at(&folder, &scenario, pace).await;
                    }
                    (n, line, usual == 1, played)
                }
            })
            .buffer_unordered(self.request.jobs.get());
        loop {
            let next = tokio::select! {
                biased;
                () = self.stop.cancelled() => bail!(
                    "interrupted by SIGINT or SIGTERM; the run is not complete, so play it again"
                ),
                next = runs.next() => next,
            };
            match next {
                None => return Ok(()),
                Some((n, _, is_real, Ok((run, late)))) => {
                    ended(n, LifeResult::new(run, late, all || is_real))?;
                }
                Some((_, line, _, Err(error))) => return Err(error.context(line)),
            }
        }
    }
}

impl Tally {
    fn take(&mut self, played: &LifeResult) {
        let LifeResult { ended, vain, .. } = played;
        self.played += 1;
        self.fired += usize::from(ended.fired);
        self.broken += usize::from(!ended.violations.is_empty());
        self.vain += usize::from(ended.violations.is_empty() && vain.is_some());
    }
}

/// Prints the violations of a run and, if none of them counts, the reason why the run proves
/// nothing. Of each invariant, prints the first violation and the number of further ones. Prints
/// nothing for a run with neither.
fn print_result(out: &mut impl Write, line: &str, played: &LifeResult) -> anyhow::Result<()> {
    let LifeResult { ended, policy, vain, .. } = played;
    match vain {
        Some(why) if ended.violations.is_empty() => writeln!(out, "inconclusive: {line}: {why}")?,
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
