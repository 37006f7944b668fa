//! What must hold in every history: invariants over everything that happened in a run.
//!
//! Judges see the world's log, so truth and what was written stand side by side; they never look
//! into the provider. Numbers are those of the project's list of invariants (SPECIFICATION.md).

mod facts;
mod leadership;
mod liveness;
mod safety;
mod sessions;

use std::fmt;

use sim::world::Time;

pub use facts::{NodeFacts, facts, machine_of, reported};
pub use leadership::takeovers;

use crate::lab::{Exit, Run};

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its number.
    pub invariant: u8,
    /// When it was broken.
    pub at: Time,
    /// What happened, with the node or session in it.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {} at {}: {}", self.invariant, self.at, self.text)
    }
}

/// Everything that must never happen and did.
pub fn safety(run: &Run) -> Vec<Violation> {
    let mut found = safety::violations(run);
    found.extend(sessions::violations(run));
    found.extend(leadership::violations(run));
    for exit in run.exits.iter().filter(|exit| **exit == Exit::Panicked) {
        found.push(Violation {
            invariant: 62,
            at: run.end_time(),
            text: format!("a replica {exit}"),
        });
    }
    found.extend(run.end.violations().into_iter().map(|text| Violation {
        invariant: 0,
        at: run.end_time(),
        text: format!("the world itself is unsound: {text}"),
    }));
    found.sort_by_key(|violation| violation.at);
    found
}

/// Everything that must have happened by the end of a run whose faults are healed, and has not.
pub fn liveness(run: &Run) -> Vec<Violation> {
    liveness::violations(run)
}

impl Run {
    /// When the scenario ended.
    pub fn end_time(&self) -> Time {
        Time::after_start(self.end.age())
    }
}
