//! Computes time limits from the provider's own periods.
//!
//! The limits are those at the top of `catalogue.yaml`, for clouds that answer at once: F is the
//! address sync period, P the monitor period. Judges and scenarios use these functions, so a
//! provider with other periods gets other limits.

use std::time::Duration;

use sim::faults::Action;
use sim::world::Command;

use crate::scenario::{Act, ProviderSetup, Scenario};

/// Time without a heartbeat after which the control plane marks a node NotReady.
pub const GRACE: Duration = Duration::from_secs(50);
/// Longest pause of a provider before it retries after a failure: one minute plus half of it.
const PATIENCE: Duration = Duration::from_secs(90);
/// Longest pause of a provider before another login after vCenter refused the credentials. An
/// earlier retry would lock the account (SESS-007).
const LOCKED: Duration = Duration::from_secs(300);
/// Minimum time between two proofs of absence when many machines are gone at once.
const HOLD: Duration = Duration::from_secs(30);
/// Time for which a starting vCenter answers 503.
const SERVICE_START: Duration = Duration::from_secs(60);
/// Time from power-on of a machine until its kubelet runs.
const BOOT: Duration = Duration::from_secs(30);
/// Default lease duration of leader election.
const LEASE: Duration = Duration::from_secs(15);
/// Default retry period of leader election.
const RETRY: Duration = Duration::from_secs(2);

/// The periods of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    /// Address sync period, F.
    pub status: Duration,
    /// Monitor period, P.
    pub monitor: Duration,
    elects: bool,
}

impl Periods {
    /// Returns the periods of a provider with this set-up.
    pub fn from_setup(setup: &ProviderSetup) -> Self {
        let elects = setup.elects();
        Self { status: setup.status_period, monitor: setup.monitor_period, elects }
    }

    /// Returns `T_init`, the limit for one initialization: 10 s.
    pub const fn init(self) -> Duration {
        Duration::from_secs(10)
    }

    /// Returns `T_life`, the limit for a decision about nodes that are not Ready, without the hold:
    /// 2 P + 5 s.
    pub fn life(self) -> Duration {
        2 * self.monitor + Duration::from_secs(5)
    }

    /// Returns the limit for the deletion of nodes that the hold delays because their machines are
    /// all gone at once. After the hold, the provider deletes a tenth of them per monitor period.
    fn hold(self) -> Duration {
        2 * HOLD + 10 * self.monitor
    }

    /// Returns the limit from the loss of a leader until another replica leads: the duration of the
    /// lease, the longest pause of a standby between two reads of it (2.2 retry periods), and 5 s.
    /// Zero without leader election.
    pub fn takeover(self) -> Duration {
        if self.elects { LEASE + RETRY * 22 / 10 + Duration::from_secs(5) } else { Duration::ZERO }
    }

    /// Returns the length of the time before the end in which the provider must not write: 30 s.
    pub const fn quiet() -> Duration {
        Duration::from_secs(30)
    }

    /// Returns the limit from the last change or the end of the last fault until everything must be
    /// right. The limit includes [`Self::quiet`]. It excludes the start of vCenter and the pause
    /// before another login after refused credentials.
    pub fn settled(self) -> Duration {
        // A changed address may take two sync periods (NODE-ADDR-004).
        let addresses = 2 * self.status;
        let nodes = BOOT + GRACE + self.life() + self.hold();
        let joins = BOOT + self.init();
        PATIENCE + self.takeover() + addresses.max(nodes).max(joins) + Self::quiet()
    }
}

impl Scenario {
    /// Sets the horizon to the time at which everything must be right: the last step plus the limit
    /// of [`Periods::settled`], and more if a step starts a vCenter or can make a server refuse
    /// credentials.
    #[must_use]
    pub fn settling(mut self) -> Self {
        let last = self.timeline.last().map(|step| step.at).unwrap_or_default();
        self.horizon = last + Periods::from_setup(&self.provider).settled();
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
    /// True if everything must be right at the end of the scenario: it lasts at least as long as
    /// [`Self::settling`] would make it, [`Act::RemoveRules`] follows the last fault rule, the
    /// provider may delete Nodes, and the provider runs at the end. If the scenario stops, kills or
    /// suspends a replica, the provider counts as running only after a later start or resumption.
    pub fn is_settled(&self) -> bool {
        let settles = self.clone().settling().horizon <= self.horizon;
        let mut in_force = false;
        let mut runs = self.provider.start && self.provider.replicas > 0;
        for step in &self.timeline {
            match &step.act {
                Act::Fault(_) => in_force = true,
                Act::RemoveRules => in_force = false,
                Act::Start(_) | Act::StartAll | Act::ResumeAll => runs = true,
                Act::Stop(_)
                | Act::Crash(_)
                | Act::StopLeader
                | Act::CrashLeader
                | Act::SuspendLeader => runs = false,
                Act::World(_)
                | Act::Phase(_)
                | Act::Scrape
                | Act::GetEndpoint { .. }
                | Act::RenewCertificate
                | Act::SpoilCertificate
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

/// Formats a duration in Go's syntax, like `5m0s` or `300ms`. Leaves out parts below a millisecond;
/// the shortest result is `1ms`.
pub(crate) fn go_duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    if seconds == 0 {
        return format!("{}ms", millis.max(1));
    }
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let fraction = format!(".{millis:03}");
    let mut text = match (hours, minutes) {
        (0, 0) => String::new(),
        (0, _) => format!("{minutes}m"),
        _ => format!("{hours}h{minutes}m"),
    };
    text.push_str(&format!("{}{}s", seconds % 60, if millis == 0 { "" } else { &fraction }));
    text
}

fn starts_a_vcenter(act: &Act) -> bool {
    matches!(act, Act::World(Command::StartVCenter { .. }))
}

fn refuses_credentials(act: &Act) -> bool {
    match act {
        Act::World(Command::RotatePassword { .. }) | Act::Secret { .. } => true,
        Act::Fault(rule) => rule.actions.iter().any(|action| match action {
            Action::SoapFault(fault) => fault.class == "InvalidLogin",
            Action::Status(status) => matches!(status.code, 401 | 403),
            _ => false,
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_formatted_in_the_syntax_of_go() {
        for (millis, wanted) in [
            (300_000, "5m0s"),
            (5_000, "5s"),
            (5_400_000, "1h30m0s"),
            (300, "300ms"),
            (1_500, "1.500s"),
            (0, "1ms"),
        ] {
            assert_eq!(go_duration(Duration::from_millis(millis)), wanted);
        }
    }

    #[test]
    fn longer_periods_give_longer_horizons() {
        let setup = ProviderSetup::default();
        let usual = Periods::from_setup(&setup);
        assert_eq!(usual.life(), Duration::from_secs(15));
        assert_eq!(usual.settled(), Duration::from_secs(90 + 600 + 30));
        let slow = Periods::from_setup(&ProviderSetup {
            status_period: 2 * usual.status,
            ..setup.clone()
        });
        assert_eq!(slow.settled() - usual.settled(), 2 * usual.status);
        let two = Periods::from_setup(&ProviderSetup { replicas: 2, ..setup });
        assert_eq!(two.settled() - usual.settled(), Duration::from_millis(24_400));
    }
}
