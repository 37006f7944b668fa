//! Writes the results of the benchmark (`bench.json`, Markdown tables, a plot), and finds the
//! differences between the cluster and virtual time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use plotters::prelude::*;
use serde::Serialize;

use super::in_cluster::FleetCost;
use super::plan::{Phase, Plan};
use crate::cost::{Fit, fit};
use crate::e2e::tally::Tally;

/// Results of one provider in one mode, with every fleet.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Column {
    /// Name of the provider and mode.
    pub(super) name: String,
    /// Status period by fleet size, in seconds.
    pub(super) periods: BTreeMap<u32, u64>,
    /// Results in a cluster made by kind, by fleet size.
    pub(super) kind: BTreeMap<u32, FleetCost>,
    /// Calls in virtual time, by fleet size and phase; empty for providers of other vendors.
    pub(super) virtual_time: BTreeMap<u32, BTreeMap<&'static str, Tally>>,
    /// Fleets whose run failed, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) errors: Vec<String>,
}

impl Column {
    /// Returns a column without results.
    pub(super) fn named(name: &str) -> Self {
        let (periods, kind, virtual_time, errors) = Default::default();
        Self { name: name.to_owned(), periods, kind, virtual_time, errors }
    }

    /// Returns the number of calls in a phase by fleet size, including calls for the real nodes.
    fn calls(&self, phase: Phase) -> BTreeMap<u32, u64> {
        let total = |(n, played): (&u32, &FleetCost)| {
            (*n, played.tallies.get(phase.name()).map_or(0, Tally::total))
        };
        self.kind.iter().map(total).collect()
    }

    fn fit(&self, phase: Phase) -> Fit {
        fit(&self.calls(phase))
    }

    /// Returns a sentence for each count that differs between the cluster and virtual time.
    pub(super) fn differences(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (n, phases) in &self.virtual_time {
            let Some(played) = self.kind.get(n) else { continue };
            for (phase, wanted) in phases {
                let Some(seen) = played.tallies.get(*phase) else { continue };
                let of = format!("{}, {n} nodes, {phase}", self.name);
                differ(&mut found, &of, &seen.calls, &wanted.calls, 0);
                differ(&mut found, &of, &seen.cluster, &wanted.cluster, 0);
                // The counts of long polls, watches and calls for leases grow with time. So they
                // are not compared for a join, whose duration is not fixed. The tolerance for calls
                // for leases is two, because the leader renews its lease every 2 s and the count is
                // read up to 4 s late.
                let Some(window) = self.window(*n, phase) else { continue };
                differ(&mut found, &of, &seen.waits, &wanted.waits, 1);
                let mut drawn = vec![(LOOKED_AT, looks_of_a_standby(window))];
                if *phase == Phase::Failover.name() {
                    drawn.push((RENEWED, renewals_after_a_failover(window)));
                }
                let fixed = |of: &Tally| {
                    let is_fixed = |op: &String| !drawn.iter().any(|(it, _)| it == op);
                    let waits = of.cluster_waits.iter().filter(|(op, _)| is_fixed(op));
                    waits.map(|(op, n)| (op.clone(), *n)).collect()
                };
                differ(&mut found, &of, &fixed(seen), &fixed(wanted), 2);
                for (operation, bounds) in drawn {
                    let n = seen.cluster_waits.get(operation).copied().unwrap_or(0);
                    if !bounds.contains(&n) {
                        found.push(format!(
                            "{of}: {operation}: {n} in kind, but {bounds:?} are expected"
                        ));
                    }
                }
            }
        }
        found
    }

    /// Returns the duration of a phase, which is the same in both stages; `None` for the join,
    /// which ends when all nodes are initialized.
    fn window(&self, nodes: u32, phase: &str) -> Option<Duration> {
        let period = Duration::from_secs(*self.periods.get(&nodes)?);
        let phase = Phase::ALL.into_iter().find(|it| it.name() == phase && *it != Phase::Join)?;
        Some(Plan { nodes, period }.length(phase))
    }

