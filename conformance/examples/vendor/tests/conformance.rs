//! The provider of this repository, judged: one test per check, by what `baseline.yaml` accepts.
//!
//! ```console
//! $ PROVIDER_BINARY=path/to/provider cargo test
//! $ PROVIDER_BINARY=path/to/provider UPDATE_BASELINE=1 cargo test
//! ```
//!
//! The second records what is seen; what it changes is reviewed like any other change.

use std::process::ExitCode;

use conformance::foreign::Tests;

fn main() -> ExitCode {
    let here = env!("CARGO_MANIFEST_DIR");
    Tests::new(format!("{here}/provider.yaml"))
        .baseline(format!("{here}/baseline.yaml"))
        // All that apply, without this line. These take half a minute.
        .checks(["NODE-004", "NODE-015", "LIFE-005"])
        .main()
}
