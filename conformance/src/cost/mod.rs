//! What a sync costs: calls by phase for fleets of 10, 100 and 1000 nodes, fitted as a + b·N, beside
//! what the upstream provider needs for the same work.

mod phases;

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

pub use phases::{PHASES, Phase};

use crate::lab::{Stage, run};

/// The fleet sizes.
pub const SIZES: [u32; 3] = [10, 100, 1000];

/// The committed budgets.
const BUDGETS: &str = include_str!("../../budgets.yaml");

/// Calls of one phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The phase.
    pub phase: &'static str,
    /// What is counted.
    pub what: &'static str,
    /// Calls to the vCenter per fleet size.
    pub calls: BTreeMap<u32, u64>,
    /// Calls by operation and fleet size.
    pub operations: BTreeMap<String, BTreeMap<u32, u64>>,
    /// Writes to the cluster per fleet size.
    pub writes: BTreeMap<u32, u64>,
    /// The fit.
    pub fit: Fit,
    /// What the upstream provider needs, as a formula and per fleet size.
    pub upstream: (&'static str, BTreeMap<u32, u64>),
    /// What is allowed, at most.
    pub allowed: BTreeMap<u32, u64>,
}

/// `a + b·N` by least squares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// Constant part.
    pub a: f64,
    /// Per node.
    pub b: f64,
    /// How well it fits, 1 at best.
    pub r2: f64,
}

/// The whole table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// One row per phase.
    pub rows: Vec<Row>,
}

/// `budgets.yaml`: exact calls per phase and fleet size.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Budgets {
    #[serde(rename = "vcenterCalls")]
    vcenter_calls: BTreeMap<String, BTreeMap<u32, u64>>,
    #[serde(rename = "clusterWrites")]
    cluster_writes: BTreeMap<String, BTreeMap<u32, u64>>,
}

/// Measures every phase for every fleet size.
pub fn measure(stage: &Stage) -> Table {
    measure_sizes(stage, &SIZES)
}

/// Measures every phase for these fleet sizes.
pub fn measure_sizes(stage: &Stage, sizes: &[u32]) -> Table {
    let mut rows: Vec<Row> = PHASES.iter().map(Phase::empty_row).collect();
    for n in sizes.iter().copied() {
        for (phase, row) in PHASES.iter().zip(&mut rows) {
            let scenario = (phase.scenario)(n);
            let run = run(&scenario, &Stage { light: true, ..stage.clone() });
            let calls: Vec<_> = run.calls_in(phase.name).collect();
            let vcenter = calls.iter().filter(|call| call.is_vcenter_call());
            row.calls.insert(n, vcenter.clone().count() as u64);
            for call in vcenter {
                let by_size = row.operations.entry(call.op.clone()).or_default();
                *by_size.entry(n).or_default() += 1;
            }
            let writes = calls.iter().filter(|call| {
                call.is_cluster_call()
                    && call.class == Some(sim::Class::Write)
                    && !call.op.contains("leases")
            });
            row.writes.insert(n, writes.count() as u64);
            if let Some(upstream) = phase.upstream {
                row.upstream.1.insert(n, upstream(n));
            }
            row.allowed.insert(n, (phase.allowed)(n));
        }
    }
    for row in &mut rows {
        row.fit = fit(&row.calls);
    }
    Table { rows }
}

