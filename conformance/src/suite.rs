//! Running the catalogue: which checks, with which seed, and what came out.

use std::fmt::Write;
use std::ops::Range;
use std::time::Duration;

use serde::Serialize;

use crate::backend::Backend;
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
    /// What stood behind the provider.
    pub backend: Backend,
    /// How binding it is for the provider that was judged.
    pub requirement: Requirement,
    /// The worst verdict of its cases.
    pub verdict: Verdict,
    /// How each case ended.
    pub outcomes: Vec<Outcome>,
    /// Cases that were not run, by name, and why.
    pub not_run: Vec<(String, Verdict)>,
    /// The command that runs it again, if it is not that of our provider in virtual time.
    pub again: Option<String>,
    /// How long it took.
    pub took: Duration,
}

/// What stands in `results.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The ID.
    pub id: String,
    /// What stood behind the provider.
    pub mode: Backend,
    /// What it promises.
    pub title: String,
    /// How binding it is.
    pub requirement: Requirement,
    /// The verdict and its reason.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Cases that were run.
    pub cases: usize,
    /// Cases that were not.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_run: usize,
    /// What became of each case that was run and did not pass, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_passed: Vec<CaseSummary>,
    /// Calls to vCenters in all cases.
    pub vcenter_calls: usize,
    /// Calls to Supervisors in all cases.
    pub supervisor_calls: usize,
    /// Calls to the cluster in all cases.
    pub cluster_calls: usize,
}

