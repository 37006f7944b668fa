//! The binary `sim`: passes the command line and the present time to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[expect(
        clippy::disallowed_methods,
        reason = "world time begins now; the library gets the time as an argument"
    )]
    let now = jiff::Timestamp::now();
    sim::cli::main(std::env::args_os(), now)
}
