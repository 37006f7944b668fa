//! `mutants`: puts small bugs ("mutants") into our provider, all in one build, and finds out which
//! of them the conformance catalogue catches.
//!
//! A vendor has only the catalogue: a bug that the catalogue misses in our provider it would also
//! miss in the vendor's.

mod bench;
mod draw;
mod end;
mod find;
mod gate;
mod handwritten;
mod report;
mod run;
mod tree;
mod values;
mod weave;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::draw::Plan;
use crate::end::End;
use crate::tree::Tree;

#[derive(Debug, Parser)]
#[command(
    version,
    about = "Puts small bugs (mutants) into our provider and shows which of them the catalogue catches"
)]
struct Cli {
    #[command(subcommand)]
    command: MutantsCommand,
}

#[derive(Debug, Subcommand)]
enum MutantsCommand {
    /// Lists all possible mutants
    List,
    /// Builds the judge (`conformance`) with the provider and all mutants in it; each start of the
    /// judge activates at most one mutant
    Build {
        /// Also builds the provider's own tests, for `run --tests`
        #[arg(long)]
        tests: bool,
        /// Builds only the handwritten mutants and enough others for samples of this size [default:
        /// all mutants]
        #[arg(long)]
        sample: Option<usize>,
        /// Seed of the samples
        #[arg(long, default_value_t = 0, requires = "sample")]
        seed: u64,
    },
    /// Runs the catalogue with each mutant of a sample, drawn by seed
    Run(RunArguments),
    /// Runs the handwritten mutants against the checks that must catch them
    ByHand {
        /// Number of parallel runs
        #[arg(long, default_value_t = 2)]
        jobs: usize,
    },
    /// Writes the stored results of samples as a page of Markdown
    Report {
        /// Seed of the samples
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Mode to report [default: both]
        #[arg(long)]
        mode: Option<Mode>,
        /// File to write
        #[arg(long, default_value = "docs/kill-matrix.md")]
        write: PathBuf,
    },
}

#[derive(Debug, Args)]
struct RunArguments {
    /// Backend of the provider; repeatable
    #[arg(long, required = true)]
    mode: Vec<Mode>,
    /// Seed of the sample
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Number of mutants to draw for each mode
    #[arg(long, default_value_t = 200)]
    sample: usize,
    /// Number of parallel runs
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Also runs the provider's own tests with each mutant that the catalogue misses
    #[arg(long)]
    tests: bool,
    /// Runs only mutants of the sample whose names contain this text; repeatable
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Leaves out this check, because it takes long and few mutants need it; repeatable, also as a
    /// list with commas. `report` does not use the results
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    without: Vec<String>,
    /// If a mutant survives, runs it again in the other instances modes
    #[arg(long)]
    all_instances_modes: bool,
    /// If no run in virtual time executes a mutant, runs it again with the provider as a process;
    /// needs `build --tests`
    #[arg(long)]
    process: bool,
    /// Fails if the catalogue catches too few mutants of the samples: a catalogue that catches this
    /// share of all mutants would catch as few or fewer with a probability below 0.1 %. A missed
    /// mutant does not count if no run reaches it, or if mutants/survivors.yaml explains it
    #[arg(long, value_name = "PERCENT")]
    at_least: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    Vcenter,
    Supervisor,
}

impl Mode {
    fn as_str(self) -> &'static str {
        match self {
            Self::Vcenter => "vcenter",
            Self::Supervisor => "supervisor",
        }
    }
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = runtime.map_err(anyhow::Error::from).and_then(|it| it.block_on(carry_out(command)));
    ended.unwrap_or_else(|error| {
        // A failure of this write cannot be reported either.
        let _ = writeln!(std::io::stderr(), "error: {error:#}");
        ExitCode::from(2)
    })
}

