//! The invariants: conditions that must hold in every run.
//!
//! The judges read the world's log, which contains the true state of machines and all writes of
//! Nodes. They also read the ledger, and the metrics and logs of the provider. They never look
//! inside the provider. Judges that examine single events share one pass over the log. The judges
//! examine every case of the catalogue, every trial of a sweep and every history. A case whose
//! scenario breaks an invariant, or permits a provider to break it, declares an exemption with the
//! reason (`Case::exempt`).

mod invariant;
mod leadership;
mod liveness;
mod metrics;
mod nodes;
mod sessions;
#[cfg(test)]
mod tests;
mod truth;
pub mod verdict;

use std::fmt;

use serde::Serialize;
use sim::world::Time;

pub use invariant::Invariant;
pub use leadership::takeovers;
pub(crate) use leadership::{LeaseVersion, terms};
pub use truth::truth;

pub use crate::lab::facts::{NodeFacts, facts, machine_of, reported};
use crate::lab::{Exit, Run};
use nodes::{deletions, order, pauses, safety, writes, zones};
use sessions::dead;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Invariant that was broken.
    pub invariant: Invariant,
    /// World time of the violation.
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
    let mut nodes = safety::Judge::new(run);
    let mut sessions = sessions::Judge::new(run);
    let mut deletions = deletions::Judge::new(run);
    let mut zones = zones::Judge::new(run);
    let mut order = order::Judge::new(run);
    run.log.for_each(|at, event, before, after| {
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
    found.extend(run.exceeded_bound.map(|passed| Violation {
        invariant: Invariant::NoPanic,
        at: run.end_time(),
        text: format!("the provider ran away: {passed}"),
    }));
    found.extend(run.end.violations().into_iter().map(|text| Violation {
        invariant: Invariant::WorldIsSound,
        at: run.end_time(),
        text: format!("the simulated world is inconsistent: {text}"),
    }));
    found.sort_by_key(|violation| violation.at);
    found
}

/// Returns every violation of a condition that must hold at the end of a run whose faults are
/// healed.
pub fn liveness(run: &Run) -> Vec<Violation> {
    liveness::violations(run)
}

/// Returns every violation in a run. Includes [`liveness()`] only if everything must be right at
/// the end of the scenario ([`is_settled`](crate::scenario::Scenario::is_settled)) and the provider
/// exceeded no bound.
pub fn all(run: &Run) -> Vec<Violation> {
    let mut found = safety(run);
    if run.scenario.is_settled() && run.exceeded_bound.is_none() {
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
