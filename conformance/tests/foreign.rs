//! Judges a provider of any vendor under plain `cargo test`, one test per check:
//!
//! ```console
//! $ PROVIDER=mine.yaml cargo test -p conformance --test foreign -- NODE-ID
//! ```
//!
//! `PROVIDER` is a `kind: Provider` manifest or the name of a built-in one; `PROVIDER_BINARY` is the program for `$(binary)` in
//! it. Checks that need virtual time are ignored. Without `PROVIDER` nothing is tested. A vendor has such a test in its own
//! repository, with a baseline: `conformance/examples/vendor`.

use std::io::Write as _;
use std::process::ExitCode;

use conformance::foreign::{Tests, launched};

fn main() -> ExitCode {
    if let Some(code) = launched() {
        return code;
    }
    match std::env::var("PROVIDER").ok().filter(|it| !it.is_empty()) {
        Some(provider) => Tests::new(provider).main(),
        None => {
            let usage = "PROVIDER=mine.yaml cargo test -p conformance --test foreign";
            let _ = writeln!(std::io::stdout(), "nothing to test: {usage}");
            ExitCode::SUCCESS
        }
    }
}
