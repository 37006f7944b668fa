//! The command line: arguments, commands and exit codes.

mod args;
mod judge;
mod many;
mod output;
mod run;
mod show;
mod sweep;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _};

use crate::foreign::interruption::Interruption;
use crate::foreign::launch;
use crate::scenario::InputError;
use crate::suite::Filter;
use crate::{e2e, foreign, kubernetes};
use args::{Arguments, Subcommands};

/// Parses the command line, runs its command and returns the exit code.
pub fn main() -> ExitCode {
    let matches = Arguments::command().get_matches();
    let mut out = std::io::stdout().lock();
    if let Some(flag) = args::for_processes(&matches) {
        let remedy = format!("add --provider FILE|NAME, or leave {flag} out");
        let unused = InputError::invalid(&flag, "works only with --provider").condition(remedy);
        return failure(&mut out, &unused.into());
    }
    if let Some(flag) = args::for_modes(&matches) {
        let remedy = format!("choose another --mode, or leave {flag} out");
        let unused = InputError::invalid(&flag, "has no effect with this --mode");
        return failure(&mut out, &unused.condition(remedy).into());
    }
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let result = match arguments.command {
        Subcommands::Run(arguments) => run::run(&mut out, &arguments),
        Subcommands::List { ids, surface, all } => {
            show::list(&mut out, Filter { ids, surfaces: surface }, all)
        }
        Subcommands::Explain { id } => show::explain(&mut out, &id),
        Subcommands::Sweep(arguments) => sweep::run(&mut out, &arguments),
        Subcommands::Alike { runs, seed } => many::compare(&mut out, runs.get(), seed),
        Subcommands::Cost { bill, .. } if foreign::cost::is_asked(&bill) => {
            run::bill(&mut out, &bill)
        }
        Subcommands::Cost { write, operations, .. } => run::count(&mut out, write, operations),
        Subcommands::Judge(arguments) => judge::run(&mut out, &arguments),
        Subcommands::Kubernetes { command } => kubernetes::command::run(&mut out, &command),
        Subcommands::E2e { command } => {
            let out = &mut output::PipeOutput::new(&mut out);
            surroundings().and_then(|it| e2e::command::run(out, &command, &it))
        }
        Subcommands::ExampleReconciler { kind, kubeconfig, flaw } => {
            crate::lab::capacity::example::run(kind, &kubeconfig, flaw.as_deref())
        }
        Subcommands::Launch { parent, command } => launch::become_program(parent, &command),
    };
    match result {
        Ok(code) => code,
        // If the reader of the output closes the pipe, it has seen enough, so this is not an error.
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => failure(&mut out, &error),
    }
}

/// Prints an error and returns its exit code: 2 for wrong usage, 130 or 143 if a signal ended the
/// run, else 3.
fn failure(out: &mut impl Write, error: &anyhow::Error) -> ExitCode {
    let _ = out.flush();
    let _ = writeln!(std::io::stderr(), "error: {error:#}");
    let interruption = error.downcast_ref::<Interruption>();
    let harness = if error.is::<InputError>() { 2 } else { 3 };
    ExitCode::from(interruption.map_or(harness, |signal| signal.exit_code()))
}

/// Returns the current directory, and the folder in the user's cache for the labs of `conformance
/// e2e`.
fn surroundings() -> anyhow::Result<e2e::command::Surroundings> {
    let home = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let cache = home("XDG_CACHE_HOME").or_else(|| Some(home("HOME")?.join(".cache"))).context(
        "neither XDG_CACHE_HOME nor HOME is set, so conformance has no cache folder; set one of \
         these variables",
    )?;
    let directory = std::env::current_dir()?;
    Ok(e2e::command::Surroundings { directory, cache: cache.join("vsphere-lab") })
}

/// Starts a clock. The returned function returns the wall time since this start; only reports show
/// it.
fn elapsed() -> impl Fn() -> Duration + Copy + Sync {
    #[expect(clippy::disallowed_methods, reason = "the wall time of a whole run, for reports only")]
    let begin = Instant::now();
    move || begin.elapsed()
}
