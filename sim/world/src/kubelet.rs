//! What a kubelet with `--cloud-provider=external` does, and what the node lifecycle controller
//! makes of its silence.
//!
//! Pure: functions of the objects and the time answer the commands that they would send. [`Kubelet`]
//! says when; the world's timers ask it.

mod lifecycle;
mod registration;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use lifecycle::{collect_lease, mark_silent, settle_taints};
pub use registration::{Machine, Taint, become_ready, heartbeat, register, renew_lease};

use crate::Time;
use crate::objects::{Command, Key, Store};

/// How often a kubelet renews its lease.
pub const LEASE_PERIOD: Duration = Duration::from_secs(10);

/// How often a kubelet reports its status when nothing changes.
pub const STATUS_PERIOD: Duration = Duration::from_secs(300);

/// How long the node lifecycle controller waits for a sign of life.
pub const GRACE_PERIOD: Duration = Duration::from_secs(40);

/// Whether a kubelet sends signs of life while nothing changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Heartbeats {
    /// As a real one.
    #[default]
    On,
    /// Not at all, and nobody holds its silence against it. For long runs.
    Off,
}

/// One kubelet: running or not, and when it acts next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kubelet {
    /// The machine it runs on.
    pub machine: Machine,
    heartbeats: Heartbeats,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum State {
    /// Alive.
    Running { lease_due: Time, status_due: Time },
    /// Silent; the controller will notice then.
    Silent { noticed_at: Time },
    /// Silent or never started, and nothing will happen by itself.
    Stopped,
}

impl Kubelet {
    /// A kubelet that has not started yet.
    pub fn new(machine: Machine, heartbeats: Heartbeats) -> Self {
        Self { machine, heartbeats, state: State::Stopped }
    }

    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// When something happens next, unless somebody starts or stops it.
    pub fn next_timer(&self) -> Option<Time> {
        match self.state {
            State::Running { .. } if self.heartbeats == Heartbeats::Off => None,
            State::Running { lease_due, status_due } => Some(lease_due.min(status_due)),
            State::Silent { noticed_at } => Some(noticed_at),
            State::Stopped => None,
        }
    }

    /// The machine boots: the node is registered, or becomes ready again.
    ///
    /// The commands are to be carried out in their order.
    pub fn start(&mut self, store: &Store, at: Time, now: Timestamp) -> Vec<Command> {
        let name = &self.machine.name;
        let status_due = at + STATUS_PERIOD;
        if store.get(&Key::node(name)).is_none() {
            // The lease names the node as its owner, so it follows as soon as there is one.
            self.state = State::Running { lease_due: at, status_due };
            return vec![register(&self.machine, now)];
        }
        self.state = State::Running { lease_due: at + LEASE_PERIOD, status_due };
        let mut commands = Vec::new();
        commands.extend(become_ready(store, &self.machine, now));
        commands.extend(settle_taints(store, name, Some("True"), now));
        if self.heartbeats == Heartbeats::On {
            commands.push(renew_lease(store, name, now));
        }
        commands
    }

    /// The machine goes silent: powered off, cut off, or broken.
    pub fn stop(&mut self, at: Time) {
        if self.is_running() {
            self.state = State::Silent { noticed_at: at + GRACE_PERIOD };
        }
    }

    /// What happens at `at`, if anything is due.
    ///
    /// A kubelet whose node has been deleted sends nothing until it starts again, as the real one.
    pub fn due(&mut self, store: &Store, at: Time, now: Timestamp) -> Vec<Command> {
        let name = self.machine.name.clone();
        let is_gone = store.get(&Key::node(&name)).is_none();
        match &mut self.state {
            State::Running { .. } if self.heartbeats == Heartbeats::Off => Vec::new(),
            State::Running { lease_due, status_due } => {
                let mut commands = Vec::new();
                if at >= *lease_due {
                    *lease_due = at + LEASE_PERIOD;
                    commands.push(renew_lease(store, &name, now));
                }
                if at >= *status_due {
                    *status_due = at + STATUS_PERIOD;
                    commands.extend(heartbeat(store, &name, now));
                }
                if is_gone { collect_lease(store, &name).into_iter().collect() } else { commands }
            }
            State::Silent { noticed_at } if at >= *noticed_at => {
                self.state = State::Stopped;
                let mut commands: Vec<Command> =
                    mark_silent(store, &name, now).into_iter().collect();
                commands.extend(settle_taints(store, &name, Some("Unknown"), now));
                commands.extend(if is_gone { collect_lease(store, &name) } else { None });
                commands
            }
            State::Silent { .. } | State::Stopped => Vec::new(),
        }
    }
}

/// Labels in the order of their keys.
pub type Labels = BTreeMap<String, String>;
