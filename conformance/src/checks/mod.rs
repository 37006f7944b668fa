//! Checks: the cases that test the promises of the catalogue. Each check has the ID of its promise,
//! and each case has a judge.
//!
//! `catalogue.yaml` contains the text of each promise. This module contains the tests.

pub mod autoscaler;
pub(crate) mod build;
mod canary;
pub mod capacity;
mod efficiency;
mod failures;
pub(crate) mod lifecycle;
mod nodes;
mod program;
mod queries;
mod scale;
#[cfg(test)]
mod tests;

use sim::faults::RuleId;

use crate::catalogue::{self, CheckId, Class, Entry};
use crate::judge::verdict::{Reason, Verdict};
use crate::judge::{self, Invariant, Violation};
use crate::lab::{Run, Stage, run};
use crate::scenario::{Backend, Pace, Scenario};

/// A promise of the catalogue, by its ID, with the cases that test it.
pub struct Check {
    /// Permanent ID in the catalogue.
    pub id: CheckId,
    /// Cases of the check. The check passes if all of them pass.
    pub cases: Vec<Case>,
}

/// One case of a check: a scenario, and a judge that computes a verdict from its run.
pub struct Case {
    /// Name of the variation that this case tests; usually empty for the only case of a check.
    pub name: String,
    /// World, set-up of the provider and steps of the run.
    pub scenario: Scenario,
    /// Pace of world time for a provider on the real clock; [`Pace::Virtual`] excludes such a
    /// provider.
    pub pace: Pace,
    /// Entry of the check in the catalogue; [`Check::new`] sets it. `None` if the catalogue lacks
    /// the check.
    entry: Option<&'static Entry>,
    /// Exemptions: invariants that do not count against this case, each with the reason.
    exempt: Vec<(Invariant, &'static str)>,
    judge: Box<dyn Fn(&Run) -> Verdict + Send + Sync>,
}

/// Result of a case, with its run.
#[derive(Debug)]
pub struct PlayedCase {
    /// Name of the case.
    pub case: String,
    /// Verdict of the case, from its judge and the invariants.
    pub verdict: Verdict,
    /// Violations of invariants in the run, including those that do not affect the verdict.
    pub broken: Vec<Violation>,
    /// The run from which the verdict was computed.
    pub run: Run,
}

impl Case {
    /// Creates a case without a name, as for a check with only one case.
    pub(crate) fn new(
        scenario: Scenario,
        judge: impl Fn(&Run) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        let (name, exempt, pace) = (String::new(), Vec::new(), Pace::Usual);
        Self { name, scenario, pace, entry: None, exempt, judge: Box::new(judge) }
    }

