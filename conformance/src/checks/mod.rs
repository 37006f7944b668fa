//! The checks: for each ID the cases that exercise it and the judge of each case.
//!
//! What an ID promises stands once, in `catalogue.yaml`; here stands how it is put to the test.

mod addresses;
mod build;
mod canary;
mod contract;
mod deletion;
mod efficiency;
pub(crate) mod gone;
mod identity;
mod initialization;
mod isolation;
mod labels;
mod lifecycle;
mod observe;
mod recovery;
mod sessions;
mod shutdown;
mod zones;

use crate::backend::Backend;
use crate::catalogue;
use crate::foreign::Pace;
use crate::lab::{Run, Stage, run};
use crate::scenario::Scenario;
use crate::verdict::Verdict;

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
    judge: Box<dyn Fn(&Run) -> Verdict + Send + Sync>,
}

/// How a case ended.
#[derive(Debug)]
pub struct Outcome {
    /// The case.
    pub case: String,
    /// The verdict.
    pub verdict: Verdict,
    /// What happened.
    pub run: Run,
}

impl Case {
    /// The only case of a check.
    pub(crate) fn new(
        scenario: Scenario,
        judge: impl Fn(&Run) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        Self { name: String::new(), scenario, pace: Pace::Usual, judge: Box::new(judge) }
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

    /// Runs the case and judges it.
    pub fn run(&self, stage: &Stage) -> Outcome {
        let run = run(&self.scenario, stage);
        let verdict = self.judge(&run);
        Outcome { case: self.name.clone(), verdict, run }
    }

    /// Judges a run of this case. A rule that never fired makes a pass vacuous, and so does a provider that
    /// never logged in or never initialized a node. Of `faults/reads` and `faults/updates` one is enough.
    pub fn judge(&self, run: &Run) -> Verdict {
        if let Some(refused) = run.ledger.iter().find(|it| it.op.starts_with("refused: ")) {
            return Verdict::Inconclusive(format!("a step did not happen: {}", refused.op));
        }
        let verdict = (self.judge)(run);
        let fired = |part: &str| {
            self.scenario.rules().any(|it| about(it) == about(part) && run.fired(it) > 0)
        };
        let idle: Vec<&str> = self.scenario.rules().filter(|rule| !fired(rule)).collect();
        match verdict {
            Verdict::Pass if !idle.is_empty() => {
                Verdict::Inconclusive(format!("rule {} never fired", idle.join(", ")))
            }
            Verdict::Pass => canary::worked(run),
            verdict => verdict,
        }
    }
}

/// What a rule is about: what stands before a slash in its name.
fn about(rule: &str) -> &str {
    rule.split_once('/').map_or(rule, |(about, _)| about)
}

impl Check {
    fn new(id: &'static str, cases: impl IntoIterator<Item = Case>) -> Self {
        Self { id, cases: cases.into_iter().collect() }
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
        contract::checks(backend),
        labels::checks(backend),
        lifecycle::checks(backend),
        shutdown::checks(backend),
    ]
    .into_iter()
    .flatten()
    .collect();
    all.sort_by_key(|check| catalogue::entries().iter().position(|entry| entry.id == check.id));
    all
}
