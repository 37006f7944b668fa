//! `conformance sweep` and `conformance alike`: many runs, one answer.

use std::io::Write;
use std::num::NonZeroUsize;
use std::process::ExitCode;

use super::args::Modes;
use super::elapsed;
use crate::lab::Stage;
use crate::{alike, report, sweep};

pub(super) fn sweep_all(
    out: &mut impl Write,
    sample: Option<NonZeroUsize>,
    modes: Modes,
    seed: u64,
) -> anyhow::Result<ExitCode> {
    let (mut is_broken, mut is_idle) = (false, false);
    for &backend in modes.0 {
        let stage = Stage { seed, mode: backend.into(), ..Stage::default() };
        let mut clock = elapsed();
        let mut trials = sweep::trials(&stage);
        let all = trials.len();
        if let Some(n) = sample {
            trials = sweep::sample(&trials, n.get());
        }
        let result = sweep::sweep(&stage, &trials, |_, _| {});
        for finding in &result.findings {
            writeln!(out, "{}", finding.trial)?;
            for violation in finding.violations.iter().take(3) {
                writeln!(out, "    {violation}")?;
            }
        }
        for idle in &result.idle {
            writeln!(out, "never fired: {idle}")?;
        }
        writeln!(
            out,
            "{}: {} of {all} single faults on {} calls: {} runs, {} whose fault fired, {} with violations, {}",
            backend.title(),
            trials.len(),
            result.points,
            result.runs,
            result.fired,
            result.findings.len(),
            report::seconds(clock())
        )?;
        is_broken |= !result.findings.is_empty();
        // Where no call was made nothing could fail.
        is_idle |= !result.idle.is_empty() || trials.is_empty();
    }
    Ok(match (is_broken, is_idle) {
        (true, _) => ExitCode::from(1),
        (false, true) => ExitCode::from(7),
        (false, false) => ExitCode::SUCCESS,
    })
}

pub(super) fn compare(out: &mut impl Write, runs: u32, seed: u64) -> anyhow::Result<ExitCode> {
    let mut clock = elapsed();
    match alike::compare(runs, seed, None) {
        Err(difference) => {
            writeln!(out, "{difference}")?;
            Ok(ExitCode::from(1))
        }
        Ok(alike::Compared { histories, nodes, values, calls: (v1, v2) }) => {
            writeln!(
                out,
                "{histories} histories alike, seed {seed}: {nodes} nodes at their ends, {values} values written; \
                 calls to the Supervisor: v1 {v1}, V2 {v2}; {}",
                report::seconds(clock())
            )?;
            // Two providers that do nothing are alike too.
            let is_idle = values == 0 || v1 == 0 || v2 == 0;
            Ok(if is_idle { ExitCode::from(7) } else { ExitCode::SUCCESS })
        }
    }
}
