//! Formats the bill as text for a terminal and as Markdown.

use std::fmt::Write;

use super::items::{Bill, FLEETS, Item, Price};
use super::need::Need;

const WAYS: [Need; 4] = [Need::Reread, Need::Relogin, Need::PerObject, Need::Needed];

impl Bill {
    /// Returns the line with the totals.
    fn sum(&self) -> String {
        let all: u64 = self.calls.values().sum();
        let of = |need: Need| self.calls.get(need.as_str()).copied().unwrap_or(0);
        let parts = WAYS.map(|need| format!("{} {}", of(need), need.as_str()));
        format!("{}: {all} calls: {}", self.name, parts.join(", "))
    }

    /// Explains how the prices were computed.
    fn terms(&self) -> String {
        let nodes = self.nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        match self.price {
            Price::Fitted => format!(
                "prices: a + b·N from fleets of {nodes}; each time = one join of all, one address period of {} s, {} nodes NotReady \
                 for {} s, one lost session; per hour for what comes again by itself",
                self.status_period,
                super::NOT_READY,
                super::life::WINDOW,
            ),
            Price::Proportional => format!(
                "prices: from {nodes} nodes; what came for every other node or more often is taken to grow with the fleet"
            ),
            Price::Unknown => "no prices: --nodes says how many nodes there were".to_owned(),
        }
    }

    /// Formats the bill for a terminal.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n{}\n", self.sum(), self.terms());
        for (title, items) in [
            ("to do, dearest first", self.to_do().collect::<Vec<_>>()),
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
        let mut out = format!(
            "{:<9} {:<22} {:<11} {:<width$}",
            "what", "brought about by", "of", "operation"
        );
        for n in self.sizes() {
            let _ = write!(out, " {:>7}", n.map_or("calls".to_owned(), |n| format!("N={n}")));
        }
        if self.price != Price::Unknown {
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

    /// Formats the bill as `cost.md`.
    pub fn markdown(&self) -> String {
        let mut out = format!(
            "# What calls are worth: {}\n\n{}.\n\n{}.\n",
            self.name,
            self.sum(),
            self.terms()
        );
        let sizes = self.sizes();
        let mut heads: Vec<String> =
            ["what", "brought about by", "of", "operation"].map(str::to_owned).into();
        heads.extend(sizes.iter().map(|n| n.map_or("calls".to_owned(), |n| format!("N = {n}"))));
        if self.price != Price::Unknown {
            heads.push("a + b·N".to_owned());
            heads.extend(FLEETS.map(|n| format!("N = {n} (per hour)")));
        }
        heads.push("what to do".to_owned());
        for (title, items) in
            [("To do", self.to_do().collect::<Vec<_>>()), ("Needed", self.needed().collect())]
        {
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

/// Formats the calls of a large fleet: each time, and per hour in parentheses.
fn priced(item: &Item, n: u32) -> String {
    let each = item.each_time.get(&n).copied().unwrap_or(0);
    match item.per_hour.get(&n) {
        Some(hour) => format!("{each} ({hour}/h)"),
        None => each.to_string(),
    }
}

/// Returns the remedy, with a remark if most of these re-reads are N+1, too.
fn advice(item: &Item) -> String {
    let is_also = item.need == Need::Reread && item.per_object * 2 > item.calls.values().sum();
    match is_also {
        true => format!("{}; also n+1", item.remedy),
        false => item.remedy.to_owned(),
    }
}
