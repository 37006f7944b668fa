//! `conformance run` and `conformance cost`: run checks, count calls, write reports, and determine
//! the exit code.

use std::io::Write;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::args::{RunArguments, check_mutant};
use super::elapsed;
use super::output::PipeOutput;
use crate::catalogue::CheckId;
use crate::checks::{Case, Check};
use crate::cost::{self, Table};
use crate::foreign;
use crate::judge::verdict::Verdict;
use crate::lab::ahead::in_order;
use crate::lab::{Mode, Stage, memory, peak_resident};
use crate::scenario::{Backend, InputError};
use crate::suite::autoscaler::AutoscalerCase;
use crate::suite::capacity;
use crate::suite::report::{self, About, Ledgers, Tally};
use crate::suite::{CaseResult, Conclusion, Filter, Part};

/// Largest number of cases that run at a time. Each needs memory for its world and ledger.
const MOST_AT_A_TIME: NonZeroUsize = NonZeroUsize::new(8).expect("not zero");

pub(super) fn run(out: &mut impl Write, arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    // The exit code and the files matter even if the reader closes the pipe before the table ends.
    let out = &mut PipeOutput::new(out);
    let filter = Filter { ids: arguments.ids.clone(), surfaces: arguments.surface.clone() };
    filter.validate()?;
    arguments.mutant.map_or(Ok(()), |mutant| check_mutant(mutant, arguments.mode.modes))?;
    for (alias, target) in filter.aliases() {
        writeln!(out, "{alias} is an alias of {target}, which runs instead")?;
    }
    let has_checks = |backend: &Backend| !filter.checks(*backend).is_empty();
    let has_autoscaler = arguments.mode.autoscaler && !filter.autoscaler_checks().is_empty();
    let has_capacity = arguments.mode.capacity && !filter.capacity_checks().is_empty();
    if !has_autoscaler && !has_capacity && !arguments.mode.modes.0.iter().any(has_checks) {
        let none = InputError::new("no check with cases matches");
        return Err(none.remedy("`conformance list --all` also lists planned checks").into());
    }
    arguments.out.as_deref().map_or(Ok(()), report::prepare)?;
    if arguments.foreign.provider.is_some() {
        return run_foreign(out, filter, arguments);
    }
    run_ours(out, &filter, arguments)
}

/// Runs the checks against our provider in virtual time.
fn run_ours(
    out: &mut impl Write,
    filter: &Filter,
    arguments: &RunArguments,
) -> anyhow::Result<ExitCode> {
    let modes = arguments.mode.modes.0;
    let stage = Stage { seed: arguments.seed, mutant: arguments.mutant, ..Stage::default() };
    let clock = elapsed();
    let ledgers = arguments.out.as_deref().map(Ledgers::begin).transpose()?;
    let is_all = arguments.ids.is_empty() && arguments.surface.is_empty();
    let counts = is_all && !arguments.no_cost && !modes.is_empty();
    // Calls are counted beside the checks, so that a large fleet, which leaves no memory for a
    // second one, leaves processors to them.
    let counts_server = is_all && !arguments.no_cost && arguments.mode.autoscaler;
    let (conclusions, tables) = std::thread::scope(|scope| {
        let (stage, ledgers) = (&stage, ledgers.as_ref());
        let counted = counts.then(|| scope.spawn(move || cost::measure(stage, modes, threads())));
        let conclusions = judge_parts(out, filter, arguments, (stage, ledgers), clock);
        let tables = counted.map(|it| it.join().unwrap_or_else(|panic| resume_unwind(panic)));
        conclusions.map(|it| (it, tables.unwrap_or_default()))
    })?;
    let fleets: &[cost::Fleet] = if counts_server { &cost::Fleet::SMALL } else { &[] };
    let server = cost::measure_server(fleets).map_err(anyhow::Error::msg)?;
    for conclusion in &conclusions {
        if let Some(evidence) = conclusion.evidence(&stage) {
            writeln!(out, "\n{evidence}")?;
        }
    }
    if counts {
        writeln!(out, "\nCalls by phase and number of nodes, ours and upstream's")?;
    }
    show(out, &tables, arguments.operations)?;
    if counts_server {
        writeln!(out, "\n{}", server.table(fleets))?;
    }
    if let Some(dir) = &arguments.out {
        report::write(dir, &About::ours(&stage), &stage, &conclusions, &tables)?;
        ledgers.map_or(Ok(()), |ledgers| ledgers.join())?;
    }
    let tally = Tally::count(&conclusions);
    let cases: usize = conclusions.iter().map(|it| it.outcomes.len()).sum();
    let memory = peak_resident().map(|bytes| format!(", {} MiB resident at most", bytes >> 20));
    writeln!(
        out,
        "{tally}; {cases} cases, seed {}, {} of wall time{}",
        stage.seed,
        report::seconds(clock()),
        memory.unwrap_or_default()
    )?;
    // Our provider must support every promise, so `NotSupported` counts as a failure.
    if tally.failed + tally.not_supported > 0 {
        return Ok(ExitCode::from(1));
    }
    if deviate(out, &tables, &server.deviations(fleets))? {
        return Ok(ExitCode::from(6));
    }
    Ok(if tally.inconclusive > 0 { ExitCode::from(7) } else { ExitCode::SUCCESS })
}

