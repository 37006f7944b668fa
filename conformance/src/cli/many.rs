//! `conformance alike`: compares many histories and prints one result.

use std::io::Write;
use std::process::ExitCode;

use super::elapsed;
use crate::lives::mode_comparison;
use crate::suite::report;

pub(super) fn compare(out: &mut impl Write, runs: u32, seed: u64) -> anyhow::Result<ExitCode> {
    let clock = elapsed();
    match mode_comparison::compare(runs, seed, None) {
        Err(difference) => {
            writeln!(out, "{difference}")?;
            Ok(ExitCode::from(1))
        }
        Ok(mode_comparison::ComparisonTotals { histories, nodes, values, calls: (v1, v2) }) => {
            writeln!(
                out,
                "the instances modes v1 and auto agree in {histories} histories, seed {seed}: {nodes} nodes at their ends, {values} values written; \
                 calls to the Supervisor: v1 {v1}, auto {v2}; {}",
                report::seconds(clock())
            )?;
            // If one of the modes did nothing, the agreement proves nothing, so the result is
            // inconclusive.
            let is_idle = values == 0 || v1 == 0 || v2 == 0;
            Ok(if is_idle { ExitCode::from(7) } else { ExitCode::SUCCESS })
        }
    }
}
