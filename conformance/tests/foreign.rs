//! Judges a provider of any vendor under plain `cargo test`, with one test per check:
//!
//! ```console
//! $ PROVIDER=mine.yaml cargo test -p vsphere-conformance --test foreign -- NODE-ID
//! ```
//!
//! `PROVIDER` is the file of a `kind: Provider` manifest or the name of a built-in one.
//! `PROVIDER_BINARY` is the program that replaces `$(binary)` in the manifest. Checks that cannot
//! be played with this provider are ignored, for example because they need virtual time. Without
//! `PROVIDER` nothing is tested. A vendor can have a similar test with a baseline in its own
//! repository: `conformance/examples/vendor`.

use std::io::Write as _;
use std::process::ExitCode;

use conformance::foreign::{Tests, run_as_launcher};

fn main() -> ExitCode {
    if let Some(code) = run_as_launcher() {
        return code;
    }
    match std::env::var("PROVIDER").ok().filter(|it| !it.is_empty()) {
        Some(provider) => Tests::new(provider).main(),
        None => {
            let usage = "PROVIDER=mine.yaml cargo test -p vsphere-conformance --test foreign";
            let _ = writeln!(std::io::stdout(), "nothing to test: {usage}");
            ExitCode::SUCCESS
        }
    }
}
