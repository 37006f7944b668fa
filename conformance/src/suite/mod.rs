//! Runs checks of the catalogue and combines the results of their cases into conclusions.

pub(crate) mod autoscaler;
pub(crate) mod capacity;
mod case_result;
mod part;
pub mod report;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use provider::InstancesMode;
use serde::Serialize;

use crate::catalogue::{self, CheckId, Entry, Requirement};
use crate::checks::{self, Check};
use crate::judge::verdict::Verdict;
use crate::lab::Stage;
use crate::scenario::{Backend, InputError};
pub use case_result::{Calls, CaseResult};
pub use part::Part;

/// Selection of checks by ID and by surface.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// IDs or prefixes of IDs; an empty list selects all.
    pub ids: Vec<String>,
    /// Surfaces; an empty list selects all.
    pub surfaces: Vec<String>,
}

/// Result of one check, from the verdicts of its cases.
#[derive(Debug)]
pub struct Conclusion {
    /// Entry of the check in the catalogue.
    pub entry: &'static Entry,
    /// Part of the catalogue, for the provider that was judged.
    pub part: Part,
    /// Requirement level of the check for the provider that was judged.
    pub requirement: Requirement,
    /// Verdict of the check; [`Self::combine`] computes it from the verdicts of the cases.
    pub verdict: Verdict,
    /// Results of the cases that were played.
    pub outcomes: Vec<CaseResult>,
    /// Cases that were not played: name, and verdict with the reason.
    pub not_run: Vec<(String, Verdict)>,
    /// Command that repeats the check. If `None`, [`Self::evidence`] gives the command for our
    /// provider in virtual time.
    pub again: Option<String>,
    /// Wall time of the check.
    pub took: Duration,
}

/// One check in `results.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// ID of the check.
    pub id: CheckId,
    /// Part of the catalogue, for the provider that was judged.
    pub mode: Part,
    /// Promise of the check.
    pub title: String,
    /// Requirement level of the check for the provider that was judged.
    pub requirement: Requirement,
    /// Verdict of the check with its reason.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Number of cases that were played.
    pub cases: usize,
    /// Number of cases that were not played.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_run: usize,
    /// Cases that were played and did not pass; empty if only one case was played.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_passed: Vec<CaseSummary>,
    /// Number of violations per invariant number, including violations that do not fail this check.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub broken: BTreeMap<u8, usize>,
    /// Number of calls to vCenters in all cases.
    pub vcenter_calls: usize,
    /// Number of calls to Supervisors in all cases.
    pub supervisor_calls: usize,
    /// Number of calls to the workload cluster in all cases.
    pub cluster_calls: usize,
}

/// One case in `results.json` that did not pass.
#[derive(Clone, Debug, Serialize)]
pub struct CaseSummary {
    /// Name of the case.
    pub case: String,
    /// Verdict of the case, with its reason.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl CaseSummary {
    fn new(outcome: &CaseResult) -> Self {
        Self { case: outcome.case.clone(), verdict: outcome.verdict.clone() }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Filter {
    /// True if the filter selects the check with this ID. It does if the surface of the check is in
    /// `surfaces`, and `ids` contains the ID of the check, a prefix of it, or the ID of an alias of
    /// the check. An empty list selects every check.
    pub fn selects(&self, id: CheckId) -> bool {
        let surface =
            catalogue::entry(id.as_str()).map(|entry| entry.surface.as_str()).unwrap_or_default();
        let is_named = self.ids.iter().any(|wanted| id.starts_with(wanted.as_str()));
        (self.ids.is_empty() || is_named || self.aliases().any(|(_, target)| target == id))
            && (self.surfaces.is_empty() || self.surfaces.iter().any(|wanted| wanted == surface))
    }

    /// Returns the selected checks for a backend.
    pub fn checks(&self, backend: Backend) -> Vec<Check> {
        checks::all(backend).into_iter().filter(|check| self.selects(check.id)).collect()
    }

    /// Returns the IDs of this filter that are aliases, each with the ID of the check that tests
    /// its promise.
    pub fn aliases(&self) -> impl Iterator<Item = (CheckId, CheckId)> {
        catalogue::entries().iter().filter_map(|entry| {
            let target = entry.alias_of?;
            self.ids.iter().any(|it| it == entry.id.as_str()).then_some((entry.id, target))
        })
    }

    /// Verifies that every ID, prefix and surface of the filter exists in the catalogue.
    ///
    /// # Errors
    /// Names the first one that does not exist, with the most similar name if one is
    /// similar enough.
    pub fn validate(&self) -> Result<(), InputError> {
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
                let note = format!("expected one of {}", known.join(", "));
                let unknown = InputError::unknown("unknown surface", surface);
                return Err(match near {
                    Some(near) => unknown.remedy(format!("did you mean {near}? ({note})")),
                    None => unknown.note(note),
                });
            }
        }
        Ok(())
    }
}

