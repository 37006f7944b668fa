//! `conformance sweep`: plays every life with each single failure.

use std::io::{IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use provider::InstancesMode;
use sha2::{Digest, Sha256};

use super::args::{Modes, modes};
use super::elapsed;
use super::output::PipeOutput;
use super::run::surroundings;
use crate::catalogue::nearest;
use crate::lab::{Mode, Stage};
use crate::lives::Life;
use crate::lives::sweep::{Journal, SweepKind, Trial, mode_name, sample, sweep, trials};
use crate::scenario::{Backend, InputError};
use crate::suite::report;
use crate::{foreign, lives};

/// Arguments of `conformance sweep`.
#[derive(Parser)]
pub(super) struct Arguments {
    /// Kind of failure: faults, crashes or stale; repeatable [default: all three].
    #[arg(long, value_parser = kind)]
    kind: Vec<SweepKind>,
    /// Life (long scenario) to play, by its name in --list-lives; repeatable [default: all].
    #[arg(long)]
    life: Vec<String>,
    /// Prints the lives with their phases and exits.
    #[arg(long)]
    list_lives: bool,
    /// Number of trials per kind, mode and instances mode, evenly spread over all trials [default:
    /// all].
    #[arg(long)]
    sample: Option<NonZeroUsize>,
    /// Mode of the provider: vcenter, supervisor or all.
    #[arg(long, default_value = "all", value_parser = modes)]
    mode: Modes,
    /// Instances mode of the provider: auto, watch, poll or v1; repeatable [default: all that
    /// differ].
    #[arg(long)]
    instances_mode: Vec<InstancesMode>,
    /// Number of parallel trials [default: one per processor; 8 with --provider].
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// File that records each trial; the sweep skips trials that the file already contains.
    #[arg(long)]
    journal: Option<PathBuf>,
    /// Plays only trials whose line contains this text, and prints their ledgers and the provider's
    /// logs.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["sample", "journal"])]
    trial: Option<String>,
    /// Seed of all random draws.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Provider to run as a process: a `kind: Provider` manifest, or ours-vcenter, ours-supervisor,
    /// stock-ccm, upstream-vcenter, upstream-paravirtual. The manifest sets the mode.
    #[arg(long, value_name = "FILE|NAME", conflicts_with_all = ["mode", "instances_mode", "journal"])]
    provider: Option<String>,
    /// Program that replaces $(binary) in the manifest.
    #[arg(long, value_name = "PATH", requires = "provider")]
    binary: Option<PathBuf>,
    /// Factor by which world time runs faster than the clock; the provider's periods are shortened
    /// by it.
    #[arg(long, value_name = "K", default_value_t = 10, requires = "provider")]
    compress: u32,
    /// Plays the lives without failures.
    #[arg(long, requires = "provider", conflicts_with_all = ["kind", "sample", "trial"])]
    healthy: bool,
}

fn kind(text: &str) -> Result<SweepKind, String> {
    let found = SweepKind::ALL.into_iter().find(|kind| kind.as_str() == text);
    found.ok_or_else(|| "expected faults, crashes or stale".to_owned())
}

/// Default of `--jobs` with `--provider`.
const PROCESSES: NonZeroUsize = NonZeroUsize::new(8).expect("not zero");

/// Combined result of all sweeps.
#[derive(Default)]
struct Totals {
    is_broken: bool,
    is_idle: bool,
}

pub(super) fn run(out: &mut impl Write, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    known_lives(arguments)?;
    if arguments.list_lives {
        return list_lives(out, arguments);
    }
    if let Some(provider) = &arguments.provider {
        return of_process(out, arguments, provider);
    }
    let mut journal = match &arguments.journal {
        None => None,
        Some(path) => Some(Journal::open(path, &build()?, arguments.seed)?),
    };
    if let Some(text) = &arguments.trial {
        return transcripts(out, arguments, text);
    }
    let mut totals = Totals::default();
    let kinds = kinds(arguments);
    for mode in wanted_modes(arguments) {
        let stage = Stage { mode, seed: arguments.seed, ..Stage::default() };
        let all = trials(kinds, &stage, |life| is_wanted(arguments, life));
        for (kind, trials) in kinds.iter().zip(all) {
            one(out, arguments, &stage, *kind, trials, journal.as_mut(), &mut totals)?;
        }
    }
    Ok(match totals {
        Totals { is_broken: true, .. } => ExitCode::from(1),
        Totals { is_idle: true, .. } => ExitCode::from(7),
        _ => ExitCode::SUCCESS,
    })
}

/// Runs the sweep with the provider of a manifest, on the real clock, and returns the exit code.
fn of_process(
    out: &mut impl Write,
    arguments: &Arguments,
    provider: &str,
) -> anyhow::Result<ExitCode> {
    const KINDS: [SweepKind; 2] = [SweepKind::Faults, SweepKind::Stale];
    if arguments.kind.contains(&SweepKind::Crashes) {
        let problem = "needs virtual time, where the moment of each write is known beforehand";
        let crashes = InputError::in_flag("--kind", "crashes", problem);
        return Err(crashes.remedy("write faults or stale").into());
    }
    let kinds = match arguments.kind.as_slice() {
        _ if arguments.healthy => &[],
        [] => &KINDS[..],
        kinds => kinds,
    };
    let request = foreign::sweep::SweepOptions {
        provider,
        binary: arguments.binary.clone(),
        compress: arguments.compress,
        jobs: arguments.jobs.unwrap_or(PROCESSES),
        seed: arguments.seed,
        kinds,
        lives: &arguments.life,
        sample: arguments.sample,
        trial: arguments.trial.as_deref(),
    };
    let out = &mut PipeOutput::new(out);
    foreign::sweep::run(out, &request, &surroundings()?)
}

/// Plays the trials whose line contains `text`, one by one, and prints the ledger, the provider's
/// log and the violations of each. Returns exit code 1 if a trial has violations, else 0. Fails if
/// no line contains `text`.
fn transcripts(
    out: &mut impl Write,
    arguments: &Arguments,
    text: &str,
) -> anyhow::Result<ExitCode> {
    let (mut n_played, mut is_broken) = (0, false);
    for mode in wanted_modes(arguments) {
        let stage = Stage { mode, seed: arguments.seed, ..Stage::default() };
        let all = trials(kinds(arguments), &stage, |life| is_wanted(arguments, life));
        for trial in all.iter().flatten().filter(|it| it.to_string().contains(text)) {
            let run = trial.run(&stage);
            run.ledger.iter().try_for_each(|record| writeln!(out, "{record}"))?;
            writeln!(out, "{}", run.logs)?;
            let violations = Life::broken(&run);
            violations.iter().try_for_each(|it| writeln!(out, "    {it}"))?;
            writeln!(out, "{trial}: {} violations", violations.len())?;
            n_played += 1;
            is_broken |= !violations.is_empty();
        }
    }
    if n_played == 0 {
        let unknown = InputError::unknown("invalid --trial", text);
        return Err(unknown.condition("no line of the selected trials contains it").into());
    }
    Ok(ExitCode::from(u8::from(is_broken)))
}

fn kinds(arguments: &Arguments) -> &[SweepKind] {
    if arguments.kind.is_empty() { &SweepKind::ALL } else { &arguments.kind }
}

fn is_wanted(arguments: &Arguments, life: &str) -> bool {
    arguments.life.is_empty() || arguments.life.iter().any(|it| it == life)
}

/// Runs the sweep of one kind, with all its trials `all`, in the mode of `stage`, prints its results,
/// and adds them to `totals`. Does not repeat the trials in the journal, but counts them. Adds each
/// trial that it plays to the journal.
fn one(
    out: &mut impl Write,
    arguments: &Arguments,
    stage: &Stage,
    kind: SweepKind,
    mut all: Vec<Trial>,
    mut journal: Option<&mut Journal>,
    totals: &mut Totals,
) -> anyhow::Result<()> {
    let clock = elapsed();
    let n_all = all.len();
    if let Some(n) = arguments.sample {
        all = sample(&all, n.get());
    }
    let n_chosen = all.len();
    let mut counts = Counts::default();
    if let Some(journal) = &journal {
        let (done, left): (Vec<Trial>, Vec<Trial>) =
            all.into_iter().partition(|trial| journal.ended(trial).is_some());
        for trial in &done {
            let Some((fired, violations)) = journal.ended(trial) else { continue };
            counts.add(out, trial, *fired, violations)?;
        }
        all = left;
    }
    let bar = progress(all.len(), &format!("{} {}", mode_name(stage.mode), kind.as_str()));
    let mut result = Ok(());
    sweep(stage, &all, jobs(arguments), |trial, ended| {
        bar.inc(1);
        if result.is_err() {
            return;
        }
        let violations: Vec<String> = ended.violations.iter().map(ToString::to_string).collect();
        result = bar.suspend(|| {
            counts.add(out, trial, ended.fired, &violations)?;
            if let Some(journal) = journal.as_deref_mut() {
                journal.add(trial, ended)?;
            }
            anyhow::Ok(())
        });
    });
    bar.finish_and_clear();
    result?;
    let Counts { n_fired, n_idle, n_broken } = counts;
    writeln!(
        out,
        "{} {}: {n_chosen} of {n_all} trials, {n_fired} whose failure happened, {n_broken} with violations, {}",
        mode_name(stage.mode),
        kind.as_str(),
        report::seconds(clock())
    )?;
    totals.is_broken |= n_broken > 0;
    // A sweep without trials proves nothing, because the provider made no call that could fail.
    totals.is_idle |= n_idle > 0 || n_chosen == 0;
    Ok(())
}

/// Counts of one sweep.
#[derive(Default)]
struct Counts {
    n_fired: usize,
    n_idle: usize,
    n_broken: usize,
}

impl Counts {
    /// Counts a trial, and prints it if its failure never happened or an invariant was broken.
    fn add(
        &mut self,
        out: &mut impl Write,
        trial: &Trial,
        fired: bool,
        violations: &[String],
    ) -> std::io::Result<()> {
        self.n_fired += usize::from(fired);
        if !fired {
            self.n_idle += 1;
            writeln!(out, "the failure of this trial never happened: {trial}")?;
        }
        if !violations.is_empty() {
            self.n_broken += 1;
            writeln!(out, "{trial}")?;
            for violation in violations.iter().take(3) {
                writeln!(out, "    {violation}")?;
            }
        }
        Ok(())
    }
}

/// Returns the requested modes, in order: each requested backend with each requested instances
/// mode. Without `--instances-mode`, takes all instances modes, but not `watch` for vCenter.
fn wanted_modes(arguments: &Arguments) -> Vec<Mode> {
    use InstancesMode::{Auto, Poll, V1, Watch};
    let of = |backend: &Backend| {
        let backend = *backend;
        let instances = match &arguments.instances_mode[..] {
            // With a vCenter, `watch` and `auto` are the same.
            [] if backend.is_vcenter() => &[Auto, Poll, V1][..],
            [] => &[Auto, Watch, Poll, V1],
            wanted => wanted,
        };
        instances.iter().map(move |it| Mode::new(backend, *it))
    };
    arguments.mode.0.iter().flat_map(of).collect()
}

/// Checks that every requested life exists in one of the requested modes.
fn known_lives(arguments: &Arguments) -> Result<(), InputError> {
    let lives: Vec<_> = arguments.mode.0.iter().flat_map(|it| lives::all(*it)).collect();
    for wanted in &arguments.life {
        if lives.iter().all(|life| life.name != wanted) {
            let near = nearest(wanted, lives.iter().map(|life| life.name));
            let note = "--list-lives prints all lives";
            let unknown = InputError::unknown("invalid life", wanted);
            return Err(match near {
                Some(near) => unknown.remedy(format!("did you mean {near}? ({note})")),
                None => unknown.note(note),
            });
        }
    }
    Ok(())
}

fn list_lives(out: &mut impl Write, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    for backend in arguments.mode.0 {
        writeln!(out, "{}", backend.title())?;
        for life in lives::all(*backend) {
            let phases: Vec<String> = life.phases().into_iter().map(|phase| phase.name).collect();
            writeln!(out, "  {:28} {} ({})", life.name, life.about, phases.join(", "))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn jobs(arguments: &Arguments) -> NonZeroUsize {
    let one = NonZeroUsize::MIN;
    arguments.jobs.unwrap_or_else(|| std::thread::available_parallelism().unwrap_or(one))
}

/// Returns a progress bar, hidden if standard error is not a terminal.
fn progress(n: usize, title: &str) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(n as u64), target);
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}, {eta} left");
    bar.with_style(style.expect("the template is valid")).with_message(title.to_owned())
}

/// Returns the first 8 bytes of the SHA-256 of this program's file in hexadecimal, which identify
/// the build.
fn build() -> anyhow::Result<String> {
    let bytes = std::fs::read(std::env::current_exe()?)?;
    Ok(Sha256::digest(&bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect())
}