    /// Sets the name of the case, which tells it from the other cases of its check.
    #[must_use]
    pub(crate) fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Sets the pace of world time for a provider on the real clock.
    #[must_use]
    pub(crate) fn paced(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    /// Adds an exemption: an invariant that the scenario itself breaks or permits a provider to
    /// break, with the reason.
    #[must_use]
    pub(crate) fn exempt(mut self, invariant: Invariant, reason: &'static str) -> Self {
        self.exempt.push((invariant, reason));
        self
    }

    /// Returns the invariants that do not count against a run of this case, each with the reason.
    pub fn exemptions(&self) -> &[(Invariant, &'static str)] {
        &self.exempt
    }

    /// Plays the scenario of the case and judges the run.
    pub fn run(&self, stage: &Stage) -> PlayedCase {
        self.outcome(run(&self.scenario, stage))
    }

    /// Judges a finished run of this case.
    pub fn outcome(&self, run: Run) -> PlayedCase {
        let broken = judge::all(&run);
        let verdict = self.verdict(&run, &broken);
        PlayedCase { case: self.name.clone(), verdict, broken, run }
    }

    /// Returns the verdict of the case, from its judge and from the violations in its run.
    ///
    /// An unsound world is a harness error. A provider that exceeded a bound fails. In other runs a
    /// failure of the judge stands, because its text says more than a violation. A violation of a
    /// safety invariant turns every other verdict into a failure, and a violation of another
    /// invariant turns a pass into a failure. Only violations count that are not exempt and that
    /// pass [`counts`].
    fn verdict(&self, run: &Run, broken: &[Violation]) -> Verdict {
        if let Some(unsound) = broken.iter().find(|it| it.invariant == Invariant::WorldIsSound) {
            return Verdict::harness_error(unsound);
        }
        // The lab stopped the run early, so the conditions of the case may not have occurred.
        let ran_away = |it: &&Violation| it.invariant == Invariant::NoPanic;
        if run.exceeded_bound.is_some()
            && let Some(violation) = broken.iter().rfind(ran_away)
        {
            return Verdict::fail(violation);
        }
        let counts = |it: &&Violation| {
            self.exempt.iter().all(|(exempt, _)| *exempt != it.invariant)
                && counts(it.invariant, self.entry, run)
        };
        let is_safety = |it: &&Violation| it.invariant.class() == Class::Safety;
        let own = self.judge(run);
        let mut held = broken.iter().filter(counts);
        let worst = broken.iter().filter(counts).find(is_safety).or_else(|| held.next());
        match (own, worst) {
            (Verdict::Fail(why), worst) => {
                let invariant = why.invariant.or(worst.filter(is_safety).map(|it| it.invariant));
                Verdict::Fail(Reason { invariant, ..why })
            }
            (_, Some(worst)) if is_safety(&worst) => Verdict::fail(worst),
            (Verdict::Pass, Some(worst)) => Verdict::fail(worst),
            (own, _) => own,
        }
    }

    /// Computes the verdict of this case without the invariants.
    ///
    /// The verdict is inconclusive if the lab could not carry out a step. A pass becomes
    /// inconclusive if no rule of a group fired (see [`Run::idle_rules`]), if lines of the log were
    /// dropped, or if the run does not show that the provider worked (see
    /// [`canary::provider_worked`]).
    fn judge(&self, run: &Run) -> Verdict {
        if let Some(refused) = run.refusals().next() {
            return Verdict::inconclusive(format!(
                "the lab could not carry out a step of the scenario: {refused}"
            ));
        }
        let verdict = (self.judge)(run);
        let idle: Vec<&str> = run.idle_rules().into_iter().map(RuleId::as_str).collect();
        match verdict {
            Verdict::Pass if !idle.is_empty() => Verdict::inconclusive(format!(
                "the fault rule {} never fired, so the case tested nothing",
                idle.join(", ")
            )),
            Verdict::Pass if run.n_lines_dropped > 0 => Verdict::inconclusive(format!(
                "the provider's log is too long: {} lines were dropped, so they were searched neither for secrets nor for crashes",
                run.n_lines_dropped
            )),
            Verdict::Pass => canary::provider_worked(run),
            verdict => verdict,
        }
    }
}

/// True if a violation of `invariant` may fail a case of the check with this entry. Does not look
/// at exemptions.
///
/// In virtual time every violation counts, except in the instances mode `v1`. In `v1`, and with a
/// provider on the real clock, a violation of a safety invariant always counts unless the invariant
/// is a policy, that is, demands more than the contract of Kubernetes. Any other violation counts
/// only if the check has the class and the surface of the invariant and, if the invariant is a
/// policy, is a policy itself. Without an entry every violation counts.
fn counts(invariant: Invariant, entry: Option<&Entry>, run: &Run) -> bool {
    let is_final = invariant.class() == Class::Safety && !invariant.is_policy();
    let is_about = |entry: &Entry| {
        entry.surface == invariant.surface()
            && entry.class == invariant.class()
            && (entry.is_policy() || !invariant.is_policy())
    };
    let is_ours = !run.hosted && !run.stage.mode.is_v1();
    is_ours || is_final || entry.is_none_or(is_about)
}

impl Check {
    fn new(id: &'static str, cases: impl IntoIterator<Item = Case>) -> Self {
        let entry = catalogue::entry(id);
        let cases = cases.into_iter().map(|case| Case { entry, ..case }).collect();
        Self { id: CheckId::new(id), cases }
    }
}

/// Returns every check for a backend, in the order of the catalogue.
pub fn all(backend: Backend) -> Vec<Check> {
    let mut all: Vec<Check> = [
        nodes::checks(backend),
        lifecycle::checks(backend),
        failures::checks(backend),
        program::checks(backend),
        efficiency::checks(backend),
        scale::checks(backend),
    ]
    .into_iter()
    .flatten()
    .collect();
    all.sort_by_key(|check| catalogue::entries().iter().position(|entry| entry.id == check.id));
    all
}
