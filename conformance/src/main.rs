//! `conformance`: judges a vSphere cloud provider, and says why.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use conformance::backend::Backend;
use conformance::catalogue;
use conformance::cost::{self, Table};
use conformance::lab::{Mutants, Stage};
use conformance::report::{self, About, Tally};
use conformance::suite::{Conclusion, Filter};
use conformance::{alike, foreign, kubernetes, sweep};

/// Judges a vSphere cloud provider for Kubernetes against everything it promises.
///
/// Exit codes: 0 all passed; 1 a check failed; 2 usage; 3 the harness itself failed; 5 what failed held when it was
/// tried again; 6 a budget was exceeded or is not the committed one; 7 nothing failed, but a check was inconclusive.
#[derive(Parser)]
#[command(name = "conformance", version)]
struct Arguments {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// Boot the world, run our provider against it in virtual time, judge it, count its calls.
    Run(RunArguments),
    /// List the checks, with what is run and what is planned.
    List {
        /// Only these IDs, or beginnings of IDs.
        ids: Vec<String>,
        /// Only this surface: node, zone, session, …
        #[arg(long)]
        surface: Vec<String>,
        /// Also those that no scenario exercises yet.
        #[arg(long)]
        all: bool,
    },
    /// Say what a check promises, why, how it is judged and how to mend a failure.
    Explain {
        /// The ID, like NODE-DEL-002.
        id: String,
    },
    /// Let every call of a run fail in every way, one run each.
    Sweep {
        /// Only so many runs, spread evenly.
        #[arg(long)]
        sample: Option<NonZeroUsize>,
        /// Where the provider looks for machines: vcenter, supervisor or all.
        #[arg(long, default_value = "all", value_parser = modes)]
        mode: Modes,
        /// Where every draw comes from.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Play generated histories with v1 and V2 of Supervisor mode, and compare what they say of Nodes.
    Alike {
        /// How many histories.
        #[arg(long, default_value = "1000")]
        runs: NonZeroU32,
        /// Where every draw comes from.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Count calls by phase, compare with budgets.yaml.
    Cost {
        /// Print budgets.yaml as measured.
        #[arg(long)]
        write: bool,
        /// Also a row per phase and operation.
        #[arg(long, conflicts_with = "write")]
        operations: bool,
    },
    /// Hold the simulated Kubernetes API against a real kube-apiserver, request by request.
    Kubernetes {
        #[command(subcommand)]
        command: kubernetes::command::What,
    },
    /// Become a program that ends with the process that started this.
    #[command(name = foreign::launch::SUBCOMMAND, hide = true)]
    Launch {
        /// That process.
        parent: i32,
        /// The program and its arguments.
        #[arg(last = true)]
        command: Vec<OsString>,
    },
}

#[derive(Parser)]
struct RunArguments {
    /// Only these IDs, or beginnings of IDs.
    ids: Vec<String>,
    /// Only this surface: node, zone, session, …
    #[arg(long)]
    surface: Vec<String>,
    /// Where the provider looks for machines: vcenter, supervisor or all.
    #[arg(long, default_value = "all", value_parser = modes, conflicts_with = "provider")]
    mode: Modes,
    /// Where every draw and identifier comes from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write results.json, junit.xml, summary.md, index.html and ledger.jsonl here.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Give our provider this deliberate defect.
    #[arg(long, value_parser = mutant, conflicts_with = "provider")]
    mutant: Option<Mutants>,
    /// Leave the table of calls per node and sync out.
    #[arg(long, conflicts_with = "provider")]
    no_cost: bool,
    /// Also a row per phase and operation in that table.
    #[arg(long, conflicts_with_all = ["no_cost", "provider"])]
    operations: bool,
    #[command(flatten)]
    foreign: foreign::command::Arguments,
}

/// Some modes, in the order in which they are judged.
#[derive(Clone, Copy)]
struct Modes(&'static [Backend]);

fn modes(text: &str) -> Result<Modes, String> {
    let all = &Backend::ALL;
    match all.iter().position(|it| it.as_str() == text) {
        Some(at) => Ok(Modes(&all[at..=at])),
        None if text == "all" => Ok(Modes(all)),
        None => Err("there are vcenter, supervisor and all".to_owned()),
    }
}

fn mutant(text: &str) -> Result<Mutants, String> {
    let all = || Mutants::ALL.into_iter().chain(Mutants::SUPERVISOR);
    all().find(|it| format!("{it:?}") == text).ok_or_else(|| {
        let names: Vec<String> = all().map(|it| format!("{it:?}")).collect();
        format!("there are {}", names.join(", "))
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = std::io::stdout().lock();
    let result = match arguments.command {
        What::Run(arguments) => run(&mut out, &arguments),
        What::List { ids, surface, all } => list(&mut out, Filter { ids, surfaces: surface }, all),
        What::Explain { id } => explain(&mut out, &id),
        What::Sweep { sample, mode, seed } => run_sweep(&mut out, sample, mode, seed),
        What::Alike { runs, seed } => run_alike(&mut out, runs.get(), seed),
        What::Cost { write, operations } => run_cost(&mut out, write, operations),
        What::Kubernetes { command } => kubernetes::command::run(&mut out, &command),
        What::Launch { parent, command } => foreign::launch::become_program(parent, &command),
    };
    match result {
        Ok(code) => code,
        // Whoever reads along has seen enough.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

/// An output whose reader may leave: what is written after that is dropped, and the work goes on.
struct Watched<'a, W> {
    out: &'a mut W,
    alone: bool,
}

impl<W: Write> Watched<'_, W> {
    fn unless_alone(&mut self, result: io::Result<()>) -> io::Result<()> {
        match result {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.alone = true;
                Ok(())
            }
            other => other,
        }
    }
}

impl<W: Write> Write for Watched<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.alone {
            let result = self.out.write_all(bytes);
            self.unless_alone(result)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.alone {
            return Ok(());
        }
        let result = self.out.flush();
        self.unless_alone(result)
    }
}

/// Time since the program began; for people only.
fn elapsed() -> impl FnMut() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "the wall time of a whole run, shown to people")]
    let begin = Instant::now();
    move || begin.elapsed()
}

