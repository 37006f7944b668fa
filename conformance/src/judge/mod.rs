//! The invariants: conditions that must hold in every run.
//!
//! Judges read the world's log, which has both the truth and the writes; they never look into the provider. All of them
//! share one pass over the log. They judge every case of the catalogue, every trial of a sweep and every history. A
//! case that needs a broken invariant names it with the reason (`Case::exempt`).

mod authors;
mod dead;
mod deletions;
mod facts;
mod invariant;
mod leadership;
mod liveness;
mod metrics;
mod order;
mod pauses;
mod safety;
mod secrets;
mod sessions;
#[cfg(test)]
mod tests;
mod writes;
mod zones;

use std::fmt;

use serde::Serialize;
use sim::world::Time;

pub use facts::{NodeFacts, facts, machine_of, reported};
pub use invariant::Invariant;
pub use leadership::takeovers;
pub(crate) use leadership::{Term, terms};
pub(crate) use secrets::{SHORTEST, Secrets};

use crate::lab::{Exit, Run};

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// Time of the violation.
    pub at: Time,
    /// Description of the violation, with the node or session.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.invariant, self.at, self.text)
    }
}

/// Returns every violation of a condition that must hold at all times, in order of time.
pub fn safety(run: &Run) -> Vec<Violation> {
    let mut nodes = safety::Judge::of(run);
    let mut sessions = sessions::Judge::of(run);
    let mut deletions = deletions::Judge::of(run);
    let mut zones = zones::Judge::of(run);
    let mut order = order::Judge::of(run);
    run.log.play(|at, event, before, after| {
        nodes.see(at, event, before, after);
        sessions.see(at, event, after);
        deletions.see(at, event, before, after);
        zones.see(at, event, before, after);
        order.see(at, event, before);
    });
    let mut found = nodes.violations();
    found.extend(sessions.violations());
    found.extend(deletions.violations());
    found.extend(zones.violations());
    found.extend(order.violations());
    found.extend(writes::violations(run));
    found.extend(dead::violations(run));
    found.extend(pauses::violations(run));
    found.extend(leadership::violations(run));
    found.extend(metrics::violations(run));
    let panics = run.exits.iter().filter(|exit| **exit == Exit::Panicked).map(|exit| Violation {
        invariant: Invariant::NoPanic,
        at: run.end_time(),
        text: format!("a replica {exit}"),
    });
    found.extend(panics);
    found.extend(run.passed.map(|passed| Violation {
        invariant: Invariant::NoPanic,
        at: run.end_time(),
        text: format!("the provider ran away: {passed}"),
    }));
    found.extend(run.end.violations().into_iter().map(|text| Violation {
        invariant: Invariant::WorldIsSound,
        at: run.end_time(),
        text: format!("the world itself is unsound: {text}"),
    }));
    found.sort_by_key(|violation| violation.at);
    found
}

/// Returns every condition that must have come true by the end of a run whose faults are healed, and has not.
pub fn liveness(run: &Run) -> Vec<Violation> {
    liveness::violations(run)
}

/// Returns every violation in a run. Includes [`liveness()`] only if the scenario lasts until everything must be right
/// and the provider did not run away.
pub fn all(run: &Run) -> Vec<Violation> {
    let mut found = safety(run);
    if run.scenario.is_settled() && run.passed.is_none() {
        found.extend(liveness(run));
    }
    found
}

impl Run {
    /// Returns the time at which the scenario ended.
    pub fn end_time(&self) -> Time {
        Time::after_start(self.end.age())
    }
}
