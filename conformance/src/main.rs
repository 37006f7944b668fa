//! `conformance`: judges a vSphere cloud provider and explains each verdict.

use std::process::ExitCode;

/// Every thread creates and drops hundreds of worlds. This allocator returns their memory (docs/decisions/0013).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    conformance::cli::main()
}
