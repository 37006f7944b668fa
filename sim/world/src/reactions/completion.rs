//! Times at which steps end: at once, after a duration, or on the command `tell`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The time at which a step ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Completion {
    /// At the moment at which the step begins.
    Immediately,
    /// This duration after the beginning of the step.
    After(#[serde(with = "crate::duration")] Duration),
    /// When [`Command::Tell`](crate::Command::Tell) ends the step.
    WhenTold,
}

/// A step that the world completes by itself, unless its completion is [`Completion::WhenTold`].
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
    /// The guest has shut down, restarted or gone to sleep after a request to VMware Tools. If
    /// held, the step simulates a shutdown that hangs.
    GuestPower,
    /// The kubelet starts: it registers a new Node, or makes a known one Ready.
    Kubelet,
    /// HA moves the machines of a failed host to another host, and boots those that were powered
    /// on.
    HaRestart,
    /// A vCenter that was started becomes ready; it answers 503 until then.
    ServiceStart,
    /// vCenter forgets a completed task.
    TaskForgotten,
    /// VM Operator adds its finalizer to a new VirtualMachine.
    VmAccepted,
    /// VM Operator has looked up the objects that the VirtualMachine names, such as class, image
    /// and zone.
    VmPrerequisites,
    /// VM Operator has cloned the machine.
    VmCreated,
    /// VM Operator writes the machine's UUIDs into the status.
    VmIdentified,
    /// VM Operator sets the machine to the power state of the object's `spec.powerState`.
    VmPower,
    /// VM Operator writes changes of the machine in vCenter into the status.
    VmStatus,
    /// VM Operator destroys the machine of a deleted object and removes its finalizer.
    VmDeleted,
    /// The scheduler and the controllers of the workload cluster act on a change.
    Workloads,
    /// A pod runs on its Node and is ready.
    PodStart,
    /// A pod whose containers need not run for ever has succeeded.
    PodComplete,
    /// A deleted pod has ended on its Node.
    PodStop,
}

/// Times at which steps end, counted from the event that started the step (for the steps of a boot,
/// from the power-on).
///
/// The defaults are those of a production server: VMware Tools answers 15 s after power-on, the
/// guest reports its addresses after 20 s and its host name after 22 s. A guest needs 10 s to shut
/// down. VM Operator clones a machine in 5 s and powers it on 2.5 s later. A pod starts and stops in
/// 1 s, and a pod of a Job succeeds after 10 s.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Timing {
    /// Factor of every [`Completion::After`], 1 by default; 0 makes them immediate.
    pub scale: f64,
    /// Times that replace the defaults, by step.
    pub steps: BTreeMap<Step, Completion>,
}

impl Default for Timing {
    fn default() -> Self {
        Self { scale: 1.0, steps: BTreeMap::new() }
    }
}

impl Timing {
    /// Timing in which every step ends at once. (vCenter then never forgets a task.)
    pub fn immediate() -> Self {
        Self { scale: 0.0, steps: BTreeMap::new() }
    }

    /// The time at which `step` ends, with its duration multiplied by [`Timing::scale`]. If the
    /// product is not a valid duration (negative, too large or not a number), the duration stays
    /// unscaled.
    pub fn of(&self, step: Step) -> Completion {
        let default = match step {
            Step::VmAccepted | Step::VmPrerequisites | Step::Workloads => 100,
            Step::VmIdentified | Step::VmStatus => 500,
            Step::Task | Step::PodStart | Step::PodStop => 1_000,
            Step::VmPower => 2_000,
            Step::VmCreated | Step::VmDeleted => 5_000,
            Step::GuestPower | Step::PodComplete => 10_000,
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
