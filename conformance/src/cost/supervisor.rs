//! Phases of a provider's life with a Supervisor. All of them belong to one run, so that a join of
//! 5,000 nodes is played once.
//!
//! Upstream's figures come from the calls of its entry points
//! (`pkg/cloudprovider/vsphereparavirtual`): a GET and two LISTs to initialize a node, a LIST per
//! node and address sync period, two LISTs per NotReady node and monitor tick. Upstream's LISTs are
//! unpaged; ours have pages of 500, and each page counts as a call.

use std::time::Duration;

use sim::world::{Command, ControlPlane};

use super::phases::{NOT_READY, PERIOD, Phase, TICK, changes, machine, not_ready_from, s, world};
use crate::scenario::{Act, Scenario};

/// Number of objects in a page of a list.
const PAGE: u32 = 500;

/// Returns the number of pages of a list of `n` objects.
fn pages(n: u32) -> u64 {
    u64::from(n.div_ceil(PAGE))
}

/// Requests per second to the cluster, enough for 5,000 nodes to join before the next periodic list
/// of machines.
const QPS: u32 = 500;

/// Returns the time at which a fleet of `n` nodes is certainly initialized: 120 s plus the time for
/// three writes per node at [`QPS`].
fn settled(n: u32) -> Duration {
    s(120 + u64::from(n) * 3 / u64::from(QPS))
}

/// Time at which the fleet is initialized and an address sync has ended, also with `v1` at five
/// requests per second.
const BEGIN: Duration = s(PERIOD + 60);

/// Returns the scenario with all phases in turn. The window of each phase begins and ends between
/// two monitor ticks, and contains no address sync unless a comment says so.
fn life(n: u32) -> Scenario {
    let begin = BEGIN;
    let phase = |name: &str| Act::Phase(name.to_owned());
    let scenario = world(n, begin + s(PERIOD * 3 + 100))
        .with_provider(|it| it.kube_qps = QPS)
        .at(s(0), phase("join"))
        .at(settled(n), phase(""))
        // This window contains one address sync.
        .at(begin, phase("steady"))
        .at(begin + s(PERIOD), phase(""));
    let not_ready = begin + s(PERIOD);
    let deleted = begin + s(PERIOD * 2);
    let changed = begin + s(PERIOD * 3);
    let scenario = not_ready_from(scenario, not_ready)
        .at(deleted, phase("delete"))
        .at(deleted, Command::DeleteMachine(machine(7)))
        .at(deleted + s(90), phase(""))
        .at(changed, phase("change"))
        .at(changed + s(30), phase("watch-lost"))
        .at(changed + s(31), Command::EndWatches { plane: ControlPlane::Supervisor })
        .at(changed + s(90), phase(""));
    changes(scenario, n, changed + s(1))
}

/// Maximum numbers of calls by phase, for one instances mode.
struct CallLimits {
    join: fn(u32) -> u64,
    steady: fn(u32) -> u64,
    not_ready: fn(u32) -> u64,
    delete: fn(u32) -> u64,
    /// The window of this phase contains the next periodic list of a provider without a watch.
    watch_lost: fn(u32) -> u64,
    watches: u64,
}

const fn phases(allowed: &CallLimits) -> [Phase; 6] {
    [
        Phase {
            name: "join",
            what: "N nodes register at once, until all are initialized; 500 requests a second to the cluster",
            scenario: life,
            formula: "N GET + 2·N LIST",
            upstream: Some(|n| 3 * n as u64),
            allowed: allowed.join,
            allowed_polls: allowed.watches,
        },
        Phase {
            name: "steady",
            what: "one address sync period of 5 min, nothing changed",
            scenario: life,
            formula: "N LIST",
            upstream: Some(|n| n as u64),
            allowed: allowed.steady,
            allowed_polls: allowed.watches,
        },
        Phase {
            name: "not-ready",
            what: "12 monitor ticks of 5 s with 5 nodes NotReady whose machines run",
            scenario: life,
            formula: "2·K LIST per tick, K = 5",
            upstream: Some(|_| 12 * 2 * NOT_READY as u64),
            allowed: allowed.not_ready,
            allowed_polls: allowed.watches,
        },
        Phase {
            name: "delete",
            what: "one machine is deleted, until its node is deleted, and half a minute longer",
            scenario: life,
            formula: "1 LIST per tick until deleted, 1 tick",
            upstream: Some(|_| 1),
            allowed: allowed.delete,
            allowed_polls: allowed.watches,
        },
        Phase {
            name: "change",
            what: "1 % of the machines change address at once",
            scenario: life,
            formula: "seen at the next sync",
            upstream: None,
            allowed: |_| 0,
            allowed_polls: allowed.watches,
        },
        Phase {
            name: "watch-lost",
            what: "every watch ends at once, and a minute longer",
            scenario: life,
            formula: "upstream has no watch",
            upstream: None,
            allowed: allowed.watch_lost,
            allowed_polls: allowed.watches,
        },
    ]
}

/// Phases with the bounds for watching: one list, then one watch.
pub(super) static WATCHING: [Phase; 6] = phases(&CallLimits {
    join: pages,
    steady: |_| 0,
    not_ready: |_| 0,
    // One read of the object by its name, and one full list.
    delete: |n| pages(n) + 1,
    watch_lost: |_| 0,
    watches: 1,
});

/// Phases with the bounds for polling: a list at most every 5 s while a controller needs machines,
/// else every 5 min.
pub(super) static POLLING: [Phase; 6] = phases(&CallLimits {
    join: |n| pages(n) * (settled(n).as_secs() / TICK),
    steady: pages,
    not_ready: |n| pages(n) * 12,
    delete: |n| pages(n) * 18 + 1,
    watch_lost: pages,
    watches: 0,
});

/// Phases with the bounds for `v1`: upstream's formulas, and zero for phases that have none.
pub(super) static V1: [Phase; 6] = phases(&CallLimits {
    join: |n| 3 * n as u64,
    steady: |n| n as u64,
    not_ready: |_| 12 * 2 * NOT_READY as u64,
    delete: |_| 1,
    watch_lost: |_| 0,
    watches: 0,
});