/// Judges our provider in every mode, its server for the Cluster Autoscaler, and its reconciler of
/// machine templates.
fn judge_parts(
    out: &mut impl Write,
    filter: &Filter,
    arguments: &RunArguments,
    (stage, ledgers): (&Stage, Option<&Ledgers>),
    clock: impl Fn() -> Duration + Copy + Sync,
) -> anyhow::Result<Vec<Conclusion>> {
    let mut conclusions = judge_ours(out, filter, arguments, (stage, ledgers), clock)?;
    let has_failed = |conclusions: &[Conclusion]| {
        arguments.fail_fast && conclusions.last().is_some_and(|it| !is_good(it))
    };
    if arguments.mode.autoscaler && !has_failed(&conclusions) {
        conclusions.extend(judge_autoscaler(out, filter, arguments, clock)?);
    }
    if arguments.mode.capacity && !has_failed(&conclusions) {
        conclusions.extend(judge_capacity(out, filter, arguments, clock)?);
    }
    Ok(conclusions)
}

/// Judges our provider by the checks of `filter` in every mode, prints each conclusion, and writes
/// the ledger of each case to the given `Ledgers`, if any. Plays as many cases at a time as the
/// machine has processors, up to [`MOST_AT_A_TIME`]. With `--fail-fast`, ends after the first check
/// that is neither passed (`pass` or `partial`) nor skipped.
fn judge_ours(
    out: &mut impl Write,
    filter: &Filter,
    arguments: &RunArguments,
    (stage, ledgers): (&Stage, Option<&Ledgers>),
    clock: impl Fn() -> Duration + Sync,
) -> anyhow::Result<Vec<Conclusion>> {
    let selected: Vec<(Stage, Vec<Check>)> = arguments
        .mode
        .modes
        .0
        .iter()
        .map(|&backend| {
            let mode = Mode::new(backend, arguments.instances_mode);
            (Stage { mode, ..stage.clone() }, filter.checks(backend))
        })
        .collect();
    let checks =
        || selected.iter().flat_map(|(stage, checks)| checks.iter().map(move |it| (stage, it)));
    let cases: Vec<CaseToPlay<'_>> = checks()
        .enumerate()
        .flat_map(|(n, (stage, check))| {
            let case =
                move |(case_n, case)| CaseToPlay { stage, id: check.id, case, place: (n, case_n) };
            check.cases.iter().enumerate().map(case)
        })
        .collect();
    let play = |it: &CaseToPlay<'_>| {
        CaseResult::play(it.case, it.stage, &clock, |outcome| match ledgers {
            None => Ok(()),
            Some(ledgers) => ledgers.put(it.place, (it.id, it.stage.mode.backend()), outcome),
        })
    };
    let mut report = |played: &mut dyn Iterator<Item = anyhow::Result<CaseResult>>| {
        let mut conclusions: Vec<Conclusion> = Vec::new();
        for (stage, checks) in &selected {
            let backend = stage.mode.backend();
            writeln!(out, "{}", backend.title())?;
            let fail_fast = arguments.fail_fast;
            let of_mode =
                checks.iter().map(|it| Conclusion::of_played(it, backend, fail_fast, played));
            conclusions.extend(printed(out, fail_fast, of_mode)?);
            if fail_fast && conclusions.last().is_some_and(|it| !is_good(it)) {
                break;
            }
        }
        Ok(conclusions)
    };
    if arguments.fail_fast {
        // A thread that plays ahead would write ledgers of cases that are left out.
        return report(&mut cases.iter().map(play));
    }
    let is_large = |it: &CaseToPlay<'_>| memory::is_large(&it.case.scenario);
    in_order(threads(), &cases, is_large, play, report)
}

/// Prints each conclusion as soon as it is there, and returns all of them; with `fail_fast`, those up
/// to the first that is not good.
fn printed(
    out: &mut impl Write,
    fail_fast: bool,
    conclusions: impl Iterator<Item = anyhow::Result<Conclusion>>,
) -> anyhow::Result<Vec<Conclusion>> {
    let mut all = Vec::new();
    for conclusion in conclusions {
        let conclusion = conclusion?;
        write!(out, "{}", report::table(std::slice::from_ref(&conclusion), true))?;
        out.flush()?;
        let ends = fail_fast && !is_good(&conclusion);
        all.push(conclusion);
        if ends {
            break;
        }
    }
    Ok(all)
}

/// True for a check that `--fail-fast` does not end with.
fn is_good(conclusion: &Conclusion) -> bool {
    conclusion.verdict.is_held() || matches!(conclusion.verdict, Verdict::Skipped(_))
}