async fn carry_out(command: MutantsCommand) -> anyhow::Result<ExitCode> {
    let tree = Tree::of_workspace()?;
    let mut out = std::io::stdout();
    match command {
        MutantsCommand::List => {
            for mutant in tree.all()? {
                writeln!(out, "{}:{}: {}", mutant.file, mutant.line, mutant.what)?;
            }
        }
        MutantsCommand::Build { tests, sample, seed } => {
            let all = tree.all()?;
            tree.note_sample(sample.map(|sample| (seed, sample)))?;
            let all = match sample {
                Some(sample) => draw::drawable(all, seed, sample),
                None => all,
            };
            let built =
                tree.build(&all, tests, &mut |line| drop(writeln!(std::io::stderr(), "{line}")))?;
            writeln!(
                out,
                "{} mutants in one build; left out {} that do not compile",
                built.len(),
                all.len() - built.len()
            )?;
        }
        MutantsCommand::Run(arguments) => return sample(&tree, &arguments).await,
        MutantsCommand::ByHand { jobs } => {
            let mut say = |line: &str| drop(writeln!(std::io::stdout(), "{line}"));
            let missed = run::by_hand(&tree, jobs, &mut say).await?;
            writeln!(out, "{} missed", missed.len())?;
            return Ok(ExitCode::from(u8::from(!missed.is_empty())));
        }
        MutantsCommand::Report { seed, mode, write } => {
            let both = [Mode::Vcenter, Mode::Supervisor];
            let modes = mode.map_or(both.to_vec(), |mode| vec![mode]);
            let text = report::text(&tree, seed, modes.iter().map(|mode| mode.as_str()))?;
            let path = tree.root().join(write);
            std::fs::write(&path, text).with_context(|| {
                format!("cannot write {}; check its permissions", path.display())
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the sample of each mode in the arguments. Returns exit code 1 if the samples together are
/// worse than `--at-least` permits.
async fn sample(tree: &Tree, arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let RunArguments { seed, sample, jobs, tests, at_least, process, .. } = *arguments;
    let all_ways = arguments.all_instances_modes;
    let only = &arguments.only;
    let survivors = report::Survivors::read(tree)?;
    let (mut n_caught, mut n_counted) = (0, 0);
    for mode in &arguments.mode {
        let (mode, only) = (mode.as_str().to_owned(), only.clone());
        let without = arguments.without.clone();
        let plan = Plan { mode, seed, sample, jobs, tests, all_ways, process, only, without };
        let results = sample_of(tree, &plan).await?;
        let caught = results.iter().filter(|it| it.end.is_caught()).count();
        let tested = results.iter().filter(|it| matches!(it.end, End::Test(_))).count();
        let reached = results.iter().filter(|it| it.reached).count();
        writeln!(
            std::io::stdout(),
            "{}: {} drawn with seed {seed}, {reached} reached by the catalogue, {caught} caught by it, {tested} more by tests",
            plan.mode,
            results.len()
        )?;
        n_caught += caught;
        n_counted += report::counted(&survivors, &plan.mode, &results);
    }
    let Some(percent) = at_least else { return Ok(ExitCode::SUCCESS) };
    let too_few = gate::is_too_few(n_caught, n_counted, percent);
    let verdict = if too_few { "too few" } else { "enough for a sample of this size" };
    writeln!(
        std::io::stdout(),
        "caught {n_caught} of {n_counted} mutants that count, {percent} % expected: {verdict}"
    )?;
    Ok(ExitCode::from(u8::from(too_few)))
}

/// Runs the sample of one mode, and prints each new result. Returns the new results and those that
/// earlier runs have stored.
async fn sample_of(tree: &Tree, plan: &Plan) -> anyhow::Result<Vec<run::MutantResult>> {
    let bar = indicatif::ProgressBar::new(plan.sample as u64);
    let mut done = |done, _, result: &run::MutantResult| {
        bar.set_position(done as u64);
        bar.suspend(|| drop(writeln!(std::io::stdout(), "{:?}  {}", result.end, result.name)));
    };
    let results = run::sample(tree, plan, &mut done).await?;
    bar.finish_and_clear();
    Ok(results)
}
