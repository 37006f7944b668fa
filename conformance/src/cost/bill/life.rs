//! A provider's life in which each phase shows what one thing costs, the same for everybody who is counted.
//!
//! Windows lie between two address passes but where they hold one; periods are the default ones of upstream.

use sim::world::Command;

use crate::backend::Backend;
use crate::cost::phases::{self, machine, s, world};
use crate::scenario::{Act, Scenario};

/// So many nodes are NotReady in the phase that counts those.
pub const NOT_READY: u32 = phases::NOT_READY;

/// The fleets that are played unless somebody says otherwise.
pub const SIZES: [u32; 2] = [10, 30];

/// Seconds between two address passes.
pub(super) const PERIOD: u32 = 300;
/// Seconds that nodes which are NotReady are counted.
pub(super) const WINDOW: u32 = 60;
/// Silence after which a node is NotReady, and some more.
const SILENT: u64 = 80;

/// Every phase in turn: join, steady, not-ready, delete, change, reconnect, restart.
pub fn life(n: u32, backend: Backend) -> Scenario {
    let phase = |name: &str| Act::Phase(name.to_owned());
    let (period, window) = (s(PERIOD.into()), s(WINDOW.into()));
    // A while after a pass of all nodes.
    let begin = period + s(60);
    let not_ready = begin + period;
    let counted = not_ready + s(SILENT);
    let delete = begin + 2 * period;
    let change = delete + s(100);
    let cut = change + period;
    let restart = cut + s(60);
    let mut scenario = world(n, restart + s(60))
        .at(s(0), phase("join"))
        // Until the first pass: providers may be slow.
        .at(period - s(10), phase(""))
        .at(begin, phase("steady"))
        .at(not_ready, phase(""))
        .at(counted, phase("not-ready"))
        .at(counted + window, phase(""))
        .at(delete, phase("delete"))
        .at(delete, Command::DeleteMachine(machine(n)))
        .at(change, phase("change"))
        .at(cut, phase("reconnect"))
        .at(cut + s(1), backend.cut())
        .at(restart, phase("restart"))
        .at(restart + s(1), Act::Crash(0))
        .at(restart + s(2), Act::Start(0));
    for k in 1..=NOT_READY.min(n) {
        scenario = scenario
            .at(not_ready, Command::StopKubelet(machine(k)))
            .at(counted + window, Command::StartKubelet(machine(k)));
    }
    // One in ten has other addresses.
    for k in 1..=(n / 10).max(1).min(n - 1) {
        let address = std::net::Ipv4Addr::new(10, 99, 0, u8::try_from(k).unwrap_or(0));
        let addresses = vec![vec![address.into()]];
        scenario =
            scenario.at(change + s(1), Command::SetAddresses { machine: machine(k), addresses });
    }
    scenario
}
