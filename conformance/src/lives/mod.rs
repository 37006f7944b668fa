//! Lives: what can have happened to nodes, machines and the provider itself around the calls that a sweep lets fail.
//!
//! One life in which every node joins at the start, and our own provider initializes all of them, hides the defects of all
//! others. Each life here is a scenario with named phases that ends in calm, so the sweep can let every call of each phase
//! fail. Whatever happens in a life, no safety invariant breaks, and at its end everything is as it should be.

mod adoption;
mod joins;
mod places;

use std::time::Duration;

use provider::InstancesMode;

pub(crate) use joins::{foreign_address, foreign_addresses};

use crate::backend::Backend;
use crate::judge::{Invariant, Violation, liveness, safety};
use crate::lab::{Mode, Run};
use crate::scenario::{Act, Scenario};

/// One life.
#[derive(Clone, Debug)]
pub struct Life {
    /// Its name on the command line and in reports: lower case, words joined by dashes.
    pub name: &'static str,
    /// One sentence: what happens in it.
    pub about: &'static str,
    /// The life itself. Its phases begin with [`Act::Phase`].
    pub scenario: Scenario,
}

/// A part of a life in which calls are made to fail.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Phase {
    /// Its name, unique within the life.
    pub name: String,
    /// Its beginning, after the start of the world.
    pub begin: Duration,
    /// Its end.
    pub end: Duration,
}

/// Name of the last phase: nothing fails any more, and everything has to come right.
pub const CALM: &str = "calm";

/// Seconds.
const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Life {
    fn new(name: &'static str, about: &'static str, scenario: Scenario) -> Self {
        Self { name, about, scenario: named(scenario, name).settling() }
    }

    /// The phases in which calls can be made to fail, in order; the calm at the end is not among them.
    pub fn phases(&self) -> Vec<Phase> {
        let mut phases: Vec<Phase> = Vec::new();
        for step in &self.scenario.timeline {
            let Act::Phase(name) = &step.act else { continue };
            if let Some(last) = phases.last_mut() {
                last.end = step.at;
            }
            phases.push(Phase { name: name.clone(), begin: step.at, end: step.at });
        }
        phases.retain(|phase| phase.name != CALM);
        phases
    }

    /// What a run of this life, or of a variant with faults, has broken.
    pub fn broken(run: &Run) -> Vec<Violation> {
        let mut found = safety(run);
        found.extend(liveness(run));
        found.retain(|it| exemption(&run.scenario.name, run.stage.mode, it.invariant).is_none());
        found
    }
}

/// Why an invariant is not asked for in a life and a mode, if it is not.
fn exemption(life: &str, mode: Mode, invariant: Invariant) -> Option<&'static str> {
    match (life, mode, invariant) {
        (_, Mode::VCenter(InstancesMode::V1), Invariant::FewSessions | Invariant::NoLoginStorm) => {
            Some("v1 makes upstream's calls: a REST login for each look at a zone")
        }
        ("listed-partly", Mode::Supervisor(InstancesMode::V1), Invariant::NoWrongDeletion) => {
            Some("v1 keeps upstream's defect: one list that does not show a machine is believed")
        }
        ("by-in-tree-path", Mode::Supervisor(InstancesMode::V1), Invariant::NoWrongDeletion) => {
            Some("v1 keeps upstream's defect: a provider ID that is no UUID is that of no machine")
        }
        ("stepped-clocks", Mode::Supervisor(InstancesMode::V1), Invariant::YoungNodeStays) => Some(
            "v1 keeps upstream's defect: a node without a machine is deleted however young it is",
        ),
        _ => None,
    }
}

fn named(scenario: Scenario, name: &str) -> Scenario {
    Scenario { name: name.to_owned(), ..scenario }
}

/// Heals everything at this time and waits until all has come right.
fn calm(scenario: Scenario, at: Duration) -> Scenario {
    scenario.at(at, Act::Heal).at(at, Act::Phase(CALM.to_owned()))
}

fn phase(name: &str) -> Act {
    Act::Phase(name.to_owned())
}

/// The usual life: three nodes join at the start, one changes its address, one is shut down, one machine is deleted.
pub fn usual() -> Scenario {
    joins::usual().scenario
}

/// Every life that a provider of this mode can lead, in a fixed order.
pub fn all(backend: Backend) -> Vec<Life> {
    let mut all = joins::lives(backend);
    all.extend(adoption::lives(backend));
    all.extend(places::lives(backend));
    all
}
