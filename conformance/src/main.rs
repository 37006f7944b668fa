//! `conformance`: judges a vSphere cloud provider, and says why.

use std::process::ExitCode;

/// Worlds come and go by the hundred on every thread. This allocator gives their memory back (docs/decisions/0013).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    conformance::cli::main()
}
