//! Running the catalogue: which checks, with which seed, and what came out.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use crate::catalogue::{self, Entry, Requirement};
use crate::checks::{self, Check, Outcome};
use crate::lab::Stage;
use crate::verdict::Verdict;

/// Which checks to run.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// IDs, or beginnings of IDs; all if empty.
    pub ids: Vec<String>,
    /// Surfaces; all if empty.
    pub surfaces: Vec<String>,
}

/// What one check concluded.
#[derive(Debug)]
pub struct Conclusion {
    /// Its entry in the catalogue.
    pub entry: &'static Entry,
    /// The worst verdict of its cases.
    pub verdict: Verdict,
    /// How each case ended.
    pub outcomes: Vec<Outcome>,
    /// How long it took.
    pub took: Duration,
}

/// What stands in `results.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The ID.
    pub id: String,
    /// What it promises.
    pub title: String,
    /// How binding it is.
    pub requirement: Requirement,
    /// The verdict and its reason.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Cases that were run.
    pub cases: usize,
    /// Calls to vCenters in all cases.
    pub vcenter_calls: usize,
    /// Calls to the cluster in all cases.
    pub cluster_calls: usize,
}

impl Filter {
    /// Whether a check is wanted.
    pub fn wants(&self, id: &str) -> bool {
        let surface = catalogue::entry(id).map(|entry| entry.surface.as_str()).unwrap_or_default();
        (self.ids.is_empty() || self.ids.iter().any(|wanted| id.starts_with(wanted.as_str())))
            && (self.surfaces.is_empty() || self.surfaces.iter().any(|wanted| wanted == surface))
    }

    /// The checks that are wanted.
    pub fn checks(&self) -> Vec<Check> {
        checks::all().into_iter().filter(|check| self.wants(check.id)).collect()
    }
}

impl Conclusion {
    /// Runs a check.
    pub fn reach(check: &Check, stage: &Stage, clock: &mut dyn FnMut() -> Duration) -> Self {
        let begin = clock();
        let outcomes: Vec<Outcome> = check.cases.iter().map(|case| case.run(stage)).collect();
        let verdict = outcomes
            .iter()
            .map(|outcome| match (&outcome.verdict, outcome.case.as_str()) {
                (verdict, "") => verdict.clone(),
                (Verdict::Pass, _) => Verdict::Pass,
                (Verdict::Fail(why), case) => Verdict::Fail(format!("[{case}] {why}")),
                (Verdict::Inconclusive(why), case) => {
                    Verdict::Inconclusive(format!("[{case}] {why}"))
                }
            })
            .fold(Verdict::Pass, Verdict::worse);
        let entry = catalogue::entry(check.id).expect("a test holds checks and catalogue together");
        Self { entry, verdict, outcomes, took: clock().saturating_sub(begin) }
    }

    /// What stands in `results.json`.
    pub fn summary(&self) -> Summary {
        let calls = |of: fn(&sim::ledger::Record) -> bool| {
            self.outcomes.iter().map(|it| it.run.calls().filter(|call| of(call)).count()).sum()
        };
        Summary {
            id: self.entry.id.clone(),
            title: self.entry.title.clone(),
            requirement: self.entry.requirement,
            verdict: self.verdict.clone(),
            cases: self.outcomes.len(),
            vcenter_calls: calls(sim::ledger::Record::is_vcenter_call),
            cluster_calls: calls(sim::ledger::Record::is_cluster_call),
        }
    }

    /// What a reader of a failure needs: the case, what happened around it, truth beside what was
    /// written, and the command that plays it again.
    pub fn evidence(&self, stage: &Stage) -> Option<String> {
        let outcome = self.outcomes.iter().find(|outcome| outcome.verdict.reason().is_some())?;
        let mut out = String::new();
        let _ = writeln!(out, "{}  {}", self.entry.id, self.entry.title);
        let _ = writeln!(out, "  {}", outcome.verdict);
        if !outcome.case.is_empty() {
            let _ = writeln!(out, "  case: {}", outcome.case);
        }
        let _ = writeln!(out, "  oracle: {}", self.entry.oracle);
        let _ = writeln!(out, "  remedy: {}", self.entry.remedy);
        let _ =
            writeln!(out, "  transcript (the last 30 of {} records):", outcome.run.ledger.len());
        let skip = outcome.run.ledger.len().saturating_sub(30);
        for record in outcome.run.ledger.iter().skip(skip) {
            let _ = writeln!(out, "    {record}");
        }
        let _ = writeln!(out, "  truth beside what the nodes say, at the end:");
        for line in crate::report::truth(&outcome.run) {
            let _ = writeln!(out, "    {line}");
        }
        let mutant = stage.mutant.map(|it| format!(" --mutant {it:?}")).unwrap_or_default();
        let _ = writeln!(
            out,
            "  again: cargo run --release -p conformance -- run {} --seed {}{mutant}",
            self.entry.id, stage.seed
        );
        Some(out)
    }
}
