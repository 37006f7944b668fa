//! Lives: scenarios with named phases, in which sweeps let calls fail.
//!
//! In the lives nodes, machines, vCenters and the provider itself change in different ways, because
//! many defects show only in some of them. Each life ends with the phase [`CALM`], in which no
//! fault rule is in force. No life may break a safety invariant, and at the end of each life every
//! liveness invariant must hold. [`EXEMPTIONS`] lists the exceptions.

mod adoption;
mod environments;
mod identities;
mod joins;
pub mod mode_comparison;
pub mod sweep;

use std::time::Duration;

use provider::InstancesMode;

pub(crate) use joins::{foreign_address, foreign_addresses};

use crate::judge::{Invariant, Violation, liveness, safety};
use crate::lab::{Mode, Run};
use crate::scenario::{Act, Backend, Scenario};

/// A scenario with named phases for the sweeps.
#[derive(Clone, Debug)]
pub struct Life {
    /// Name on the command line and in reports: lower case, words joined by dashes.
    pub name: &'static str,
    /// Description of the events of the life, in one sentence.
    pub about: &'static str,
    /// Scenario of the life. [`Act::Phase`] begins each of its phases.
    pub scenario: Scenario,
}

/// A named part of a life, in which sweeps let calls fail.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Phase {
    /// Name, unique within the life.
    pub name: String,
    /// Begin, as time since the start of the world.
    pub begin: Duration,
    /// End, as time since the start of the world: the begin of the next phase.
    pub end: Duration,
}

/// Name of the last phase, in which no fault rule is in force and the provider must reach the right
/// state.
pub const CALM: &str = "calm";

/// Returns a duration of this many seconds.
const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Life {
    fn new(name: &'static str, about: &'static str, scenario: Scenario) -> Self {
        Self { name, about, scenario: named(scenario, name).settling() }
    }

    /// Returns the phases in order of time, without [`CALM`] at the end.
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

    /// Returns the violations of safety and liveness invariants in a run of a life, with or without
    /// injected failures. Leaves out violations that [`EXEMPTIONS`] permits for the life and mode
    /// of the run.
    pub fn broken(run: &Run) -> Vec<Violation> {
        let mut found = safety(run);
        found.extend(liveness(run));
        found.retain(|it| exemption(&run.scenario.name, run.stage.mode, it.invariant).is_none());
        found
    }
}

/// An invariant that does not count against a life in one mode, with the reason.
#[derive(Clone, Copy, Debug)]
pub struct Exemption {
    /// Name of the life; `None` for every life.
    pub life: Option<&'static str>,
    /// Mode of the provider, to which the exemption is limited.
    pub mode: Mode,
    /// Invariant that does not count.
    pub invariant: Invariant,
    /// Reason for the exemption.
    pub reason: &'static str,
}

const VCENTER_V1: Mode = Mode::VCenter(InstancesMode::V1);
const SUPERVISOR_V1: Mode = Mode::Supervisor(InstancesMode::V1);

/// Every exemption of a life.
pub const EXEMPTIONS: [Exemption; 5] = [
    Exemption {
        life: None,
        mode: VCENTER_V1,
        invariant: Invariant::NoLoginStorm,
        reason: "v1 makes upstream's calls, with a REST login for each read of a zone",
    },
    Exemption {
        life: Some("listed-partly"),
        mode: SUPERVISOR_V1,
        invariant: Invariant::NoWrongDeletion,
        reason: "v1 keeps upstream's defect: a single list without a machine counts as proof that it is gone",
    },
    Exemption {
        life: Some("by-in-tree-path"),
        mode: SUPERVISOR_V1,
        invariant: Invariant::NoWrongDeletion,
        reason: "v1 keeps upstream's defect: if a provider ID contains no UUID, the machine counts as gone",
    },
    Exemption {
        life: Some("stepped-clocks"),
        mode: SUPERVISOR_V1,
        invariant: Invariant::YoungNodeStays,
        reason: "v1 keeps upstream's defect: it deletes a Node without a machine regardless of the Node's age",
    },
    Exemption {
        life: Some("slow-reads"),
        mode: VCENTER_V1,
        invariant: Invariant::GoneNodesGo,
        reason: "v1 makes one read after the other, as upstream does: after a crash it does not initialize a node before the \
                 node's machine is deleted, and it may not delete a Node without a provider ID",
    },
];

/// Returns the reason of an exemption for this life, mode and invariant, or `None`.
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
    scenario.at(at, Act::RemoveRules).at(at, Act::Phase(CALM.to_owned()))
}

fn phase(name: &str) -> Act {
    Act::Phase(name.to_owned())
}

/// Returns the scenario of the life `usual`: three nodes join at the start, one machine changes its
/// address, one is powered off, and one is deleted.
pub fn usual() -> Scenario {
    joins::usual().scenario
}

/// Returns every life for a backend, in a fixed order.
pub fn all(backend: Backend) -> Vec<Life> {
    let mut all = joins::lives(backend);
    all.extend(adoption::lives(backend));
    all.extend(environments::lives(backend));
    all.extend(identities::lives(backend));
    all
}
