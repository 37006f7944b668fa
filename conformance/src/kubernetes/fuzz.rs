//! Generated histories.

use std::io::Write;
use std::process::ExitCode;

use tokio::runtime::Runtime;

use super::target::Target;

/// Plays generated histories on both servers.
///
/// # Errors
/// When the harness fails.
pub fn run(
    _out: &mut impl Write,
    _runtime: &Runtime,
    _real: &Target,
    _runs: u32,
    _seed: u64,
) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not there yet")
}
