//! The program `conformance`: judges a vSphere cloud provider and explains each verdict.

use std::process::ExitCode;

/// Allocator that reuses the memory of dropped worlds across threads, because every thread creates
/// and drops hundreds of worlds (docs/decisions/0013).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    conformance::cli::main()
}
