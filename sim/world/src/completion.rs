//! End of a step that takes time: at once, after a duration, or on command.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The time at which a step ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Completion {
    /// At the moment at which it begins.
    Immediately,
    /// This duration after it began.
    After(#[serde(with = "crate::duration")] Duration),
    /// On [`Command::Tell`](crate::Command::Tell).
    WhenTold,
}

/// A step that the world completes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// vCenter carries out a task.
    Task,
    /// VMware Tools answers after power-on. The guest reports the host name `localhost`.
    Tools,
    /// The guest reports its interfaces, with link-local addresses only.
    Interface,
    /// The guest reports all addresses of its interfaces.
    Address,
    /// The guest reports its final host name.
    HostName,
    /// The guest has shut down, restarted or gone to sleep after a request to VMware Tools. If held, the
    /// step simulates a shutdown that hangs.
    GuestPower,
    /// The kubelet starts: it registers a new Node, or makes a known one Ready.
    Kubelet,
    /// HA restarts the machines of a failed host on another host.
    HaRestart,
    /// A vCenter that was started becomes ready; it answers 503 until then.
    ServiceStart,
    /// vCenter forgets a completed task.
    TaskForgotten,
    /// VM Operator puts its finalizer on a new VirtualMachine.
    VmAccepted,
    /// VM Operator has looked up the objects that the VirtualMachine names: class, image, zone.
    VmPrerequisites,
    /// VM Operator has cloned the machine.
    VmCreated,
    /// VM Operator writes the machine's UUIDs into the status.
    VmIdentified,
    /// VM Operator sets the power state that the object asks for.
    VmPower,
    /// VM Operator writes changes of vCenter into the status.
    VmStatus,
    /// VM Operator destroys the machine of a deleted object and removes its finalizer.
    VmDeleted,
}

/// End of each step, counted from the event that started it (for guest steps, from the power-on).
///
/// The defaults are those of a production server: tools 15 s after power-on, addresses after 20 s, host name
/// after 22 s; a guest needs 10 s to shut down. VM Operator clones in 5 s and powers on 2.5 s later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timing {
    /// Factor of every [`Completion::After`]; 0 makes them immediate.
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
    /// Timing in which every step ends at once.
    pub fn immediate() -> Self {
        Self { scale: 0.0, steps: BTreeMap::new() }
    }

    /// The end of `step`, scaled.
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