    /// Returns a sentence for each budget, of memory or of CPU, that our provider exceeds with a
    /// fleet of up to 1,000 nodes. Empty for providers of other vendors.
    pub(super) fn over_budget(&self) -> Vec<String> {
        let ours = self.kind.iter().filter(|(n, _)| self.virtual_time.contains_key(n));
        let mut found = Vec::new();
        for (n, played) in ours.filter(|(n, _)| **n <= 1000) {
            let (memory, processor) = (played.peak_memory_mib, played.steady_cpu_percent);
            let of = format!("{}, {n} nodes", self.name);
            if memory > MOST_MEMORY {
                found.push(format!(
                    "{of}: {memory:.0} MiB of memory; at most {MOST_MEMORY:.0} MiB are allowed"
                ));
            }
            if processor > MOST_PROCESSOR {
                found.push(format!(
                    "{of}: {processor:.1} % of a core while steady; at most {MOST_PROCESSOR:.0} % are allowed"
                ));
            }
        }
        found
    }
}

/// Operation with which a standby reads the Lease. The pause between two reads is 2 s
/// (`--leader-elect-retry-period`) plus up to 1.2 times as much (client-go's `JitterFactor`), drawn
/// anew each time.
const LOOKED_AT: &str = "get leases";

/// Returns the range of the possible numbers of [`LOOKED_AT`] in a window, with a tolerance of one.
fn looks_of_a_standby(window: Duration) -> RangeInclusive<u64> {
    let millis = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
    (millis / 4400).saturating_sub(1)..=millis / 2000 + 1
}

/// Operation with which the leader renews the Lease, every 2 s.
const RENEWED: &str = "update leases";

/// Returns the range of the possible numbers of [`RENEWED`] in a window in which the leader is
/// killed early.
///
/// A standby takes over at its first read that comes 15 s (`--leader-elect-lease-duration`) after
/// the read that showed it the last renewal. The last renewal is up to 2 s before the kill, and
/// each of these two reads comes up to 4.4 s late. So the Lease is without renewals for 13 to 23.8
/// s, whenever the kill comes. The count is read up to 4 s after the end of the window.
fn renewals_after_a_failover(window: Duration) -> RangeInclusive<u64> {
    let within = |window: Duration, pause: u64| {
        let left = window.saturating_sub(Duration::from_millis(pause));
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX) / 2000
    };
    within(window, 15_000 + 2 * 4400)..=within(window + Duration::from_secs(4), 15_000 - 2000) + 1
}

/// Budget of our provider: maximum resident memory, in MiB.
const MOST_MEMORY: f64 = 60.0;
/// Budget of our provider: maximum share of a core in the steady phase, in percent.
const MOST_PROCESSOR: f64 = 5.0;

/// Adds a sentence to `found` for each operation whose counts differ by more than `tolerance`.
fn differ(
    found: &mut Vec<String>,
    of: &str,
    seen: &BTreeMap<String, u64>,
    wanted: &BTreeMap<String, u64>,
    tolerance: u64,
) {
    let mut operations: Vec<_> = seen.keys().chain(wanted.keys()).collect();
    operations.sort();
    operations.dedup();
    for operation in operations {
        let count = |of: &BTreeMap<String, u64>| of.get(operation).copied().unwrap_or(0);
        let (seen, wanted) = (count(seen), count(wanted));
        if seen.abs_diff(wanted) > tolerance {
            found.push(format!("{of}: {operation}: {seen} in kind, {wanted} in virtual time"));
        }
    }
}

/// Writes all files of the benchmark below `out`.
pub(super) fn write(out: &Path, columns: &[Column]) -> anyhow::Result<()> {
    std::fs::create_dir_all(out).with_context(|| {
        format!("cannot create the folder {}; choose a writable one", out.display())
    })?;
    let put = |name: &str, text: String| {
        let path = out.join(name);
        std::fs::write(&path, text).with_context(|| {
            format!("cannot write {}; choose a writable folder with --out", path.display())
        })
    };
    let fits: BTreeMap<&str, BTreeMap<&str, Fit>> = columns
        .iter()
        .map(|it| (it.name.as_str(), Phase::ALL.map(|phase| (phase.name(), it.fit(phase))).into()))
        .collect();
    let document = serde_json::json!({"columns": columns, "fits": fits});
    put("bench.json", serde_json::to_string_pretty(&document)?)?;
    put("bench.md", markdown(columns))?;
    put("bench.svg", plot(columns)?)
}