fn run(out: &mut impl Write, arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    // The verdict and the files are wanted also when nobody reads the table to its end.
    let out = &mut Watched { out, alone: false };
    let filter = Filter { ids: arguments.ids.clone(), surfaces: arguments.surface.clone() };
    if let Err(unknown) = filter.validate() {
        return usage(out, &unknown);
    }
    for (alias, target) in filter.aliases() {
        writeln!(out, "{alias} says the same as {target}, which is run")?;
    }
    let modes = arguments.mode.0;
    if modes.iter().all(|backend| filter.checks(*backend).is_empty()) {
        return usage(
            out,
            "no check that is run matches; `conformance list --all` names the planned",
        );
    }
    if let Some(dir) = &arguments.out
        && let Err(error) = report::prepare(dir)
    {
        return usage(out, &format!("{error:#}"));
    }
    if arguments.foreign.provider.is_some() {
        return run_foreign(out, filter, arguments);
    }
    let stage = Stage { seed: arguments.seed, mutant: arguments.mutant, ..Stage::default() };
    let mut clock = elapsed();
    let mut conclusions = Vec::new();
    for &backend in modes {
        let stage = Stage { mode: backend.into(), ..stage.clone() };
        writeln!(out, "{}", backend.title())?;
        for check in &filter.checks(backend) {
            let conclusion = Conclusion::reach(check, &stage, &mut clock);
            write!(out, "{}", report::table(std::slice::from_ref(&conclusion), true))?;
            out.flush()?;
            conclusions.push(conclusion);
        }
    }
    for conclusion in &conclusions {
        if let Some(evidence) = conclusion.evidence(&stage) {
            writeln!(out, "\n{evidence}")?;
        }
    }
    let whole = arguments.ids.is_empty() && arguments.surface.is_empty() && !arguments.no_cost;
    let tables = if whole { cost::measure(&stage, modes) } else { Vec::new() };
    if whole {
        writeln!(out, "\nCalls by phase and number of nodes, ours and upstream's")?;
    }
    show(out, &tables, arguments.operations)?;
    if let Some(dir) = &arguments.out {
        report::write(dir, &About::ours(&stage), &stage, &conclusions, &tables)?;
    }
    let tally = Tally::of(&conclusions);
    let cases: usize = conclusions.iter().map(|it| it.outcomes.len()).sum();
    writeln!(
        out,
        "{tally}; {cases} cases, seed {}, {} of wall time",
        stage.seed,
        report::seconds(clock())
    )?;
    if tally.failed > 0 {
        return Ok(ExitCode::from(1));
    }
    if deviate(out, &tables)? {
        return Ok(ExitCode::from(6));
    }
    Ok(if tally.inconclusive > 0 { ExitCode::from(7) } else { ExitCode::SUCCESS })
}

