//! Builds the scenario in which `conformance cost` counts calls, which is the same for every
//! provider. Each of its phases shows the calls of one trigger.
//!
//! The window of a phase lies between two address syncs, unless it measures one. Periods are
//! upstream's defaults.

use sim::world::Command;

use crate::cost::phases::{self, machine, s, world};
use crate::scenario::{Act, Backend, Scenario};

/// Number of nodes that are NotReady in the phase `not-ready`.
pub const NOT_READY: u32 = phases::NOT_READY;

/// Default fleet sizes, in nodes.
pub const SIZES: [u32; 2] = [10, 30];

/// Address sync period, in seconds.
pub(super) const PERIOD: u32 = 300;
/// Duration of the phase `not-ready`, in seconds.
pub(super) const WINDOW: u32 = 60;
/// Time without a heartbeat after which a node is certainly NotReady, in seconds.
const SILENT: u64 = 80;

/// Returns the scenario for `n` nodes, with these phases in turn: join, steady, not-ready, delete,
/// change, reconnect, restart.
pub fn life(n: u32, backend: Backend) -> Scenario {
    let phase = |name: &str| Act::Phase(name.to_owned());
    let (period, window) = (s(PERIOD.into()), s(WINDOW.into()));
    // Begins a minute after an address sync of all nodes.
    let begin = period + s(60);
    let not_ready = begin + period;
    let counted = not_ready + s(SILENT);
    let delete = begin + 2 * period;
    let change = delete + s(100);
    let cut = change + period;
    let restart = cut + s(60);
    let mut scenario = world(n, restart + s(60))
        .at(s(0), phase("join"))
        // The phase `join` lasts until shortly before the first address sync, because providers may
        // be slow.
        .at(period - s(10), phase(""))
        .at(begin, phase("steady"))
        .at(not_ready, phase(""))
        .at(counted, phase("not-ready"))
        .at(counted + window, phase(""))
        .at(delete, phase("delete"))
        .at(delete, Command::DeleteMachine(machine(n)))
        .at(change, phase("change"))
        .at(cut, phase("reconnect"))
        .at(cut + s(1), backend.disconnect())
        .at(restart, phase("restart"))
        .at(restart + s(1), Act::Crash(0))
        .at(restart + s(2), Act::Start(0));
    for k in 1..=NOT_READY.min(n) {
        scenario = scenario
            .at(not_ready, Command::StopKubelet(machine(k)))
            .at(counted + window, Command::StartKubelet(machine(k)));
    }
    // One machine in ten, but at least one, gets another address. The deleted machine is not among
    // them.
    for k in 1..=(n / 10).max(1).min(n - 1) {
        let address = std::net::Ipv4Addr::new(10, 99, 0, u8::try_from(k).unwrap_or(0));
        let addresses = vec![vec![address.into()]];
        scenario =
            scenario.at(change + s(1), Command::SetAddresses { machine: machine(k), addresses });
    }
    scenario
}
