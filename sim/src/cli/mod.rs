//! The command line: `sim serve`, and clients of the admin port of a running sim.
//!
//! Bad input (a flag, a file, a busy port or an unknown name) ends the command with exit code 2 and
//! a message that names flag or file, key, value and remedy. Any other failure ends it with exit
//! code 1.

mod args;
mod client;
mod columns;
mod error;
mod files;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod host;
mod query;
mod serve;
mod terminal;
mod world_file;

#[cfg(any(fuzzing, test))]
pub(crate) use world_file::read as world;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;
use jiff::Timestamp;

use args::{Arguments, Command};
use error::CliError;
use terminal::Terminal;

/// Runs a command line and returns the exit code. Exits the process itself for `--help`, for
/// `--version` and for a command line that it cannot parse. `arguments` begin with the name of the
/// program, and `now` is the present wall-clock time.
pub fn main(arguments: impl IntoIterator<Item = OsString>, now: Timestamp) -> ExitCode {
    let terminal = Terminal;
    let Arguments { log, command } = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        // clap prints the help or the error, and exits with 0 for help and 2 for a command line
        // that it cannot parse.
        Err(error) => error.exit(),
    };
    let result = match &command {
        Command::Serve(options) => terminal.log(&log).and_then(|()| serve::run(options, now)),
        Command::World(command) => query::world(command),
        Command::Fault(command) => query::fault(command),
        Command::Ledger(command) => query::ledger(command),
        Command::Health(command) => query::health(command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            terminal.complain(&error.to_string());
            error.exit_code()
        }
    }
}
