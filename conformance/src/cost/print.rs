//! The costs as text: for a terminal, for a report, and as `budgets.yaml`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Counts, Fit, Row, Table, at};

impl Table {
    /// For a terminal: a row per phase.
    pub fn text(&self) -> String {
        let mut out = format!(
            "{:<14} {:>7} {:>7} {:>7}   {:<16} {:>5} {:>9} {:>9} {:>9}   {}\n",
            "phase",
            "N=10",
            "N=100",
            "N=1000",
            "fit a + b·N",
            "polls",
            "N=10",
            "N=100",
            "N=1000",
            "upstream's formula"
        );
        for row in &self.rows {
            let up = |n: u32| row.upstream.1.get(&n).map_or("-".to_owned(), u64::to_string);
            let _ = writeln!(
                out,
                "{:<14} {:>7} {:>7} {:>7}   {:<16} {:>5} {:>9} {:>9} {:>9}   {}",
                row.phase,
                at(&row.calls, 10),
                at(&row.calls, 100),
                at(&row.calls, 1000),
                row.fit.to_string(),
                range(&row.polls),
                up(10),
                up(100),
                up(1000),
                row.upstream.0,
            );
        }
        out
    }

    /// For a terminal: a row per phase and operation.
    pub fn operations_text(&self) -> String {
        let mut out = format!(
            "{:<14} {:<28} {:>7} {:>7} {:>7}   {}\n",
            "phase", "operation", "N=10", "N=100", "N=1000", "fit a + b·N"
        );
        for (phase, op, counts) in self.operations() {
            let _ = writeln!(
                out,
                "{phase:<14} {op:<28} {:>7} {:>7} {:>7}   {}",
                at(&counts.calls, 10),
                at(&counts.calls, 100),
                at(&counts.calls, 1000),
                counts.fit,
            );
        }
        out
    }

    fn operations(&self) -> impl Iterator<Item = (&str, &str, &Counts)> {
        self.rows.iter().flat_map(|row| {
            row.operations.iter().map(|(op, counts)| (row.phase, op.as_str(), counts))
        })
    }

    /// For a report.
    pub fn markdown(&self) -> String {
        let mut out = String::from(
            "| phase | what is counted | N = 10 | 100 | 1000 | a + b·N | long polls | upstream's formula | 10 | 100 | 1000 |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        );
        for row in &self.rows {
            let up = |n: u32| row.upstream.1.get(&n).map_or("-".to_owned(), u64::to_string);
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                row.phase,
                row.what,
                at(&row.calls, 10),
                at(&row.calls, 100),
                at(&row.calls, 1000),
                row.fit,
                range(&row.polls),
                row.upstream.0,
                up(10),
                up(100),
                up(1000)
            );
        }
        out.push_str("\n| phase | operation | N = 10 | 100 | 1000 | a + b·N |\n| --- | --- | --- | --- | --- | --- |\n");
        for (phase, op, counts) in self.operations() {
            let _ = writeln!(
                out,
                "| {phase} | {op} | {} | {} | {} | {} |",
                at(&counts.calls, 10),
                at(&counts.calls, 100),
                at(&counts.calls, 1000),
                counts.fit
            );
        }
        out
    }

    /// `budgets.yaml` as it would have to be.
    pub fn budgets(&self) -> String {
        let mut out = String::from(BUDGETS_HEAD);
        let cells = |counts: &BTreeMap<u32, u64>| {
            let cells: Vec<String> =
                counts.iter().map(|(n, calls)| format!("{n}: {calls}")).collect();
            format!("{{{}}}", cells.join(", "))
        };
        for (head, of) in [
            ("vcenterCalls", (|row: &Row| &row.calls) as fn(&Row) -> &BTreeMap<u32, u64>),
            ("longPolls", |row: &Row| &row.polls),
            ("clusterWrites", |row: &Row| &row.writes),
        ] {
            let _ = writeln!(out, "{head}:");
            for row in &self.rows {
                let _ = writeln!(out, "  {}: {}", row.phase, cells(of(row)));
            }
        }
        out.push_str("operations:\n");
        for row in &self.rows {
            let _ = writeln!(out, "  {}:", row.phase);
            for (op, counts) in &row.operations {
                let _ = writeln!(out, "    {op}: {}", cells(&counts.calls));
            }
        }
        out
    }
}

/// How `budgets.yaml` begins.
const BUDGETS_HEAD: &str = "\
# Exact calls by phase and number of nodes, in virtual time with seed 0: gated by equality, changed by review.
# vcenterCalls leaves out long polls, which stand in longPolls; operations has both. What each phase is stands in
# src/cost/phases.rs; `conformance cost --write` prints this file as measured.
";

/// One number where all are the same, else the least and the greatest.
fn range(counts: &BTreeMap<u32, u64>) -> String {
    match (counts.values().min(), counts.values().max()) {
        (Some(least), Some(most)) if least == most => least.to_string(),
        (Some(least), Some(most)) => format!("{least}–{most}"),
        _ => "-".to_owned(),
    }
}

impl std::fmt::Display for Fit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // No negative zero.
        write!(f, "{:.1} + {:.3}·N", self.a + 0.0, self.b + 0.0)
    }
}
