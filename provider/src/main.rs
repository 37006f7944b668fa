//! The provider as a process: files, signals and sockets around [`provider::run`].

mod process;

use std::process::ExitCode;

/// Exit code for an invalid command line or configuration, including the files that they name.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some(provider::cli::AUTOSCALER) => {
            let arguments = provider::cli::parse_autoscaler(words);
            return subcommand(arguments, |it| it.v, process::run_autoscaler);
        }
        Some(provider::cli::CAPACITY) => {
            let arguments = provider::cli::parse_capacity(words);
            return subcommand(arguments, |it| it.v, process::run_capacity);
        }
        _ => {}
    }
    let arguments = match provider::cli::parse(std::env::args()) {
        Ok(arguments) => arguments,
        Err(provider::cli::ArgumentsError::Clap(err)) => err.exit(),
        Err(err) => {
            process::print_error(&err.to_string());
            return ExitCode::from(BAD_INPUT);
        }
    };
    process::start_logging(arguments.verbosity, arguments.json_logs);
    let runtime = match process::runtime() {
        Ok(runtime) => runtime,
        Err(err) => {
            process::print_error(&format!("{err:#}"));
            return ExitCode::FAILURE;
        }
    };
    let prepared = match process::prepare(&runtime, &arguments) {
        Ok(prepared) => prepared,
        Err(err) => {
            process::print_error(&err.to_string());
            return ExitCode::from(BAD_INPUT);
        }
    };
    match process::run(runtime, arguments, prepared) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            process::print_error(&format!("{err:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs a subcommand with its parsed arguments; `v` returns the verbosity of the log.
fn subcommand<A>(
    arguments: Result<A, provider::cli::ArgumentsError>,
    v: fn(&A) -> u8,
    run: fn(A) -> Result<(), process::Failure>,
) -> ExitCode {
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(provider::cli::ArgumentsError::Clap(err)) => err.exit(),
        Err(err) => {
            process::print_error(&err.to_string());
            return ExitCode::from(BAD_INPUT);
        }
    };
    process::start_logging(v(&arguments), false);
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            process::print_error(&err.to_string());
            match err {
                process::Failure::Input(_) => ExitCode::from(BAD_INPUT),
                process::Failure::Other(_) => ExitCode::FAILURE,
            }
        }
    }
}