/// A provider that is a process. What this machine knows goes in here and nowhere below.
fn run_foreign(
    out: &mut impl Write,
    filter: Filter,
    arguments: &RunArguments,
) -> anyhow::Result<ExitCode> {
    #[expect(clippy::disallowed_methods, reason = "the wall time at which a run begins")]
    let now = jiff::Timestamp::now();
    let program = std::env::current_exe()?;
    let surroundings = foreign::command::Surroundings {
        now,
        variables: std::env::vars().collect(),
        beside: program.parent().map(Path::to_owned),
        launcher: program,
        temporary: std::env::temp_dir(),
    };
    let request = foreign::command::Request {
        filter,
        seed: arguments.seed,
        out: arguments.out.as_deref(),
        arguments: &arguments.foreign,
    };
    let ran = foreign::command::run(out, &request, &surroundings);
    match ran {
        Err(error) if error.is::<foreign::command::Usage>() => usage(out, &error.to_string()),
        other => other,
    }
}

fn usage(out: &mut impl Write, text: &str) -> anyhow::Result<ExitCode> {
    out.flush()?;
    writeln!(std::io::stderr(), "error: {text}")?;
    Ok(ExitCode::from(2))
}

fn list(out: &mut impl Write, filter: Filter, all: bool) -> anyhow::Result<ExitCode> {
    if let Err(unknown) = filter.validate() {
        return usage(out, &unknown);
    }
    let checks = Backend::ALL.map(conformance::checks::all);
    let (mut run, mut planned) = (0, 0);
    for entry in catalogue::entries().iter().filter(|entry| filter.wants(&entry.id)) {
        // Cases per mode.
        let cases: Vec<String> = std::iter::zip(Backend::ALL, &checks)
            .filter_map(|(backend, checks)| {
                let check = checks.iter().find(|check| check.id == entry.id)?;
                Some(format!("{backend} {}", check.cases.len()))
            })
            .collect();
        let state = match (cases.as_slice(), &entry.alias_of) {
            ([], Some(target)) => format!("→ {target}"),
            ([], None) => "planned".to_owned(),
            (cases, _) => cases.join(", "),
        };
        run += usize::from(!cases.is_empty());
        planned += usize::from(cases.is_empty() && entry.alias_of.is_none());
        if !cases.is_empty() || all || filter.ids.contains(&entry.id) {
            let requirement = format!("{:?}", entry.requirement).to_uppercase();
            writeln!(out, "{:<14} {requirement:<6} {state:<26} {}", entry.id, entry.title)?;
        }
    }
    writeln!(out, "{run} checks run, {planned} are planned")?;
    Ok(ExitCode::SUCCESS)
}