impl Conclusion {
    /// Plays all cases of a check and combines their results. `clock` returns the wall time since
    /// any fixed point.
    pub fn run(check: &Check, stage: &Stage, clock: impl Fn() -> Duration) -> Self {
        let play = |case| CaseResult::play(case, stage, &clock, |_| Ok(()));
        let mut played = check.cases.iter().map(play);
        Self::of_played(check, stage.mode.backend(), false, &mut played)
            .expect("playing a case without a ledger file returns no error")
    }

    /// Combines the results of the cases of a check, which `played` yields in their order. With
    /// `fail_fast`, leaves out the cases after the first one that fails.
    ///
    /// # Errors
    /// Returns the first error of `played`.
    pub(crate) fn of_played(
        check: &Check,
        backend: Backend,
        fail_fast: bool,
        played: &mut dyn Iterator<Item = anyhow::Result<CaseResult>>,
    ) -> anyhow::Result<Self> {
        let mut cases: Vec<CaseResult> = Vec::new();
        let mut not_run = Vec::new();
        for (n, result) in played.take(check.cases.len()).enumerate() {
            let result = result?;
            let has_failed = matches!(result.verdict, Verdict::Fail(_));
            cases.push(result);
            if fail_fast && has_failed {
                let why = || Verdict::skipped("an earlier case of the check failed");
                not_run = check.cases[n + 1..].iter().map(|it| (it.name.clone(), why())).collect();
                break;
            }
        }
        let entry = catalogue::entry(check.id.as_str())
            .expect("a test verifies that the catalogue has every check");
        let took = cases.iter().map(|it| it.took).sum();
        Ok(Self::combine(entry, backend.into(), cases, not_run, took))
    }

    /// Combines the results of cases. The verdict is the worst one of the played cases, or partial
    /// if all played cases passed and others were not played. If no case was played, it is the
    /// verdict of the first case in `not_run`; without any case, it is a pass.
    pub fn combine(
        entry: &'static Entry,
        part: Part,
        outcomes: Vec<CaseResult>,
        not_run: Vec<(String, Verdict)>,
        took: Duration,
    ) -> Self {
        let worst = outcomes
            .iter()
            .map(|outcome| outcome.verdict.clone().of_case(&outcome.case))
            .fold(Verdict::Pass, Verdict::worse);
        let verdict = match not_run.first() {
            Some((case, verdict)) if outcomes.is_empty() => {
                verdict.clone().of_case(if not_run.len() > 1 { case } else { "" })
            }
            Some((case, why)) if worst == Verdict::Pass => {
                let (left_out, all) = (not_run.len(), not_run.len() + outcomes.len());
                let why = format!("{left_out} of {all} cases were not played: [{case}] {why}");
                Verdict::Partial(why.into())
            }
            _ => worst,
        };
        let (requirement, again) = (entry.requirement, None);
        Self { entry, part, requirement, verdict, outcomes, not_run, took, again }
    }

    /// Returns the entry of the check for `results.json`.
    pub fn summary(&self) -> Summary {
        let calls = |of: fn(&Calls) -> usize| self.outcomes.iter().map(|it| of(&it.calls)).sum();
        Summary {
            id: self.entry.id,
            mode: self.part,
            title: self.entry.title.clone(),
            requirement: self.requirement,
            verdict: self.verdict.clone(),
            cases: self.outcomes.len(),
            not_run: self.not_run.len(),
            not_passed: self.not_passed().map(CaseSummary::new).collect(),
            broken: self.broken(),
            vcenter_calls: calls(|it| it.vcenter),
            supervisor_calls: calls(|it| it.supervisor),
            cluster_calls: calls(|it| it.cluster),
        }
    }

