//! Judges the provider of this repository: one test per check, compared with the verdicts that
//! `baseline.yaml` accepts.
//!
//! ```console
//! $ PROVIDER_BINARY=path/to/provider cargo test
//! $ PROVIDER_BINARY=path/to/provider UPDATE_BASELINE=1 cargo test
//! ```
//!
//! The second command records the verdicts; a change of `baseline.yaml` is reviewed like any other
//! change.

use std::process::ExitCode;

use conformance::foreign::Tests;

fn main() -> ExitCode {
    let here = env!("CARGO_MANIFEST_DIR");
    Tests::new(format!("{here}/provider.yaml"))
        .baseline(format!("{here}/baseline.yaml"))
        // Limits the run to three checks, which take half a minute. Without this line, every check
        // that applies runs.
        .checks(["NODE-004", "NODE-015", "LIFE-005"])
        .main()
}