/// Judges our server for the Cluster Autoscaler, as [`judge_ours`] does the modes.
fn judge_autoscaler(
    out: &mut impl Write,
    filter: &Filter,
    arguments: &RunArguments,
    clock: impl Fn() -> Duration + Sync,
) -> anyhow::Result<Vec<Conclusion>> {
    let checks = filter.autoscaler_checks();
    if checks.is_empty() {
        return Ok(Vec::new());
    }
    writeln!(out, "{}", Part::Autoscaler.title())?;
    let cases = AutoscalerCase::of(&checks);
    let report = |played: &mut dyn Iterator<Item = CaseResult>| {
        let conclusions = checks.iter().map(|check| {
            let outcomes = played.take(check.generations.len()).collect();
            Ok(Conclusion::of_server(check, outcomes))
        });
        printed(out, arguments.fail_fast, conclusions)
    };
    in_order(threads(), &cases, |_| false, |case| case.play(arguments.seed, &clock), report)
}

/// Judges our reconciler of machine templates, as [`judge_ours`] does the modes.
fn judge_capacity(
    out: &mut impl Write,
    filter: &Filter,
    arguments: &RunArguments,
    clock: impl Fn() -> Duration + Sync,
) -> anyhow::Result<Vec<Conclusion>> {
    let checks = filter.capacity_checks();
    if checks.is_empty() {
        return Ok(Vec::new());
    }
    writeln!(out, "{}", Part::Capacity.title())?;
    let report = |played: &mut dyn Iterator<Item = CaseResult>| {
        let conclusions = checks
            .iter()
            .zip(played)
            .map(|(it, outcome)| Ok(Conclusion::of_reconciler(it, outcome)));
        printed(out, arguments.fail_fast, conclusions)
    };
    let play = |check: &_| capacity::play(check, arguments.seed, &clock);
    in_order(threads(), &checks, |_| false, play, report)
}

/// Returns the number of worlds to play at a time.
fn threads() -> NonZeroUsize {
    let processors = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    processors.min(MOST_AT_A_TIME)
}

/// A case of the main job.
struct CaseToPlay<'a> {
    stage: &'a Stage,
    /// ID of its check.
    id: CheckId,
    case: &'a Case,
    /// Index of the check, and index of the case in the check.
    place: (usize, usize),
}

/// Runs the checks against the provider of a manifest, on the real clock. Reads the environment of
/// this process, because the layers below get it as an argument.
fn run_foreign(
    out: &mut impl Write,
    filter: Filter,
    arguments: &RunArguments,
) -> anyhow::Result<ExitCode> {
    let surroundings = surroundings()?;
    let request = foreign::command::JudgeOptions {
        filter,
        seed: arguments.seed,
        out: arguments.out.as_deref(),
        arguments: &arguments.foreign,
    };
    foreign::command::run(out, &request, &surroundings)
}

/// Runs `conformance cost`: prints how many calls of a provider or of a captured ledger were
/// needed.
pub(super) fn bill(
    out: &mut impl Write,
    arguments: &foreign::cost::Arguments,
) -> anyhow::Result<ExitCode> {
    let out = &mut PipeOutput::new(out);
    foreign::cost::run(out, arguments, &surroundings()?)
}

/// Returns the current time, and the environment variables and paths of this process.
pub(super) fn surroundings() -> anyhow::Result<foreign::command::Surroundings> {
    #[expect(clippy::disallowed_methods, reason = "the wall time at which a run begins")]
    let now = jiff::Timestamp::now();
    let program = std::env::current_exe()?;
    Ok(foreign::command::Surroundings {
        now,
        variables: std::env::vars().collect(),
        beside: program.parent().map(Path::to_owned),
        launcher: program,
        temporary: std::env::temp_dir(),
    })
}

pub(super) fn count(
    out: &mut impl Write,
    write: bool,
    operations: bool,
) -> anyhow::Result<ExitCode> {
    let tables = cost::measure(&Stage::default(), &Backend::ALL, threads());
    let server = cost::measure_server(&cost::Fleet::ALL).map_err(anyhow::Error::msg)?;
    if write {
        write!(out, "{}", cost::budgets(&tables, &server))?;
        return Ok(ExitCode::SUCCESS);
    }
    show(out, &tables, operations)?;
    writeln!(out, "\n{}", server.table(&cost::Fleet::ALL))?;
    let deviations = server.deviations(&cost::Fleet::ALL);
    Ok(if deviate(out, &tables, &deviations)? { ExitCode::from(6) } else { ExitCode::SUCCESS })
}

fn show(out: &mut impl Write, tables: &[Table], operations: bool) -> anyhow::Result<()> {
    for table in tables {
        writeln!(out, "\n{}", table.text())?;
        if operations {
            writeln!(out, "{}", table.operations_text())?;
        }
    }
    Ok(())
}

/// Prints the differences from the committed budgets, `more` of which are known. Returns true if it
/// printed any.
fn deviate(out: &mut impl Write, tables: &[Table], more: &[String]) -> anyhow::Result<bool> {
    let of_tables = tables.iter().flat_map(Table::deviations);
    let deviations: Vec<String> = of_tables.chain(more.iter().cloned()).collect();
    for deviation in &deviations {
        writeln!(out, "{deviation}")?;
    }
    Ok(!deviations.is_empty())
}