    /// Returns the number of violations in all cases per invariant number, including violations
    /// that do not fail this check.
    fn broken(&self) -> BTreeMap<u8, usize> {
        let mut broken = BTreeMap::new();
        for violation in self.outcomes.iter().flat_map(|it| &it.broken) {
            *broken.entry(violation.invariant.number()).or_default() += 1;
        }
        broken
    }

    /// Returns the played cases that did not pass; none if only one case was played.
    fn not_passed(&self) -> impl Iterator<Item = &CaseResult> {
        let several = self.outcomes.len() > 1;
        self.outcomes.iter().filter(move |it| several && it.verdict.reason().is_some())
    }

    /// Returns a report about a case that did not pass: its verdict and evidence, the other cases
    /// that did not pass, oracle and remedy of the check, and the command that repeats the check.
    /// Returns `None` if all played cases passed.
    pub fn evidence(&self, stage: &Stage) -> Option<String> {
        // Prefers a case with the verdict of the check.
        let is_worst = |it: &&CaseResult| it.verdict.word() == self.verdict.word();
        let not_passed = || self.outcomes.iter().filter(|it| it.verdict.reason().is_some());
        let outcome = not_passed().find(is_worst).or_else(|| not_passed().next())?;
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
        out.push_str(&outcome.evidence);
        let mutant = stage.mutant.map(|it| format!(" --mutant {it:?}")).unwrap_or_default();
        let ours = || {
            let (id, mode, seed) = (self.entry.id, self.part, stage.seed);
            let how = stage.mode.instances();
            let how = if how == InstancesMode::Auto {
                String::new()
            } else {
                format!(" --instances-mode {}", how.as_str())
            };
            format!(
                "cargo run --release -p vsphere-conformance -- run {id} --mode {mode}{how} --seed {seed}{mutant}"
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
    fn a_check_with_a_case_that_was_not_played_is_partial_if_the_others_pass() {
        let entry = catalogue::entry("NODE-INIT-001").unwrap();
        let judged = |verdict| {
            let (case, took, calls) = ("cold".to_owned(), Duration::ZERO, Calls::default());
            CaseResult { case, verdict, broken: Vec::new(), took, calls, evidence: String::new() }
        };
        let of = |played: &[Verdict], left_out: usize| {
            let played = played.iter().cloned().map(judged).collect();
            let not = vec![("long".to_owned(), Verdict::skipped("takes an hour")); left_out];
            Conclusion::combine(entry, Backend::VCenter.into(), played, not, Duration::ZERO)
                .verdict
                .word()
        };
        assert_eq!(of(&[Verdict::Pass], 0), "pass");
        assert_eq!(of(&[Verdict::Pass], 1), "partial");
        assert_eq!(of(&[Verdict::fail("late")], 1), "FAIL");
        assert_eq!(of(&[], 2), "skipped");
    }

    #[test]
    fn a_filter_that_matches_no_check_is_an_error_with_the_nearest_name() {
        let ids = |ids: &[&str]| Filter {
            ids: ids.iter().map(|&id| id.to_owned()).collect(),
            surfaces: Vec::new(),
        };
        assert_eq!(ids(&["NODE-INIT-001", "EFF"]).validate(), Ok(()));
        let error = ids(&["NODE-INIT-001", "NODE-INIT-0O1"]).validate().unwrap_err().to_string();
        assert!(error.contains("NODE-INIT-0O1") && error.contains("NODE-INIT-001?"), "{error}");
        let filter = Filter { ids: Vec::new(), surfaces: vec!["nodes".to_owned()] };
        let error = filter.validate().unwrap_err().to_string();
        assert!(error.contains("did you mean node?"), "{error}");
    }

    #[test]
    fn a_filter_by_alias_selects_the_check_behind_the_alias() {
        let filter = Filter { ids: vec!["NODE-SHUT-001".to_owned()], surfaces: Vec::new() };
        let (alias, target) = filter.aliases().next().unwrap();
        assert_eq!(alias.as_str(), "NODE-SHUT-001");
        let checks: Vec<CheckId> =
            filter.checks(Backend::VCenter).iter().map(|check| check.id).collect();
        assert_eq!(checks, [target]);
    }
}
