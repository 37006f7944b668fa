//! Phases of a provider's life with vCenter. All but the takeover belong to one run, so that the
//! join of a fleet is played once. The window of each phase begins and ends between two periodic
//! acts of the provider, so the counts are exact.

use std::collections::BTreeMap;
use std::time::Duration;

use sim::world::{Command, Topology};

use super::{Fit, Row};
use crate::scenario::{Act, Initializer, Scenario};

/// A phase of a provider's life whose calls are counted, such as the join of nodes, with the bounds
/// on these calls.
pub struct Phase {
    /// Name of the phase, as calls in the ledger have it.
    pub name: &'static str,
    /// Description of the phase, for people.
    pub what: &'static str,
    /// Scenario for a fleet of `n` nodes. Adjacent phases with the same scenario share one run.
    pub scenario: fn(u32) -> Scenario,
    /// Number of upstream's calls as a formula, with one vCenter, one datacenter and zones, or with
    /// one Supervisor.
    pub formula: &'static str,
    /// Number of upstream's calls for a fleet of `n` nodes; `None` if it is unknown.
    pub upstream: Option<fn(u32) -> u64>,
    /// Maximum number of calls of our provider for a fleet of `n` nodes, without long polls and
    /// watches.
    pub allowed: fn(u32) -> u64,
    /// Maximum number of long polls and watches of our provider, for every fleet size:
    ///
    /// - if the provider keeps a view of a vCenter, one long poll per 30 s of the phase, and one
    ///   more for each answer that ends a long poll before its maximum time. For `join` and
    ///   `takeover`, the length of the phase is that with the largest fleet;
    /// - if the provider watches a Supervisor, one watch;
    /// - otherwise zero.
    pub allowed_polls: u64,
}

impl Phase {
    pub(super) fn empty_row(&self) -> Row {
        Row {
            phase: self.name,
            what: self.what,
            calls: BTreeMap::new(),
            polls: BTreeMap::new(),
            operations: BTreeMap::new(),
            writes: BTreeMap::new(),
            fit: Fit { a: 0.0, b: 0.0, r2: 0.0 },
            upstream: (self.formula, BTreeMap::new()),
            allowed: BTreeMap::new(),
            allowed_polls: self.allowed_polls,
        }
    }
}

pub(super) const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns the time at which a fleet of `n` nodes is certainly initialized: 120 s plus the time for
/// three writes per node at 20 requests a second.
pub(super) fn settled(n: u32) -> Duration {
    s(120 + u64::from(n) * 3 / 20)
}

/// Address sync period, in seconds.
pub(super) const PERIOD: u64 = 300;

/// Interval of the checks of nodes that are not Ready, in seconds.
pub(super) const TICK: u64 = 5;
/// Time without a heartbeat after which a node is NotReady, in seconds.
const GRACE: u64 = 50;

/// Returns the begin of the `k`-th phase after the join, for every fleet size: after the fleet is
/// initialized and shortly after an address sync, so that windows shorter than a period contain no
/// sync.
const fn begin(k: u64) -> Duration {
    s(PERIOD * k + 10)
}

pub(super) fn world(n: u32, horizon: Duration) -> Scenario {
    let mut scenario = Scenario::new("", Topology::zones(3).machines(n), horizon);
    // Kubelets send no heartbeats, so that all writes to the cluster are the provider's.
    scenario = scenario.at(s(0), Command::SetHeartbeats { every: None });
    scenario
}

/// Returns the name of the `k`-th machine.
pub(super) fn machine(k: u32) -> sim::world::Named {
    format!("node-{k:04}").as_str().into()
}

/// Number of machines in a page of a read by our provider.
const PAGE: u32 = 1000;

/// Returns the number of pages of a read of `n` machines.
fn pages(n: u32) -> u64 {
    u64::from(n.div_ceil(PAGE))
}

/// Gives other addresses to 1 % of the `n` machines, but at least to one, at the time `at`.
pub(super) fn changes(mut scenario: Scenario, n: u32, at: Duration) -> Scenario {
    for k in 1..=(n / 100).max(1) {
        let address = std::net::Ipv4Addr::new(10, 99, 0, u8::try_from(k).unwrap_or(0));
        let addresses = vec![vec![address.into()]];
        scenario = scenario.at(at, Command::SetAddresses { machine: machine(k), addresses });
    }
    scenario
}

/// Number of nodes that are NotReady in the phase `not-ready`.
pub(super) const NOT_READY: u32 = 5;

/// Stops the kubelets of five nodes at the time `at`, for 150 s, and adds the phase `not-ready` when
/// the nodes are NotReady.
pub(super) fn not_ready_from(mut scenario: Scenario, at: Duration) -> Scenario {
    for k in 1..=NOT_READY {
        scenario = scenario
            .at(at, Command::StopKubelet(machine(k)))
            .at(at + s(150), Command::StartKubelet(machine(k)));
    }
    let begin = at + s(GRACE + 30);
    scenario
        .at(begin, Act::Phase("not-ready".into()))
        .at(begin + s(12 * TICK), Act::Phase(String::new()))
}

/// Maximum numbers of calls by phase, for one instances mode.
struct CallLimits {
    join: fn(u32) -> u64,
    steady: fn(u32) -> u64,
    not_ready: fn(u32) -> u64,
    delete: fn(u32) -> u64,
    change: fn(u32) -> u64,
    session_lost: fn(u32) -> u64,
    takeover: fn(u32) -> u64,
    /// Maximum numbers of long polls, in the order of the phases.
    polls: [u64; 7],
}

const fn phases(allowed: &CallLimits) -> [Phase; 7] {
    [
        join(allowed),
        steady(allowed),
        not_ready(allowed),
        delete(allowed),
        change(allowed),
        session_lost(allowed),
        takeover(allowed),
    ]
}

