//! Phases of the benchmark, with durations that both stages share.
//!
//! The provider's own flags shorten its periods. A window begins a quarter of a period after a pass over the nodes, so that it
//! holds a number of passes that does not depend on the speed of the machine.

use std::time::Duration;

use sim_world::Topology;

use crate::e2e::simulator::ZONES;

/// A phase of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The provider starts, and all nodes wait for it.
    Join,
    /// Nothing happens.
    Steady,
    /// 1 % of the machines change address at once.
    Change,
    /// vCenter ends and begins again after ten seconds; the API server of a Supervisor is replaced, which ends its watches.
    Restart,
    /// The leader is killed; another replica takes over.
    Failover,
}

impl Phase {
    /// Every phase, in the order in which they are played.
    pub(super) const ALL: [Self; 5] =
        [Self::Join, Self::Steady, Self::Change, Self::Restart, Self::Failover];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Steady => "steady",
            Self::Change => "change",
            Self::Restart => "restart",
            Self::Failover => "failover",
        }
    }

    pub(super) const fn what(self) -> &'static str {
        match self {
            Self::Join => "the provider starts, N nodes wait for it; until all are initialized",
            Self::Steady => "three status periods, nothing touched",
            Self::Change => "1 % of the machines change address at once; two periods",
            Self::Restart => {
                "vCenter ends and is back after 11 s, a Supervisor ends its watches; two periods"
            }
            Self::Failover => "the leader is killed; a period and a half, and 20 s",
        }
    }
}

/// Time from the end of vCenter to its next start. Our provider tries to build its view anew 7 to 10.5 s after the end, so vCenter is
/// still away then, whatever pauses the provider draws.
pub(super) const AWAY: Duration = Duration::from_secs(11);
/// Time during which vCenter answers 503 after its start. vCenter serves again before the next pass, three quarters of a period
/// after the window begins.
pub(super) const SERVICE_START: Duration = Duration::from_secs(2);
/// Delay from the begin of a phase to its event.
pub(super) const FIRST: Duration = Duration::from_secs(1);
/// Number of real nodes in a cluster made by kind.
pub(super) const REAL: u32 = 3;

/// Fleet size and period of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Number of nodes in the fleet, without the real ones.
    pub(super) nodes: u32,
    /// `--node-status-update-frequency`.
    pub(super) period: Duration,
}

/// `--node-monitor-period`.
pub(super) const MONITOR: Duration = Duration::from_secs(5);
/// Value of `--kube-api-qps`; `--kube-api-burst` is twice as much.
pub(super) const QPS: u32 = 500;
/// `--concurrent-node-syncs`.
pub(super) const WORKERS: usize = 10;

impl Plan {
    /// Returns the default period for a fleet of this size; half of it is enough to join.
    pub(super) const fn usual_period(nodes: u32) -> Duration {
        Duration::from_secs(if nodes <= 200 { 20 } else { 40 })
    }

    pub(super) fn length(&self, phase: Phase) -> Duration {
        match phase {
            Phase::Join => self.period / 2,
            Phase::Steady => self.period * 3,
            // A pass without calls is not visible, so its time is unknown; two periods hold one pass after the change for
            // certain.
            Phase::Change | Phase::Restart => self.period * 2,
            Phase::Failover => self.period * 3 / 2 + Duration::from_secs(20),
        }
    }

    /// Returns the flags for these values, as any provider of the framework takes them.
    pub(super) fn flags(&self) -> Vec<String> {
        vec![
            format!("--node-status-update-frequency={}s", self.period.as_secs()),
            format!("--node-monitor-period={}s", MONITOR.as_secs()),
            format!("--kube-api-qps={QPS}"),
            format!("--kube-api-burst={}", QPS * 2),
            format!("--concurrent-node-syncs={WORKERS}"),
        ]
    }

    /// Returns the fleet's machines: the same names and UUIDs in every world built from it.
    pub(super) fn topology(&self) -> Topology {
        Topology::zones(u32::try_from(ZONES).unwrap_or(1)).machines(self.nodes)
    }

    /// Returns the machines that change address in the phase `change`, with their new addresses.
    pub(super) fn changes(&self) -> impl Iterator<Item = (String, std::net::IpAddr)> {
        let topology = self.topology();
        (1..=(self.nodes / 100).max(1)).map(move |n| {
            let address = std::net::Ipv4Addr::new(10, 99, 0, u8::try_from(n).unwrap_or(0));
            (topology.machine_name(0, n), address.into())
        })
    }
}
