//! `conformance`: judges a vSphere cloud provider, and says why.

use std::process::ExitCode;

fn main() -> ExitCode {
    conformance::cli::main()
}