fn explain(out: &mut impl Write, id: &str) -> anyhow::Result<ExitCode> {
    let Some(entry) = catalogue::entry(id) else {
        return usage(out, &catalogue::unknown_id(id));
    };
    writeln!(out, "{}  {}\n", entry.id, entry.title)?;
    if let Some(target) = &entry.alias_of {
        writeln!(out, "Says the same as {target}.\n")?;
    }
    writeln!(out, "why          {}", entry.why)?;
    writeln!(out, "judged       {}", entry.oracle)?;
    if let Some(budget) = &entry.budget {
        writeln!(out, "budget       {budget}")?;
    }
    writeln!(out, "remedy       {}", entry.remedy)?;
    writeln!(out, "source       {}", entry.source)?;
    writeln!(
        out,
        "requirement  {:?}, level {}, class {}, surface {}",
        entry.requirement, entry.level, entry.class, entry.surface
    )?;
    let holder = entry.alias_of.as_deref().unwrap_or(&entry.id);
    let mut n_modes = 0;
    for backend in Backend::ALL {
        let checks = conformance::checks::all(backend);
        let Some(check) = checks.iter().find(|check| check.id == holder) else { continue };
        n_modes += 1;
        writeln!(out, "cases        {} in {}", check.cases.len(), backend.title())?;
        for case in check.cases.iter().filter(|case| !case.name.is_empty()) {
            writeln!(out, "             - {}", case.name)?;
        }
    }
    match n_modes {
        0 => writeln!(out, "cases        none yet: planned")?,
        _ => writeln!(out, "run          cargo run --release -p conformance -- run {holder}")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn run_sweep(
    out: &mut impl Write,
    sample: Option<NonZeroUsize>,
    modes: Modes,
    seed: u64,
) -> anyhow::Result<ExitCode> {
    let (mut is_broken, mut is_idle) = (false, false);
    for &backend in modes.0 {
        let stage = Stage { seed, mode: backend.into(), ..Stage::default() };
        let mut clock = elapsed();
        let mut trials = sweep::trials(&stage);
        let all = trials.len();
        if let Some(n) = sample {
            trials = sweep::sample(&trials, n.get());
        }
        let result = sweep::sweep(&stage, &trials, |_, _| {});
        for finding in &result.findings {
            writeln!(out, "{}", finding.trial)?;
            for violation in finding.violations.iter().take(3) {
                writeln!(out, "    {violation}")?;
            }
        }
        for idle in &result.idle {
            writeln!(out, "never fired: {idle}")?;
        }
        writeln!(
            out,
            "{}: {} of {all} single faults on {} calls: {} runs, {} whose fault fired, {} with violations, {}",
            backend.title(),
            trials.len(),
            result.points,
            result.runs,
            result.fired,
            result.findings.len(),
            report::seconds(clock())
        )?;
        is_broken |= !result.findings.is_empty();
        is_idle |= !result.idle.is_empty();
    }
    Ok(match (is_broken, is_idle) {
        (true, _) => ExitCode::from(1),
        (false, true) => ExitCode::from(7),
        (false, false) => ExitCode::SUCCESS,
    })
}

fn run_alike(out: &mut impl Write, runs: u32, seed: u64) -> anyhow::Result<ExitCode> {
    let mut clock = elapsed();
    match alike::compare(runs, seed, None) {
        Err(difference) => {
            writeln!(out, "{difference}")?;
            Ok(ExitCode::from(1))
        }
        Ok(alike::Compared { histories, nodes, values, calls: (v1, v2) }) => {
            writeln!(
                out,
                "{histories} histories alike, seed {seed}: {nodes} nodes at their ends, {values} values written; \
                 calls to the Supervisor: v1 {v1}, V2 {v2}; {}",
                report::seconds(clock())
            )?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn run_cost(out: &mut impl Write, write: bool, operations: bool) -> anyhow::Result<ExitCode> {
    let tables = cost::measure(&Stage::default(), &Backend::ALL);
    if write {
        write!(out, "{}", cost::budgets(&tables))?;
        return Ok(ExitCode::SUCCESS);
    }
    show(out, &tables, operations)?;
    Ok(if deviate(out, &tables)? { ExitCode::from(6) } else { ExitCode::SUCCESS })
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

/// Says what differs from the committed budgets; whether anything does.
fn deviate(out: &mut impl Write, tables: &[Table]) -> anyhow::Result<bool> {
    let deviations: Vec<String> = tables.iter().flat_map(Table::deviations).collect();
    for deviation in &deviations {
        writeln!(out, "{deviation}")?;
    }
    Ok(!deviations.is_empty())
}
