//! The binary `sim`: command line, environment, clock and signals around the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[expect(
        clippy::disallowed_methods,
        reason = "the world begins now; below here time is handed in"
    )]
    let now = jiff::Timestamp::now();
    sim::cli::main(std::env::args_os(), now)
}
