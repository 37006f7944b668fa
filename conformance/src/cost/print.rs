//! Formats tables of calls as text: for a terminal, for a report, and as `budgets.yaml`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Counts, Fit, Row, ServerBudgets, Table, count_at};

impl Table {
    /// Returns the fleet sizes that were measured.
    fn sizes(&self) -> Vec<u32> {
        self.rows.first().map(|row| row.calls.keys().copied().collect()).unwrap_or_default()
    }

    /// Formats the table for a terminal, with a row per phase.
    pub fn text(&self) -> String {
        let sizes = self.sizes();
        let heads = |out: &mut String| {
            for n in &sizes {
                let _ = write!(out, " {:>7}", format!("N={n}"));
            }
        };
        let mut out = format!("{}\n{:<12}", self.subject.title(), "phase");
        heads(&mut out);
        let _ = write!(out, "   {:<16} {:>5} ", "fit a + b·N", "polls");
        heads(&mut out);
        out.push_str("   upstream's formula\n");
        for row in &self.rows {
            let _ = write!(out, "{:<12}", row.phase);
            for n in &sizes {
                let _ = write!(out, " {:>7}", count_at(&row.calls, *n));
            }
            let _ = write!(out, "   {:<16} {:>5} ", row.fit.to_string(), range(&row.polls));
            for n in &sizes {
                let _ = write!(out, " {:>7}", upstream(row, *n));
            }
            let _ = writeln!(out, "   {}", row.upstream.0);
        }
        out
    }

    /// Formats the table for a terminal, with a row per phase and operation.
    pub fn operations_text(&self) -> String {
        let sizes = self.sizes();
        let mut out = format!("{}\n{:<12} {:<28}", self.subject.title(), "phase", "operation");
        for n in &sizes {
            let _ = write!(out, " {:>7}", format!("N={n}"));
        }
        out.push_str("   fit a + b·N\n");
        for (phase, op, counts) in self.operations() {
            let _ = write!(out, "{phase:<12} {op:<28}");
            for n in &sizes {
                let _ = write!(out, " {:>7}", count_at(&counts.calls, *n));
            }
            let _ = writeln!(out, "   {}", counts.fit);
        }
        out
    }

    fn operations(&self) -> impl Iterator<Item = (&str, &str, &Counts)> {
        self.rows.iter().flat_map(|row| {
            row.operations.iter().map(|(op, counts)| (row.phase, op.as_str(), counts))
        })
    }

    /// Formats the table as Markdown, for a report.
    pub fn markdown(&self) -> String {
        let sizes = self.sizes();
        let heads: Vec<String> = sizes.iter().map(|n| format!("N = {n}")).collect();
        let heads = heads.join(" | ");
        let rule = |n: usize| "| --- ".repeat(n) + "|\n";
        let mut out = format!("### {}\n\n", self.subject.title());
        let _ = writeln!(
            out,
            "| phase | what is counted | {heads} | a + b·N | long polls | upstream's formula | {heads} |"
        );
        out.push_str(&rule(5 + 2 * sizes.len()));
        let cells = |of: &dyn Fn(u32) -> String| {
            sizes.iter().map(|n| of(*n)).collect::<Vec<_>>().join(" | ")
        };
        for row in &self.rows {
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} |",
                row.phase,
                row.what,
                cells(&|n| count_at(&row.calls, n).to_string()),
                row.fit,
                range(&row.polls),
                row.upstream.0,
                cells(&|n| upstream(row, n)),
            );
        }
        let _ =
            write!(out, "\n| phase | operation | {heads} | a + b·N |\n{}", rule(3 + sizes.len()));
        for (phase, op, counts) in self.operations() {
            let calls = cells(&|n| count_at(&counts.calls, n).to_string());
            let _ = writeln!(out, "| {phase} | {op} | {calls} | {} |", counts.fit);
        }
        out
    }

    /// Returns this mode's part of `budgets.yaml` with the measured counts.
    fn budgets(&self) -> String {
        let title = serde_json::to_value(self.subject).expect("a subject is a word");
        let mut out = format!("{}:\n", title.as_str().unwrap_or_default());
        let cells = |counts: &BTreeMap<u32, u64>| {
            let cells: Vec<String> =
                counts.iter().map(|(n, calls)| format!("{n}: {calls}")).collect();
            format!("{{{}}}", cells.join(", "))
        };
        for (head, of) in [
            ("calls", (|row: &Row| &row.calls) as fn(&Row) -> &BTreeMap<u32, u64>),
            ("longPolls", |row: &Row| &row.polls),
            ("clusterWrites", |row: &Row| &row.writes),
        ] {
            let _ = writeln!(out, "  {head}:");
            for row in &self.rows {
                let _ = writeln!(out, "    {}: {}", row.phase, cells(of(row)));
            }
        }
        out.push_str("  operations:\n");
        for row in &self.rows {
            let nothing = if row.operations.is_empty() { " {}" } else { "" };
            let _ = writeln!(out, "    {}:{nothing}", row.phase);
            for (op, counts) in &row.operations {
                let _ = writeln!(out, "      {op}: {}", cells(&counts.calls));
            }
        }
        out
    }
}

/// Returns `budgets.yaml` with the measured counts.
pub fn budgets(tables: &[Table], server: &ServerBudgets) -> String {
    let parts = tables.iter().map(Table::budgets);
    std::iter::once(BUDGETS_HEAD.to_owned()).chain(parts).chain([server.text()]).collect()
}

/// Returns upstream's number of calls for a fleet size, or `-` if it is unknown.
fn upstream(row: &Row, n: u32) -> String {
    row.upstream.1.get(&n).map_or("-".to_owned(), u64::to_string)
}

/// Comment at the top of `budgets.yaml`.
const BUDGETS_HEAD: &str = "\
# Exact numbers of calls by phase and number of nodes, in virtual time with seed 0. A run fails if it counts other numbers.
# longPolls counts long polls and watches, calls counts all other calls, and operations counts both. src/cost/ defines the
# phases; `conformance cost --write` prints this file with the measured numbers. The part autoscaler counts the calls of the server for
# the Cluster Autoscaler to its Supervisor, and those of an autoscaler to the server.
";

/// Returns one number if all counts are equal, else the smallest and the largest, or `-` without
/// counts.
fn range(counts: &BTreeMap<u32, u64>) -> String {
    match (counts.values().min(), counts.values().max()) {
        (Some(least), Some(most)) if least == most => least.to_string(),
        (Some(least), Some(most)) => format!("{least}–{most}"),
        _ => "-".to_owned(),
    }
}

impl std::fmt::Display for Fit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Adding 0.0 turns a negative zero into zero.
        write!(f, "{:.1} + {:.3}·N", self.a + 0.0, self.b + 0.0)
    }
}
