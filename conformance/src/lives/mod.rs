//! Lives: scenarios around the calls that a sweep lets fail, with changes of nodes, machines and the provider itself.
//!
//! A single life, in which every node joins at the start and our provider initializes all of them, would hide the defects
//! that only other lives show. Each life here is a scenario with named phases that ends in calm, so the sweep can let
//! every call of each phase fail. No life may break a safety invariant, and at its end every liveness invariant must hold.

mod adoption;
mod identities;
mod joins;
mod places;

use std::time::Duration;

use provider::InstancesMode;

pub(crate) use joins::{foreign_address, foreign_addresses};

use crate::backend::Backend;
use crate::judge::{Invariant, Violation, liveness, safety};
use crate::lab::{Mode, Run};
use crate::scenario::{Act, Scenario};

/// A scenario with named phases for the sweeps.
#[derive(Clone, Debug)]
pub struct Life {
    /// Name on the command line and in reports: lower case, words joined by dashes.
    pub name: &'static str,
    /// One sentence about the events of the life.
    pub about: &'static str,
    /// The scenario. Its phases begin with [`Act::Phase`].
    pub scenario: Scenario,
}

/// A part of a life in which the sweep lets calls fail.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Phase {
    /// Name, unique within the life.
    pub name: String,
    /// Beginning, after the start of the world.
    pub begin: Duration,
    /// End, after the start of the world.
    pub end: Duration,
}

/// Name of the last phase: nothing fails any more, and the provider must reach the right state.
pub const CALM: &str = "calm";

/// Seconds.
const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Life {
    fn new(name: &'static str, about: &'static str, scenario: Scenario) -> Self {
        Self { name, about, scenario: named(scenario, name).settling() }
    }

    /// Returns the phases in which calls can fail, in order, without the calm at the end.
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

    /// Returns the invariants that a run of this life, or of a variant with faults, has broken.
    pub fn broken(run: &Run) -> Vec<Violation> {
        let mut found = safety(run);
        found.extend(liveness(run));
        found.retain(|it| exemption(&run.scenario.name, run.stage.mode, it.invariant).is_none());
        found
    }
}

/// A life that breaks an invariant in one mode, with the reason why that does not count.
#[derive(Clone, Copy, Debug)]
pub struct Exemption {
    /// Name of the life; `None` for every life.
    pub life: Option<&'static str>,
    /// The mode.
    pub mode: Mode,
    /// The invariant.
    pub invariant: Invariant,
    /// The reason.
    pub reason: &'static str,
}

const VCENTER_V1: Mode = Mode::VCenter(InstancesMode::V1);
const SUPERVISOR_V1: Mode = Mode::Supervisor(InstancesMode::V1);

/// Every exemption.
pub const EXEMPTIONS: [Exemption; 5] = [
    Exemption {
        life: None,
        mode: VCENTER_V1,
        invariant: Invariant::NoLoginStorm,
        reason: "v1 makes upstream's calls: a REST login for each look at a zone",
    },
    Exemption {
        life: Some("listed-partly"),
        mode: SUPERVISOR_V1,
        invariant: Invariant::NoWrongDeletion,
        reason: "v1 keeps upstream's defect: one list that does not show a machine is believed",
    },
    Exemption {
        life: Some("by-in-tree-path"),
        mode: SUPERVISOR_V1,
        invariant: Invariant::NoWrongDeletion,
        reason: "v1 keeps upstream's defect: a provider ID that is no UUID is that of no machine",
    },
    Exemption {
        life: Some("stepped-clocks"),
        mode: SUPERVISOR_V1,
        invariant: Invariant::YoungNodeStays,
        reason: "v1 keeps upstream's defect: a node without a machine is deleted however young it is",
    },
    Exemption {
        life: Some("slow-reads"),
        mode: VCENTER_V1,
        invariant: Invariant::GoneNodesGo,
        reason: "v1 makes one read after the other, as upstream: after a crash a node is not initialized before its machine goes, \
                 and a Node without a provider ID is not the provider's to delete",
    },
];

/// Returns the reason if a life and mode are exempt from an invariant.
fn exemption(life: &str, mode: Mode, invariant: Invariant) -> Option<&'static str> {
    let is_it = |it: &&Exemption| {
        it.life.is_none_or(|name| name == life) && it.mode == mode && it.invariant == invariant
    };
    EXEMPTIONS.iter().find(is_it).map(|it| it.reason)
}

fn named(scenario: Scenario, name: &str) -> Scenario {
    Scenario { name: name.to_owned(), ..scenario }
}

/// Removes every fault rule at `at` and begins the phase [`CALM`].
fn calm(scenario: Scenario, at: Duration) -> Scenario {
    scenario.at(at, Act::Heal).at(at, Act::Phase(CALM.to_owned()))
}

fn phase(name: &str) -> Act {
    Act::Phase(name.to_owned())
}

/// Returns the usual life: three nodes join at the start, one changes its address, one is shut down, one machine is
/// deleted.
pub fn usual() -> Scenario {
    joins::usual().scenario
}

/// Returns every life for a backend, in a fixed order.
pub fn all(backend: Backend) -> Vec<Life> {
    let mut all = joins::lives(backend);
    all.extend(adoption::lives(backend));
    all.extend(places::lives(backend));
    all.extend(identities::lives(backend));
    all
}