/// Returns the overview table: a line for each provider and fleet, with the calls of each phase.
fn overview(columns: &[Column]) -> String {
    let heads = Phase::ALL.map(Phase::name).join(" | ");
    let mut text = format!(
        "| provider | nodes | {heads} | writes to join | joined in | CPU while steady | most memory |\n"
    );
    let dashes = "---: | ".repeat(Phase::ALL.len() + 5);
    let _ = writeln!(text, "| --- | {}", dashes.trim_end());
    for column in columns {
        for (n, played) in &column.kind {
            let tally =
                |phase: Phase| played.tallies.get(phase.name()).cloned().unwrap_or_default();
            let calls = Phase::ALL.map(|phase| tally(phase).total().to_string()).join(" | ");
            let FleetCost { join_seconds, steady_cpu_percent, peak_memory_mib, .. } = played;
            let _ = writeln!(
                text,
                "| {} | {n} | {calls} | {} | {join_seconds:.1} s | {steady_cpu_percent:.1} % | {peak_memory_mib:.0} MiB |",
                column.name,
                tally(Phase::Join).writes()
            );
        }
    }
    text
}

/// Returns the overview table, followed by a table for each phase.
pub(super) fn markdown(columns: &[Column]) -> String {
    let mut text = overview(columns);
    text.push('\n');
    let sizes: std::collections::BTreeSet<u32> =
        columns.iter().flat_map(|it| it.kind.keys().copied()).collect();
    for phase in Phase::ALL {
        let heads: Vec<String> = sizes.iter().map(|n| format!("N={n}")).collect();
        let _ = writeln!(text, "### {}: {}\n", phase.name(), phase.description());
        let _ = writeln!(
            text,
            "| provider | {} | a + b·N | r² | logins | KiB | writes to the cluster |",
            heads.join(" | ")
        );
        let _ = writeln!(
            text,
            "| --- | {} --- | --- | --- | --- | --- |",
            "---: | ".repeat(sizes.len())
        );
        for column in columns {
            let calls = column.calls(phase);
            let cells: Vec<String> = sizes
                .iter()
                .map(|n| calls.get(n).map_or_else(|| "–".to_owned(), u64::to_string))
                .collect();
            let fit = column.fit(phase);
            let last = column.kind.values().last().and_then(|it| it.tallies.get(phase.name()));
            let last = last.cloned().unwrap_or_default();
            let fitted = if calls.len() > 1 {
                (fit.to_string(), format!("{:.3}", fit.r2))
            } else {
                ("–".to_owned(), "–".to_owned())
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} |",
                column.name,
                cells.join(" | "),
                fitted.0,
                fitted.1,
                last.logins,
                last.bytes / 1024,
                last.writes(),
            );
        }
        text.push('\n');
    }
    text.push_str("Calls are those to vCenter or Supervisor, without long polls and watches. Logins, KiB and writes are those of the largest fleet. CPU is the share of a core.\n");
    text
}

/// Returns an SVG plot of the calls in the steady phase over the size of the fleet, with
/// logarithmic axes.
fn plot(columns: &[Column]) -> anyhow::Result<String> {
    let mut text = String::new();
    let points = |column: &Column| -> Vec<(f64, f64)> {
        let calls = column.calls(Phase::Steady);
        calls.into_iter().map(|(n, calls)| (f64::from(n), display(calls))).collect()
    };
    let all: Vec<(f64, f64)> = columns.iter().flat_map(points).collect();
    let most = all.iter().map(|(_, calls)| *calls).fold(10.0, f64::max);
    let widest = all.iter().map(|(n, _)| *n).fold(100.0, f64::max);
    {
        let area = SVGBackend::with_string(&mut text, (800, 480)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(
                "calls in three status periods without changes (0 is drawn as 0.5)",
                ("sans-serif", 18),
            )
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(64)
            .build_cartesian_2d((5.0..widest * 1.2).log_scale(), (0.4..most * 1.5).log_scale())?;
        chart.configure_mesh().x_desc("nodes").y_desc("calls").draw()?;
        for (n, column) in columns.iter().enumerate() {
            let color = Palette99::pick(n).to_rgba();
            let series = points(column);
            chart.draw_series(series.iter().map(|it| Circle::new(*it, 4, color.filled())))?;
            chart
                .draw_series(LineSeries::new(series, color.stroke_width(2)))?
                .label(&column.name)
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], color));
        }
        chart.configure_series_labels().border_style(BLACK).background_style(WHITE).draw()?;
        area.present()?;
    }
    Ok(text)
}