/// Returns the scenario with all phases but `takeover`, in turn.
fn life(n: u32) -> Scenario {
    let phase = |name: &str| Act::Phase(name.to_owned());
    let (steady, session_lost, change) = (begin(1), begin(2), begin(3));
    let (not_ready, delete) = (begin(4), begin(5));
    let mut scenario = world(n, delete + s(90))
        .at(s(0), phase("join"))
        .at(settled(n), phase(""))
        // This window contains one address sync.
        .at(steady, phase("steady"))
        .at(session_lost, phase("session-lost"))
        .at(session_lost + s(1), Command::ExpireSessions { vcenter: None, family: None })
        .at(session_lost + s(60), phase(""))
        .at(change, phase("change"))
        .at(change + s(29), phase(""));
    scenario = changes(scenario, n, change + s(1));
    not_ready_from(scenario, not_ready)
        .at(delete, phase("delete"))
        .at(delete, Command::DeleteMachine(machine(7)))
}

const fn join(allowed: &CallLimits) -> Phase {
    Phase {
        name: "join",
        what: "N nodes register at once, until all are initialized and a minute longer",
        scenario: life,
        formula: "1 + 16·N SOAP + 10·N REST",
        upstream: Some(|n| 1 + 26 * n as u64),
        allowed: allowed.join,
        allowed_polls: allowed.polls[0],
    }
}

const fn steady(allowed: &CallLimits) -> Phase {
    Phase {
        name: "steady",
        what: "one address sync period of 5 min, nothing changed",
        scenario: life,
        formula: "10·N SOAP + 10·N REST",
        upstream: Some(|n| 20 * n as u64),
        allowed: allowed.steady,
        allowed_polls: allowed.polls[1],
    }
}

const fn not_ready(allowed: &CallLimits) -> Phase {
    Phase {
        name: "not-ready",
        what: "12 monitor ticks of 5 s with 5 nodes NotReady whose machines run",
        scenario: life,
        formula: "7·K per tick, K = 5",
        upstream: Some(|_| 12 * 7 * NOT_READY as u64),
        allowed: allowed.not_ready,
        allowed_polls: allowed.polls[2],
    }
}

const fn delete(allowed: &CallLimits) -> Phase {
    Phase {
        name: "delete",
        what: "one machine is deleted, until its node is deleted, and half a minute longer",
        scenario: life,
        formula: "9 per tick until deleted, 1 tick",
        upstream: Some(|_| 9),
        allowed: allowed.delete,
        allowed_polls: allowed.polls[3],
    }
}

const fn change(allowed: &CallLimits) -> Phase {
    Phase {
        name: "change",
        what: "1 % of the machines change address at once",
        scenario: life,
        formula: "seen at the next sync",
        upstream: None,
        allowed: allowed.change,
        allowed_polls: allowed.polls[4],
    }
}

const fn session_lost(allowed: &CallLimits) -> Phase {
    Phase {
        name: "session-lost",
        what: "every session ends at once, until the view is back and a minute longer",
        scenario: life,
        formula: "not known",
        upstream: None,
        allowed: allowed.session_lost,
        allowed_polls: allowed.polls[5],
    }
}

const fn takeover(allowed: &CallLimits) -> Phase {
    Phase {
        name: "takeover",
        what: "a provider starts with N nodes that upstream's provider has initialized, until it has matched all machines, and a minute longer",
        scenario: |n| {
            let begin = s(10);
            world(n, begin + settled(n))
                .with_provider(|it| it.start = false)
                .at(s(5), Act::Initialize { node: None, by: Initializer::Upstream })
                .at(begin, Act::Phase("takeover".into()))
                .at(begin, Act::StartAll)
        },
        formula: "not known",
        upstream: None,
        allowed: allowed.takeover,
        allowed_polls: allowed.polls[6],
    }
}

/// Phases with the bounds for watching: one list view, one filter, and a wait for changes.
pub(super) static WATCHING: [Phase; 7] = phases(&CallLimits {
    join: |n| 20 + n as u64 / 50,
    steady: |_| 0,
    not_ready: |_| 0,
    delete: |_| 4,
    change: |_| 1,
    session_lost: |n| 10 + n as u64 / 50,
    takeover: |n| 20 + n as u64 / 50,
    polls: [9 + 1, 10, 2, 3 + 1, 1 + 1, 2 + 2, 9 + 1],
});

/// Phases with the bounds for polling: a read of the machines of all nodes, at most every 5 s while
/// a controller needs machines, else every 5 min.
pub(super) static POLLING: [Phase; 7] = phases(&CallLimits {
    // Nodes join one after the other, and the facts for each must be only seconds old.
    join: |n| 20 + pages(n) * settled(n).as_secs() / 5,
    steady: pages,
    not_ready: |n| pages(n) * 12,
    // One read that misses the machine, one for the proof, and one if the next periodic read is
    // due.
    delete: |n| 2 * pages(n) + 3,
    // One read if the next periodic read is due.
    change: pages,
    session_lost: |n| pages(n) + 3,
    takeover: |n| 20 + pages(n) * settled(n).as_secs() / 5,
    polls: [0; 7],
});

/// Phases with the bounds for `v1`: upstream's formulas. Of the phases without a formula,
/// `takeover` has the bound of `join`, and the others have zero.
pub(super) static V1: [Phase; 7] = phases(&CallLimits {
    join: |n| 1 + 26 * n as u64,
    steady: |n| 20 * n as u64,
    not_ready: |_| 12 * 7 * NOT_READY as u64,
    delete: |_| 9,
    change: |_| 0,
    session_lost: |_| 0,
    takeover: |n| 1 + 26 * n as u64,
    polls: [0; 7],
});
