//! Formats a [`CallReport`] as text for a terminal and as Markdown.

use std::fmt::Write;

use super::items::{CallReport, FLEETS, Item, Projection};
use super::need::Need;

const WAYS: [Need; 4] = [Need::Reread, Need::Relogin, Need::PerObject, Need::Needed];

impl CallReport {
    /// Returns one line with the number of all calls and the number of calls by need.
    fn sum(&self) -> String {
        let all: u64 = self.calls.values().sum();
        let of = |need: Need| self.calls.get(need.as_str()).copied().unwrap_or(0);
        let parts = WAYS.map(|need| format!("{} {}", of(need), need.as_str()));
        format!("{}: {all} calls: {}", self.name, parts.join(", "))
    }

    /// Returns a line that explains how the prices were computed.
    fn terms(&self) -> String {
        let nodes = self.nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        match self.price {
            Projection::Fitted => format!(
                "prices: calls as a + b·N from fleets of {nodes} nodes, each time that the trigger occurs (join of all nodes, \
                 address sync period of {} s, {} nodes NotReady for {} s, lost session), and per hour if it recurs by itself",
                self.status_period,
                super::NOT_READY,
                super::life::WINDOW,
            ),
            Projection::Proportional => format!(
                "prices: calls from a fleet of {nodes} nodes; items with at least one call per two nodes are assumed to grow with it, except those about NotReady nodes"
            ),
            Projection::Unknown => {
                "no prices: the number of nodes is unknown; give it with --nodes".to_owned()
            }
        }
    }

    /// Formats the report for a terminal.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n{}\n", self.sum(), self.terms());
        for (title, items) in [
            ("calls to save, most expensive first", self.to_do().collect::<Vec<_>>()),
            ("needed", self.needed().collect()),
        ] {
            if items.is_empty() {
                continue;
            }
            let _ = write!(out, "\n{title}\n{}\n", self.head());
            for item in items {
                let _ = writeln!(out, "{}", self.line(item).trim_end());
            }
        }
        out
    }

    /// Returns the width of the column of operations.
    fn width(&self) -> usize {
        self.items.iter().map(|it| it.operation.len()).max().unwrap_or(0).max("operation".len())
    }

    fn head(&self) -> String {
        let width = self.width();
        let mut out =
            format!("{:<9} {:<22} {:<11} {:<width$}", "need", "trigger", "server", "operation");
        for n in self.sizes() {
            let _ = write!(out, " {:>7}", n.map_or("calls".to_owned(), |n| format!("N={n}")));
        }
        if self.price != Projection::Unknown {
            let _ = write!(out, "   {:<16}", "fit a + b·N");
            for n in FLEETS {
                let _ = write!(out, " {:>16}", format!("N={n} (/h)"));
            }
        }
        out
    }

    fn line(&self, item: &Item) -> String {
        let width = self.width();
        let mut out = format!(
            "{:<9} {:<22} {:<11} {:<width$}",
            item.need.as_str(),
            item.trigger.as_str(),
            item.server,
            item.operation
        );
        for n in self.sizes() {
            let calls = item.calls.get(&n.unwrap_or(0)).copied().unwrap_or(0);
            let _ = write!(out, " {calls:>7}");
        }
        if let Some(fit) = item.fit {
            let _ = write!(out, "   {:<16}", fit.to_string());
            for n in FLEETS {
                let _ = write!(out, " {:>16}", priced(item, n));
            }
        }
        let remedy = advice(item);
        if remedy.is_empty() { out } else { format!("{out}  {remedy}") }
    }

    fn sizes(&self) -> Vec<Option<u32>> {
        if self.nodes.is_empty() {
            vec![None]
        } else {
            self.nodes.iter().copied().map(Some).collect()
        }
    }

    /// Formats the report as Markdown, for `cost.md`.
    pub fn markdown(&self) -> String {
        let mut out =
            format!("# Calls by need: {}\n\n{}.\n\n{}.\n", self.name, self.sum(), self.terms());
        let sizes = self.sizes();
        let mut heads: Vec<String> =
            ["need", "trigger", "server", "operation"].map(str::to_owned).into();
        heads.extend(sizes.iter().map(|n| n.map_or("calls".to_owned(), |n| format!("N = {n}"))));
        if self.price != Projection::Unknown {
            heads.push("a + b·N".to_owned());
            heads.extend(FLEETS.map(|n| format!("N = {n} (per hour)")));
        }
        heads.push("remedy".to_owned());
        for (title, items) in [
            ("Calls to save", self.to_do().collect::<Vec<_>>()),
            ("Needed", self.needed().collect()),
        ] {
            let _ = write!(
                out,
                "\n## {title}\n\n| {} |\n{}|\n",
                heads.join(" | "),
                "| --- ".repeat(heads.len())
            );
            for item in items {
                let mut cells = vec![
                    item.need.as_str().to_owned(),
                    item.trigger.as_str().to_owned(),
                    item.server.to_owned(),
                    item.operation.clone(),
                ];
                cells.extend(
                    sizes
                        .iter()
                        .map(|n| item.calls.get(&n.unwrap_or(0)).copied().unwrap_or(0).to_string()),
                );
                if let Some(fit) = item.fit {
                    cells.push(fit.to_string());
                    cells.extend(FLEETS.map(|n| priced(item, n)));
                }
                cells.push(advice(item));
                let _ = writeln!(out, "| {} |", cells.join(" | "));
            }
        }
        out
    }
}

/// Formats the price of an item for a large fleet: calls each time, and per hour in parentheses.
fn priced(item: &Item, n: u32) -> String {
    let each = item.each_time.get(&n).copied().unwrap_or(0);
    match item.per_hour.get(&n) {
        Some(hour) => format!("{each} ({hour}/h)"),
        None => each.to_string(),
    }
}

/// Returns the remedy of an item, with a remark if the item is about re-reads of which most are
/// also N+1.
fn advice(item: &Item) -> String {
    let is_also = item.need == Need::Reread && item.per_object * 2 > item.calls.values().sum();
    match is_also {
        true => format!("{}; also n+1", item.remedy),
        false => item.remedy.to_owned(),
    }
}
