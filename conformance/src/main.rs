//! `conformance`: judges a vSphere cloud provider, and says why.

use std::process::ExitCode;

/// Threads play worlds that come and go by the hundred: this allocator gives their memory back, and is a third faster here than that
/// of glibc (decision 17).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    conformance::cli::main()
}
