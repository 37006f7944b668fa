//! The command line: `sim serve`, and clients of the admin port of a sim that serves.
//!
//! What cannot be used as given, a flag, a file, a busy port or a name that nothing has, ends with exit
//! code 2 and a message that names flag or file, key, value and remedy. Everything else that fails ends
//! with 1.

mod args;
mod client;
mod columns;
mod error;
mod host;
mod mount;
mod query;
mod report;
mod serve;
mod signals;
mod state;
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

/// Runs a command line, the name of the program first. `now` is the wall clock's reading.
pub fn main(arguments: impl IntoIterator<Item = OsString>, now: Timestamp) -> ExitCode {
    let terminal = Terminal;
    let Arguments { log, command } = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        // clap knows where to print and how to end: 0 for help, 2 for what it cannot read.
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
