//! Phases of the benchmark, with the same durations in the cluster and in virtual time.
//!
//! The provider's own flags shorten its periods. Each phase is a window in which calls are counted.
//! A window begins a quarter of a period after a pass of the provider over the nodes, so that the
//! number of passes in it does not depend on the speed of the computer.

use std::time::Duration;

use sim_world::Topology;

use crate::e2e::lab::simulator::ZONES;

/// A phase of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The provider starts and initializes all nodes of the fleet, which wait for it.
    Join,
    /// No machine and no node changes.
    Steady,
    /// 1 % of the machines change address at once.
    Change,
    /// vCenter stops and starts again after [`AWAY`]; a Supervisor ends its watches instead.
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

    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::Join => "the provider starts and initializes the N nodes that wait for it",
            Self::Steady => "nothing changes; three status periods",
            Self::Change => "1 % of the machines change address at once; two periods",
            Self::Restart => {
                "vCenter stops for 11 s, or a Supervisor ends its watches; two periods"
            }
            Self::Failover => "the leader is killed; one and a half periods and 20 s",
        }
    }
}

/// Time from the stop of vCenter to its next start. Our provider tries to build its view anew 7 to
/// 10.5 s after the stop, so vCenter is still away then, whatever pauses the provider draws.
pub(super) const AWAY: Duration = Duration::from_secs(11);
/// Time during which vCenter answers 503 after its start. vCenter serves again before the next
/// pass, three quarters of a period after the window begins.
pub(super) const SERVICE_START: Duration = Duration::from_secs(2);
/// Time from the beginning of a phase to its event.
pub(super) const FIRST: Duration = Duration::from_secs(1);
/// Number of real nodes in a cluster made by kind.
pub(super) const REAL: u32 = 3;

/// Fleet size and period of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Number of nodes in the fleet, without the real ones.
    pub(super) nodes: u32,
    /// Status period, the value of `--node-status-update-frequency`.
    pub(super) period: Duration,
}

/// Monitor period, the value of `--node-monitor-period`.
pub(super) const MONITOR: Duration = Duration::from_secs(5);
/// Value of `--kube-api-qps`; `--kube-api-burst` is twice as much.
pub(super) const QPS: u32 = 500;
/// Number of nodes that the provider initializes in parallel, the value of
/// `--concurrent-node-syncs`.
pub(super) const WORKERS: usize = 10;

impl Plan {
    /// Returns the default status period for a fleet of this size. Half of it is enough for all
    /// nodes to join.
    pub(super) const fn usual_period(nodes: u32) -> Duration {
        Duration::from_secs(if nodes <= 200 { 20 } else { 40 })
    }

    pub(super) fn length(&self, phase: Phase) -> Duration {
        match phase {
            Phase::Join => self.period / 2,
            Phase::Steady => self.period * 3,
            // The benchmark cannot see a pass without calls, so its time is unknown. Two periods
            // certainly contain one pass after the change.
            Phase::Change | Phase::Restart => self.period * 2,
            Phase::Failover => self.period * 3 / 2 + Duration::from_secs(20),
        }
    }

    /// Returns the flags for these values, which every provider on `k8s.io/cloud-provider` accepts.
    pub(super) fn flags(&self) -> Vec<String> {
        vec![
            format!("--node-status-update-frequency={}s", self.period.as_secs()),
            format!("--node-monitor-period={}s", MONITOR.as_secs()),
            format!("--kube-api-qps={QPS}"),
            format!("--kube-api-burst={}", QPS * 2),
            format!("--concurrent-node-syncs={WORKERS}"),
        ]
    }

    /// Returns a topology with the fleet's machines. They have the same names and UUIDs in all
    /// worlds that are built from it with the same seed.
    pub(super) fn topology(&self) -> Topology {
        Topology::zones(u32::try_from(ZONES).unwrap_or(1)).machines(self.nodes)
    }

    /// Returns the machines that change address in the phase `change`, 1 % but at least one, with
    /// their new addresses.
    pub(super) fn changes(&self) -> impl Iterator<Item = (String, std::net::IpAddr)> {
        let topology = self.topology();
        (1..=(self.nodes / 100).max(1)).map(move |n| {
            let address = std::net::Ipv4Addr::new(10, 99, 0, u8::try_from(n).unwrap_or(0));
            (topology.machine_name(0, n), address.into())
        })
    }
}
