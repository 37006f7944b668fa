//! When a step that takes time ends: at once, after a while, or when a test says so.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When a step ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Completion {
    /// In the moment it begins.
    Immediately,
    /// This long after it began.
    After(#[serde(with = "crate::duration")] Duration),
    /// When somebody sends [`Command::Tell`](crate::Command::Tell).
    WhenTold,
}

/// A step of the world's own life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// A vSphere task does its work.
    Task,
    /// VMware Tools answers, after power-on. The guest calls itself `localhost`.
    Tools,
    /// The first interface shows, with its link-local address only.
    Interface,
    /// The interfaces have their addresses.
    Address,
    /// The guest has its final host name.
    HostName,
    /// A guest has shut down, restarted or gone to sleep after VMware Tools was asked to let it. Held,
    /// it is a shutdown that hangs.
    GuestPower,
    /// The kubelet starts: a new Node registers, a known one becomes Ready.
    Kubelet,
    /// HA restarts the machines of a failed host elsewhere.
    HaRestart,
    /// A vCenter that was started answers 503 until this has passed.
    ServiceStart,
    /// A completed task is forgotten.
    TaskForgotten,
    /// VM Operator puts its finalizer on a new VirtualMachine.
    VmAccepted,
    /// It has looked at what the VirtualMachine names: class, image, zone.
    VmPrerequisites,
    /// The machine is cloned.
    VmCreated,
    /// The object tells the machine's UUIDs.
    VmIdentified,
    /// The machine is powered as the object asks.
    VmPower,
    /// The object tells what has changed in vCenter.
    VmStatus,
    /// The machine of a deleted object is destroyed, and the object goes.
    VmDeleted,
}

/// When each step ends, counted from what set it off (for guest steps: the power-on).
///
/// Defaults are a production server's: tools 15 s after power-on, addresses after 20 s, host name
/// after 22 s; a guest needs 10 s to shut down. VM Operator clones in 5 s and powers on 2.5 s later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timing {
    /// Multiplies every [`Completion::After`]; 0 makes them immediate.
    pub scale: f64,
    /// Steps that differ from the defaults.
    pub steps: BTreeMap<Step, Completion>,
}

impl Default for Timing {
    fn default() -> Self {
        Self { scale: 1.0, steps: BTreeMap::new() }
    }
}

impl Timing {
    /// Everything happens at once.
    pub fn immediate() -> Self {
        Self { scale: 0.0, steps: BTreeMap::new() }
    }

    /// When `step` ends.
    pub fn of(&self, step: Step) -> Completion {
        let default = match step {
            Step::VmAccepted | Step::VmPrerequisites => 100,
            Step::VmIdentified | Step::VmStatus => 500,
            Step::Task => 1_000,
            Step::VmPower => 2_000,
            Step::VmCreated | Step::VmDeleted => 5_000,
            Step::GuestPower => 10_000,
            Step::Tools => 15_000,
            Step::Interface => 17_000,
            Step::Address => 20_000,
            Step::HostName => 22_000,
            Step::Kubelet => 30_000,
            Step::HaRestart | Step::ServiceStart => 60_000,
            Step::TaskForgotten => 600_000,
        };
        let completion = self
            .steps
            .get(&step)
            .copied()
            .unwrap_or(Completion::After(Duration::from_millis(default)));
        match completion {
            Completion::After(after) => {
                match Duration::try_from_secs_f64(after.as_secs_f64() * self.scale) {
                    Ok(Duration::ZERO) => Completion::Immediately,
                    Ok(scaled) => Completion::After(scaled),
                    Err(_) => Completion::After(after),
                }
            }
            told_or_immediate => told_or_immediate,
        }
    }
}
