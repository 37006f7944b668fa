//! The provider as a process: files, signals and sockets around [`provider::run`].

mod process;

use std::process::ExitCode;

/// Exit code for an invalid command line or configuration, including the files that they name.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some(provider::cli::AUTOSCALER) => return autoscaler(words),
        Some(provider::cli::CAPACITY) => return capacity(words),
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

/// Runs `provider autoscaler` with the words after it.
fn autoscaler(words: impl Iterator<Item = String>) -> ExitCode {
    let arguments = match provider::cli::parse_autoscaler(words) {
        Ok(arguments) => arguments,
        Err(provider::cli::ArgumentsError::Clap(err)) => err.exit(),
        Err(err) => {
            process::print_error(&err.to_string());
            return ExitCode::from(BAD_INPUT);
        }
    };
    process::start_logging(arguments.v, false);
    match process::run_autoscaler(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            process::print_error(&err.to_string());
            match err {
                process::AutoscalerFailure::Input(_) => ExitCode::from(BAD_INPUT),
                process::AutoscalerFailure::Other(_) => ExitCode::FAILURE,
            }
        }
    }
}

/// Runs `provider capacity` with the words after it.
fn capacity(words: impl Iterator<Item = String>) -> ExitCode {
    let arguments = match provider::cli::parse_capacity(words) {
        Ok(arguments) => arguments,
        Err(provider::cli::ArgumentsError::Clap(err)) => err.exit(),
        Err(err) => {
            process::print_error(&err.to_string());
            return ExitCode::from(BAD_INPUT);
        }
    };
    process::start_logging(arguments.v, false);
    match process::run_capacity(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            process::print_error(&err.to_string());
            match err {
                process::CapacityFailure::Input(_) => ExitCode::from(BAD_INPUT),
                process::CapacityFailure::Other(_) => ExitCode::FAILURE,
            }
        }
    }
}
