//! The checks: for each catalogue ID, the cases that exercise it and the judge of each case.
//!
//! `catalogue.yaml` states what an ID promises. This module states how the promise is tested.

mod addresses;
mod apiserver;
pub(crate) mod build;
mod canary;
mod command_line;
mod configuration;
mod contract;
mod deletion;
mod efficiency;
mod endpoint;
mod events;
pub(crate) mod gone;
mod identity;
mod initialization;
mod isolation;
mod kept;
mod labels;
mod leadership;
mod lifecycle;
mod observability;
mod observe;
mod patience;
mod provided;
mod recovery;
mod robustness;
mod scale;
mod security;
mod sessions;
mod shutdown;
mod steadiness;
#[cfg(test)]
mod tests;
mod waiting;
mod zones;

use crate::backend::Backend;
use crate::catalogue::{self, Class, Entry};
use crate::foreign::Pace;
use crate::judge::{self, Invariant, Violation};
use crate::lab::{Run, Stage, run};
use crate::scenario::Scenario;
use crate::verdict::{Reason, Verdict};

pub use build::{FaultKind, fault_kinds};

/// A check that can be run.
pub struct Check {
    /// The permanent ID.
    pub id: &'static str,
    /// The cases; all must pass.
    pub cases: Vec<Case>,
}

/// One case of a check: a scenario, and the judge of its run.
pub struct Case {
    /// The variation that this case tests; empty for the only case of a check.
    pub name: String,
    /// The events of the run, and the world that they happen in.
    pub scenario: Scenario,
    /// Speed of the world when the provider does not run in virtual time.
    pub pace: Pace,
    /// The catalogue entry of the check; set by [`Check::new`].
    entry: Option<&'static Entry>,
    /// Invariants that the scenario itself breaks, each with the reason.
    exempt: Vec<(Invariant, &'static str)>,
    judge: Box<dyn Fn(&Run) -> Verdict + Send + Sync>,
}

/// Result of a case.
#[derive(Debug)]
pub struct Outcome {
    /// Name of the case.
    pub case: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Invariants that the run broke, whatever the verdict.
    pub broken: Vec<Violation>,
    /// The run that was judged.
    pub run: Run,
}

impl Case {
    /// Creates the only case of a check.
    pub(crate) fn new(
        scenario: Scenario,
        judge: impl Fn(&Run) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        let (name, exempt, pace) = (String::new(), Vec::new(), Pace::Usual);
        Self { name, scenario, pace, entry: None, exempt, judge: Box::new(judge) }
    }

    /// Names the case, for a check with several cases.
    #[must_use]
    pub(crate) fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Sets the speed of the world for a provider that runs as a process.
    #[must_use]
    pub(crate) fn paced(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    /// Exempts an invariant that the scenario breaks or lets a provider break, with the reason.
    #[must_use]
    pub(crate) fn exempt(mut self, invariant: Invariant, reason: &'static str) -> Self {
        self.exempt.push((invariant, reason));
        self
    }

    /// Invariants that do not count against a run of this case, each with the reason.
    pub fn exemptions(&self) -> &[(Invariant, &'static str)] {
        &self.exempt
    }

    /// Runs the case and judges it.
    pub fn run(&self, stage: &Stage) -> Outcome {
        self.outcome(run(&self.scenario, stage))
    }

    /// Judges a finished run of this case.
    pub fn outcome(&self, run: Run) -> Outcome {
        let broken = judge::all(&run);
        let verdict = self.verdict(&run, &broken);
        Outcome { case: self.name.clone(), verdict, broken, run }
    }

    /// Computes the verdict over a run that broke these invariants.
    ///
    /// An unsound world is a failure of the harness. A broken safety invariant is final: it outranks the verdict of the case,
    /// unless the case fails too and gives more detail.
    fn verdict(&self, run: &Run, broken: &[Violation]) -> Verdict {
        if let Some(unsound) = broken.iter().find(|it| it.invariant == Invariant::WorldIsSound) {
            return Verdict::harness_error(unsound);
        }
        // A run that was stopped gave the case no time for its own conditions.
        let ran_away = |it: &&Violation| it.invariant == Invariant::NoPanic;
        if run.passed.is_some()
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

    /// Computes the verdict of this case alone. A pass becomes inconclusive if a rule never fired, if a part of the log was
    /// dropped, or if the provider never logged in or never initialized a node.
    fn judge(&self, run: &Run) -> Verdict {
        if let Some(refused) = run.refusals().next() {
            return Verdict::inconclusive(format!("a step did not happen: {refused}"));
        }
        let verdict = (self.judge)(run);
        let idle = run.idle_rules();
        match verdict {
            Verdict::Pass if !idle.is_empty() => {
                Verdict::inconclusive(format!("rule {} never fired", idle.join(", ")))
            }
            Verdict::Pass if run.n_lines_dropped > 0 => Verdict::inconclusive(format!(
                "{} lines of the log were dropped because it is too long; they were searched neither for secrets nor for crashes",
                run.n_lines_dropped
            )),
            Verdict::Pass => canary::worked(run),
            verdict => verdict,
        }
    }
}

/// True if a broken invariant fails the check of this entry.
///
/// For our provider every broken invariant counts. For another provider, and for ours where it makes upstream's calls (`v1`), a
/// broken safety invariant of the contract always counts. Any other invariant counts only in checks of its own surface and
/// class, and a policy beyond the contract only in checks of policy.
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
        Self { id, cases }
    }
}

/// Returns every check of a mode, in the order of the catalogue.
pub fn all(backend: Backend) -> Vec<Check> {
    let mut all: Vec<Check> = [
        initialization::checks(backend),
        identity::checks(backend),
        addresses::checks(backend),
        deletion::checks(backend),
        gone::checks(backend),
        zones::checks(backend),
        sessions::checks(backend),
        isolation::checks(backend),
        recovery::checks(backend),
        efficiency::checks(backend),
        patience::checks(backend),
        observability::checks(backend),
        events::checks(backend),
        command_line::checks(backend),
        endpoint::checks(),
        contract::checks(backend),
        labels::checks(backend),
        lifecycle::checks(backend),
        leadership::checks(),
        apiserver::checks(),
        provided::checks(),
        shutdown::checks(backend),
        steadiness::checks(backend),
        waiting::checks(backend),
        kept::checks(backend),
        robustness::checks(backend),
        scale::checks(backend),
        security::checks(backend),
    ]
    .into_iter()
    .flatten()
    .collect();
    all.sort_by_key(|check| catalogue::entries().iter().position(|entry| entry.id == check.id));
    all
}
