//! The checks: for each ID the cases that exercise it and the judge of each case.
//!
//! What an ID promises stands once, in `catalogue.yaml`; here stands how it is put to the test.

mod addresses;
mod apiserver;
pub(crate) mod build;
mod canary;
mod contract;
mod deletion;
mod efficiency;
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
    /// Its permanent ID.
    pub id: &'static str,
    /// The cases; all must pass.
    pub cases: Vec<Case>,
}

/// One way to put a promise to the test.
pub struct Case {
    /// What this case varies; empty if it is the only one.
    pub name: String,
    /// What happens.
    pub scenario: Scenario,
    /// How fast its world may live with a provider that does not live in virtual time.
    pub pace: Pace,
    /// The entry of its check; [`Check::new`] sets it.
    entry: Option<&'static Entry>,
    /// Invariants that its own scenario breaks, each with the reason.
    exempt: Vec<(Invariant, &'static str)>,
    judge: Box<dyn Fn(&Run) -> Verdict + Send + Sync>,
}

/// How a case ended.
#[derive(Debug)]
pub struct Outcome {
    /// The case.
    pub case: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Invariants that were broken, whatever the verdict.
    pub broken: Vec<Violation>,
    /// What happened.
    pub run: Run,
}

impl Case {
    /// The only case of a check.
    pub(crate) fn new(
        scenario: Scenario,
        judge: impl Fn(&Run) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        let (name, exempt, pace) = (String::new(), Vec::new(), Pace::Usual);
        Self { name, scenario, pace, entry: None, exempt, judge: Box::new(judge) }
    }

    /// One of several cases.
    #[must_use]
    pub(crate) fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// With a provider that is a process, the world of this case lives like this.
    #[must_use]
    pub(crate) fn paced(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    /// With an invariant that its own scenario breaks, or lets a provider break, for this reason.
    #[must_use]
    pub(crate) fn exempt(mut self, invariant: Invariant, reason: &'static str) -> Self {
        self.exempt.push((invariant, reason));
        self
    }

    /// Invariants that are not held against a run of this case, each with the reason.
    pub fn exemptions(&self) -> &[(Invariant, &'static str)] {
        &self.exempt
    }

    /// Runs the case and judges it.
    pub fn run(&self, stage: &Stage) -> Outcome {
        self.outcome(run(&self.scenario, stage))
    }

    /// What a run of this case amounts to.
    pub fn outcome(&self, run: Run) -> Outcome {
        let broken = judge::all(&run);
        let verdict = self.verdict(&run, &broken);
        Outcome { case: self.name.clone(), verdict, broken, run }
    }

    /// The verdict over a run in which these invariants were broken.
    ///
    /// A world that is unsound is the harness's own failure. A broken safety invariant is final: it outranks whatever the
    /// case itself concludes, unless that fails too and says more.
    fn verdict(&self, run: &Run, broken: &[Violation]) -> Verdict {
        if let Some(unsound) = broken.iter().find(|it| it.invariant == Invariant::WorldIsSound) {
            return Verdict::harness_error(unsound);
        }
        // What the case itself asks for had no time to come about.
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

    /// The verdict of this case alone. A rule that never fired makes a pass vacuous, and so does a provider that
    /// never logged in or never initialized a node. Of `faults/reads` and `faults/updates` one is enough.
    fn judge(&self, run: &Run) -> Verdict {
        if let Some(refused) = run.ledger.iter().find(|it| it.op.starts_with("refused: ")) {
            return Verdict::inconclusive(format!("a step did not happen: {}", refused.op));
        }
        let verdict = (self.judge)(run);
        let fired = |part: &str| {
            self.scenario.rules().any(|it| about(it) == about(part) && run.fired(it) > 0)
        };
        let idle: Vec<&str> = self.scenario.rules().filter(|rule| !fired(rule)).collect();
        match verdict {
            Verdict::Pass if !idle.is_empty() => {
                Verdict::inconclusive(format!("rule {} never fired", idle.join(", ")))
            }
            Verdict::Pass => canary::worked(run),
            verdict => verdict,
        }
    }
}

/// Whether a broken invariant fails the check of this entry.
///
/// Of ours every one does. Another provider, and ours where it makes upstream's calls (`v1`), is failed by what makes it unsafe, whatever the check is about; what is policy
/// beyond the contract, and what is no matter of safety, fails the checks that are about it, and is told by the others.
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

/// What a rule is about: what stands before a slash in its name.
fn about(rule: &str) -> &str {
    rule.split_once('/').map_or(rule, |(about, _)| about)
}

impl Check {
    fn new(id: &'static str, cases: impl IntoIterator<Item = Case>) -> Self {
        let entry = catalogue::entry(id);
        let cases = cases.into_iter().map(|case| Case { entry, ..case }).collect();
        Self { id, cases }
    }
}

/// Every check that is run in a mode, in the order of the catalogue.
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
