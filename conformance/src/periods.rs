//! How long things may take, from the provider's own periods.
//!
//! The bounds are those of the head of `catalogue.yaml`, for clouds that answer at once: F is the address
//! sync period, P the monitor period. Judges and horizons take them from here, so that a provider with
//! other periods is given other times.

use std::time::Duration;

use sim::faults::Action;
use sim::world::Command;

use crate::scenario::{Act, ProviderSetup, Scenario};

/// Silence after which the control plane calls a node NotReady.
pub const GRACE: Duration = Duration::from_secs(50);
/// The longest pause of a provider before it tries again what failed: a minute, stretched by half.
const PATIENCE: Duration = Duration::from_secs(90);
/// The same after a credential was refused, where trying sooner would lock the account (SESS-007).
const LOCKED: Duration = Duration::from_secs(300);
/// A second proof of absence, where many machines are gone at once, is at least this much younger.
const HOLD: Duration = Duration::from_secs(30);
/// A vCenter that was started answers 503 for so long.
const SERVICE_START: Duration = Duration::from_secs(60);
/// From power-on to a running kubelet.
const BOOT: Duration = Duration::from_secs(30);
/// Lease duration and retry period, as `LeaderElection` has them by default.
const LEASE: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_secs(2);

/// The periods of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    /// F.
    pub status: Duration,
    /// P.
    pub monitor: Duration,
    elects: bool,
}

impl Periods {
    /// Those of a set-up.
    pub fn of(setup: &ProviderSetup) -> Self {
        let elects = setup.elects();
        Self { status: setup.status_period, monitor: setup.monitor_period, elects }
    }

    /// `T_init`: one initialization.
    pub const fn init(self) -> Duration {
        Duration::from_secs(10)
    }

    /// `T_life`: a judgement about nodes that are not Ready, a hold not counted.
    pub fn life(self) -> Duration {
        2 * self.monitor + Duration::from_secs(5)
    }

    /// How long nodes are held and then let go, a tenth per monitor period, where all are gone at once.
    fn hold(self) -> Duration {
        2 * HOLD + 10 * self.monitor
    }

    /// Until somebody leads again: the lease runs out, and a standby looks twice.
    pub fn takeover(self) -> Duration {
        if self.elects { LEASE + RETRY * 22 / 10 + Duration::from_secs(5) } else { Duration::ZERO }
    }

    /// Nothing is written any more for so long before the end.
    pub const fn quiet() -> Duration {
        Duration::from_secs(30)
    }

    /// From the moment when every fault is healed until everything has to be right; what vCenter itself
    /// needs to start, and a provider to dare another login, not counted.
    pub fn settled(self) -> Duration {
        // A changed address may take two passes (NODE-ADDR-004).
        let addresses = 2 * self.status;
        let nodes = BOOT + GRACE + self.life() + self.hold();
        let joins = BOOT + self.init();
        PATIENCE + self.takeover() + addresses.max(nodes).max(joins) + Self::quiet()
    }
}

impl Scenario {
    /// Lasts until everything has to be right, counted from its last step.
    #[must_use]
    pub fn settling(mut self) -> Self {
        let last = self.timeline.last().map(|step| step.at).unwrap_or_default();
        self.horizon = last + Periods::of(&self.provider).settled();
        if self.timeline.iter().any(|step| starts_a_vcenter(&step.act)) {
            self.horizon += SERVICE_START;
        }
        if self.timeline.iter().any(|step| refuses_credentials(&step.act)) {
            self.horizon += LOCKED;
        }
        self
    }
}

impl Scenario {
    /// Whether it lasts until everything has to be right: nothing happens in the time that [`Self::settling`] gives, no
    /// rule is left in force, and a provider runs.
    pub fn is_settled(&self) -> bool {
        let settles = self.clone().settling().horizon <= self.horizon;
        let mut in_force = false;
        let mut runs = self.provider.start && self.provider.replicas > 0;
        for step in &self.timeline {
            match &step.act {
                Act::Fault(_) => in_force = true,
                Act::Heal => in_force = false,
                Act::Start(_) | Act::StartAll | Act::ResumeAll => runs = true,
                Act::Stop(_)
                | Act::Crash(_)
                | Act::StopLeader
                | Act::CrashLeader
                | Act::SuspendLeader => runs = false,
                Act::World(_)
                | Act::Phase(_)
                | Act::Scrape
                | Act::Token { .. }
                | Act::Secret { .. }
                | Act::Initialize { .. }
                | Act::CopyAnnotation { .. }
                | Act::Vcenters(_)
                | Act::Datacenters(_)
                | Act::StepClocks(_) => {}
            }
        }
        settles && !in_force && runs && !self.provider.skip_deletion
    }
}

fn starts_a_vcenter(act: &Act) -> bool {
    matches!(act, Act::World(Command::StartVCenter { .. }))
}

fn refuses_credentials(act: &Act) -> bool {
    match act {
        Act::World(Command::RotatePassword { .. }) | Act::Secret { .. } => true,
        Act::Fault(rule) => rule.actions.iter().any(|action| match action {
            Action::SoapFault { class, .. } => class == "InvalidLogin",
            Action::Status { code, .. } => matches!(code, 401 | 403),
            _ => false,
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_periods_give_longer_horizons() {
        let setup = ProviderSetup::default();
        let usual = Periods::of(&setup);
        assert_eq!(usual.life(), Duration::from_secs(15));
        assert_eq!(usual.settled(), Duration::from_secs(90 + 600 + 30));
        let slow = Periods::of(&ProviderSetup { status_period: 2 * usual.status, ..setup.clone() });
        assert_eq!(slow.settled() - usual.settled(), 2 * usual.status);
        let two = Periods::of(&ProviderSetup { replicas: 2, ..setup });
        assert_eq!(two.settled() - usual.settled(), Duration::from_millis(24_400));
    }
}