/// One case of several.
#[derive(Clone, Debug, Serialize)]
pub struct CaseSummary {
    /// Its name.
    pub case: String,
    /// Its verdict and the reason.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl CaseSummary {
    fn of(outcome: &Outcome) -> Self {
        Self { case: outcome.case.clone(), verdict: outcome.verdict.clone() }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Filter {
    /// Whether a check is wanted: by its own ID, or by that of an alias of it.
    pub fn wants(&self, id: &str) -> bool {
        let surface = catalogue::entry(id).map(|entry| entry.surface.as_str()).unwrap_or_default();
        let named = |id: &str| self.ids.iter().any(|wanted| id.starts_with(wanted.as_str()));
        (self.ids.is_empty() || named(id) || self.aliases().any(|(_, target)| target == id))
            && (self.surfaces.is_empty() || self.surfaces.iter().any(|wanted| wanted == surface))
    }

    /// The checks of a mode that are wanted.
    pub fn checks(&self, backend: Backend) -> Vec<Check> {
        checks::all(backend).into_iter().filter(|check| self.wants(check.id)).collect()
    }

    /// Aliases that are asked for, each with the check that holds it.
    pub fn aliases(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        catalogue::entries().iter().filter_map(|entry| {
            let target = entry.alias_of.as_deref()?;
            self.ids.contains(&entry.id).then_some((entry.id.as_str(), target))
        })
    }

    /// That every ID, or beginning of one, and every surface that is asked for is that of some check.
    ///
    /// # Errors
    /// A sentence about the first that is not, with the name that comes nearest.
    pub fn validate(&self) -> Result<(), String> {
        let entries = catalogue::entries();
        for id in &self.ids {
            let known = !id.is_empty() && entries.iter().any(|it| it.id.starts_with(id.as_str()));
            if !known {
                return Err(catalogue::unknown_id(id));
            }
        }
        for surface in &self.surfaces {
            if entries.iter().all(|it| it.surface.as_str() != surface) {
                let mut known: Vec<&str> = entries.iter().map(|it| it.surface.as_str()).collect();
                known.sort_unstable();
                known.dedup();
                let near = catalogue::nearest(surface, known.iter().copied());
                let hint = near.map_or(String::new(), |near| format!("; is it {near}?"));
                return Err(format!(
                    "no surface is called {surface:?}{hint} (there are {})",
                    known.join(", ")
                ));
            }
        }
        Ok(())
    }
}

/// Records in a transcript.
const SHOWN: usize = 30;

impl Outcome {
    /// The records that a reader needs, and what they stand around: the moment that the verdict speaks of; the
    /// first broken invariant otherwise; the end if there is neither.
    fn window(&self) -> (Range<usize>, String) {
        let records = &self.run.ledger;
        let spoken = self.verdict.reason().and_then(|why| why.at);
        let broken = || self.broken.first().map(|violation| violation.at);
        let (at, around) = match spoken.or_else(broken) {
            Some(at) => (records.partition_point(|it| it.t <= at), format!("around {at}")),
            None => (records.len(), "the last".to_owned()),
        };
        let begin = at.saturating_sub(SHOWN * 2 / 3).min(records.len().saturating_sub(SHOWN));
        (begin..records.len().min(begin + SHOWN), around)
    }
}

impl Conclusion {
    /// Runs a check.
    pub fn reach(check: &Check, stage: &Stage, clock: &mut dyn FnMut() -> Duration) -> Self {
        let begin = clock();
        let outcomes: Vec<Outcome> = check.cases.iter().map(|case| case.run(stage)).collect();
        let entry = catalogue::entry(check.id).expect("a test holds checks and catalogue together");
        Self::of(entry, stage.mode.backend(), outcomes, clock().saturating_sub(begin))
    }

    /// What the cases of a check amount to.
    pub fn of(
        entry: &'static Entry,
        backend: Backend,
        outcomes: Vec<Outcome>,
        took: Duration,
    ) -> Self {
        let verdict = outcomes
            .iter()
            .map(|outcome| outcome.verdict.clone().of_case(&outcome.case))
            .fold(Verdict::Pass, Verdict::worse);
        let (requirement, not_run, again) = (entry.requirement, Vec::new(), None);
        Self { entry, backend, requirement, verdict, outcomes, not_run, took, again }
    }

    /// What stands in `results.json`.
    pub fn summary(&self) -> Summary {
        let calls = |of: fn(&sim::ledger::Record) -> bool| {
            self.outcomes.iter().map(|it| it.run.calls().filter(|call| of(call)).count()).sum()
        };
        Summary {
            id: self.entry.id.clone(),
            mode: self.backend,
            title: self.entry.title.clone(),
            requirement: self.requirement,
            verdict: self.verdict.clone(),
            cases: self.outcomes.len(),
            not_run: self.not_run.len(),
            not_passed: self.not_passed().map(CaseSummary::of).collect(),
            vcenter_calls: calls(sim::ledger::Record::is_vcenter_call),
            supervisor_calls: calls(|call| Backend::Supervisor.takes(call)),
            cluster_calls: calls(sim::ledger::Record::is_cluster_call),
        }
    }

    /// Cases that did not pass, of a check that has several.
    fn not_passed(&self) -> impl Iterator<Item = &Outcome> {
        let several = self.outcomes.len() > 1;
        self.outcomes.iter().filter(move |it| several && it.verdict.reason().is_some())
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
        for other in self.not_passed().filter(|it| it.case != outcome.case) {
            let _ = writeln!(out, "  {} [{}]", other.verdict, other.case);
        }
        let _ = writeln!(out, "  oracle: {}", self.entry.oracle);
        let _ = writeln!(out, "  remedy: {}", self.entry.remedy);
        let records = &outcome.run.ledger;
        let (window, around) = outcome.window();
        let (from, to) = (window.start + 1, window.end);
        let _ =
            writeln!(out, "  transcript ({from} to {to} of {} records, {around}):", records.len());
        for record in &records[window] {
            let _ = writeln!(out, "    {record}");
        }
        let _ = writeln!(out, "  truth beside what the nodes say, at the end:");
        for line in crate::report::truth(&outcome.run) {
            let _ = writeln!(out, "    {line}");
        }
        let mutant = stage.mutant.map(|it| format!(" --mutant {it:?}")).unwrap_or_default();
        let ours = || {
            let (id, mode, seed) = (&self.entry.id, self.backend, stage.seed);
            format!(
                "cargo run --release -p conformance -- run {id} --mode {mode} --seed {seed}{mutant}"
            )
        };
        let _ = writeln!(out, "  again: {}", self.again.clone().unwrap_or_else(ours));
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_matches_nothing_is_an_error_with_the_nearest_name() {
        let ids = |ids: &[&str]| Filter {
            ids: ids.iter().map(|&id| id.to_owned()).collect(),
            surfaces: Vec::new(),
        };
        assert_eq!(ids(&["NODE-INIT-001", "EFF"]).validate(), Ok(()));
        let error = ids(&["NODE-INIT-001", "NODE-INIT-0O1"]).validate().unwrap_err();
        assert!(error.contains("NODE-INIT-0O1") && error.contains("NODE-INIT-001?"), "{error}");
        let filter = Filter { ids: Vec::new(), surfaces: vec!["nodes".to_owned()] };
        let error = filter.validate().unwrap_err();
        assert!(error.contains("is it node?"), "{error}");
    }

    #[test]
    fn an_alias_stands_for_the_check_that_holds_it() {
        let filter = Filter { ids: vec!["NODE-SHUT-001".to_owned()], surfaces: Vec::new() };
        let (alias, target) = filter.aliases().next().unwrap();
        assert_eq!(alias, "NODE-SHUT-001");
        let checks: Vec<&str> =
            filter.checks(Backend::VCenter).iter().map(|check| check.id).collect();
        assert_eq!(checks, [target]);
    }
}