/// Returns the number for the plot, in which zero becomes 0.5 because the axis is logarithmic.
#[expect(clippy::cast_precision_loss, reason = "counts of calls are far below 2^53")]
fn display(calls: u64) -> f64 {
    (calls as f64).max(0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(seen: u64, wanted: u64) -> Column {
        let tally = |n| Tally {
            calls: [("list virtualmachines".to_owned(), n)].into(),
            cluster_waits: [(LOOKED_AT.to_owned(), 20)].into(),
            ..Tally::default()
        };
        let played = FleetCost {
            tallies: [("steady".to_owned(), tally(seen))].into(),
            ..FleetCost::default()
        };
        Column {
            name: "ours".to_owned(),
            periods: [(10, 20)].into(),
            kind: [(10, played)].into(),
            virtual_time: [(10, [("steady", tally(wanted))].into())].into(),
            errors: Vec::new(),
        }
    }

    #[test]
    fn a_count_that_differs_is_named_with_both_numbers() {
        assert_eq!(column(3, 3).differences(), Vec::<String>::new());
        assert_eq!(
            column(4, 3).differences(),
            ["ours, 10 nodes, steady: list virtualmachines: 4 in kind, 3 in virtual time"]
        );
    }

    #[test]
    fn renewals_have_a_tolerance_of_two_and_reads_of_a_standby_have_bounds() {
        let waits = |renewals, looks| Tally {
            cluster_waits: [("update leases".to_owned(), renewals), (LOOKED_AT.to_owned(), looks)]
                .into(),
            ..Tally::default()
        };
        // The window has three periods of 20 s.
        let differences = |renewals, looks| {
            let mut column = column(0, 0);
            let seen = column.kind.get_mut(&10).unwrap();
            seen.tallies.insert("steady".to_owned(), waits(renewals, looks));
            column.virtual_time = [(10, [("steady", waits(30, 20))].into())].into();
            column.differences()
        };
        assert_eq!(differences(32, 14), Vec::<String>::new());
        let much = differences(33, 60);
        assert!(much[0].contains("update leases: 33 in kind, 30 in virtual time"), "{much:?}");
        assert!(much[1].contains("get leases: 60 in kind, but 12..=31 are expected"), "{much:?}");
    }

    #[test]
    fn renewals_after_a_failover_outside_their_bounds_are_a_difference() {
        let differences = |renewals| {
            let waits = |renewals| Tally {
                cluster_waits: [("update leases".to_owned(), renewals), (LOOKED_AT.to_owned(), 15)]
                    .into(),
                ..Tally::default()
            };
            let mut column = column(0, 0);
            let seen = column.kind.get_mut(&10).unwrap();
            seen.tallies = [("failover".to_owned(), waits(renewals))].into();
            column.virtual_time = [(10, [("failover", waits(17))].into())].into();
            column.differences()
        };
        // The window lasts 50 s.
        for renewals in [13, 17, 19, 21] {
            assert_eq!(differences(renewals), Vec::<String>::new());
        }
        for renewals in [12, 22] {
            let found = differences(renewals);
            assert!(
                found[0].ends_with(&format!("{renewals} in kind, but 13..=21 are expected")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn our_provider_has_a_budget_and_other_programs_have_none() {
        let mut column = column(0, 0);
        assert_eq!(column.over_budget(), Vec::<String>::new());
        let seen = column.kind.get_mut(&10).unwrap();
        (seen.peak_memory_mib, seen.steady_cpu_percent) = (61.0, 5.5);
        assert_eq!(column.over_budget().len(), 2);
        // A provider without counts in virtual time is of another vendor and has no budget.
        column.virtual_time.clear();
        assert_eq!(column.over_budget(), Vec::<String>::new());
    }

    #[test]
    fn table_and_plot_show_every_column() {
        let columns = [column(3, 3)];
        assert!(markdown(&columns).contains("| ours | 3 |"), "{}", markdown(&columns));
        let plot = plot(&columns).unwrap();
        assert!(plot.starts_with("<svg") && plot.contains("ours"), "{plot}");
    }
}