impl Table {
    /// What differs from the committed budgets, and what exceeds what is allowed at all.
    pub fn deviations(&self) -> Vec<String> {
        let budgets: Budgets =
            serde_saphyr::from_str(BUDGETS).expect("a test reads the committed budgets");
        let mut found = Vec::new();
        for row in &self.rows {
            for (what, seen, wanted) in [
                ("vcenterCalls", &row.calls, budgets.vcenter_calls.get(row.phase)),
                ("clusterWrites", &row.writes, budgets.cluster_writes.get(row.phase)),
            ] {
                for (n, seen) in seen {
                    let wanted = wanted.and_then(|wanted| wanted.get(n));
                    if wanted != Some(seen) {
                        let wanted = wanted.map_or("not there".to_owned(), u64::to_string);
                        found.push(format!(
                            "budgets.yaml: {what}.{}.{n} is {wanted}, measured {seen}",
                            row.phase
                        ));
                    }
                }
            }
            for (n, calls) in &row.calls {
                let allowed = row.allowed.get(n).copied().unwrap_or(0);
                if *calls > allowed {
                    found.push(format!(
                        "{} with {n} nodes: {calls} calls, {allowed} allowed",
                        row.phase
                    ));
                }
            }
        }
        found
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let mut out = format!(
            "{:<14} {:>7} {:>7} {:>7}   {:<16} {:>9} {:>9} {:>9}   {}\n",
            "phase",
            "N=10",
            "N=100",
            "N=1000",
            "fit a + b·N",
            "N=10",
            "N=100",
            "N=1000",
            "upstream's formula"
        );
        for row in &self.rows {
            let at = |n: u32| row.calls.get(&n).copied().unwrap_or(0);
            let up = |n: u32| row.upstream.1.get(&n).map_or("-".to_owned(), u64::to_string);
            let _ = writeln!(
                out,
                "{:<14} {:>7} {:>7} {:>7}   {:<16} {:>9} {:>9} {:>9}   {}",
                row.phase,
                at(10),
                at(100),
                at(1000),
                row.fit.to_string(),
                up(10),
                up(100),
                up(1000),
                row.upstream.0,
            );
        }
        out
    }

    /// For a report.
    pub fn markdown(&self) -> String {
        let mut out = String::from(
            "| phase | what is counted | N = 10 | 100 | 1000 | a + b·N | upstream's formula | 10 | 100 | 1000 |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        );
        for row in &self.rows {
            let at = |n: u32| row.calls.get(&n).copied().unwrap_or(0);
            let up = |n: u32| row.upstream.1.get(&n).map_or("-".to_owned(), u64::to_string);
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                row.phase,
                row.what,
                at(10),
                at(100),
                at(1000),
                row.fit,
                row.upstream.0,
                up(10),
                up(100),
                up(1000)
            );
        }
        out
    }

    /// `budgets.yaml` as it would have to be.
    pub fn budgets(&self) -> String {
        let mut out = String::new();
        for (head, of) in [
            ("vcenterCalls", (|row: &Row| row.calls.clone()) as fn(&Row) -> BTreeMap<u32, u64>),
            ("clusterWrites", |row: &Row| row.writes.clone()),
        ] {
            let _ = writeln!(out, "{head}:");
            for row in &self.rows {
                let cells: Vec<String> =
                    of(row).iter().map(|(n, calls)| format!("{n}: {calls}")).collect();
                let _ = writeln!(out, "  {}: {{{}}}", row.phase, cells.join(", "));
            }
        }
        out
    }
}

impl std::fmt::Display for Fit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // No negative zero.
        write!(f, "{:.1} + {:.3}·N", self.a + 0.0, self.b + 0.0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of calls are far below 2^53")]
fn fit(calls: &BTreeMap<u32, u64>) -> Fit {
    let n = calls.len() as f64;
    let points: Vec<(f64, f64)> = calls.iter().map(|(x, y)| (f64::from(*x), *y as f64)).collect();
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / n;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / n;
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let b = if variance == 0.0 { 0.0 } else { covariance / variance };
    let a = mean_y - b * mean_x;
    let total: f64 = points.iter().map(|(_, y)| (y - mean_y).powi(2)).sum();
    let rest: f64 = points.iter().map(|(x, y)| (y - a - b * x).powi(2)).sum();
    let r2 = if total == 0.0 { 1.0 } else { 1.0 - rest / total };
    Fit { a, b, r2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_fitted_exactly() {
        let line = fit(&[(10, 25), (100, 205), (1000, 2005)].into());
        assert!((line.a - 5.0).abs() < 1e-9 && (line.b - 2.0).abs() < 1e-9 && line.r2 > 0.999_999);
        let flat = fit(&[(10, 6), (100, 6), (1000, 6)].into());
        assert_eq!(flat.to_string(), "6.0 + 0.000·N");
    }

    #[test]
    fn the_committed_budgets_read() {
        let budgets: Budgets = serde_saphyr::from_str(BUDGETS).unwrap();
        assert_eq!(budgets.vcenter_calls.len(), PHASES.len());
        assert_eq!(budgets.cluster_writes.len(), PHASES.len());
    }
}
