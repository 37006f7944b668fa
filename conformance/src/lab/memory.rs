//! Keeps the memory of a run of the whole catalogue below 1 GiB: worlds whose estimates add up to
//! more are not played at the same time.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use sim::faults::{Action, Spoil};

use crate::scenario::{Act, Scenario};

/// MiB for all worlds that are played at the same time.
const CAPACITY: u64 = 850;
/// MiB of a world with padded answers.
const PADDED: u64 = 600;
/// MiB of a small world.
const SMALL: u64 = 50;

static MEMORY: Memory = Memory { state: Mutex::new(State::new()), changed: Condvar::new() };

/// Memory that worlds take and give back, first come, first served.
struct Memory {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// MiB that worlds have taken.
    taken: u64,
    next_ticket: u64,
    waiting: VecDeque<u64>,
}

impl State {
    const fn new() -> Self {
        Self { taken: 0, next_ticket: 0, waiting: VecDeque::new() }
    }
}

/// Memory for one world, which it gives back when dropped.
#[must_use]
pub(crate) struct Reservation(u64);

impl Memory {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until there is memory for a world of this estimate in MiB, after those that waited before.
pub(crate) fn reserve(mib: u64) -> Reservation {
    let mib = mib.clamp(SMALL, CAPACITY);
    let mut state = MEMORY.lock();
    let ticket = state.next_ticket;
    state.next_ticket += 1;
    state.waiting.push_back(ticket);
    while state.waiting.front() != Some(&ticket) || state.taken + mib > CAPACITY {
        state = MEMORY.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    state.waiting.pop_front();
    state.taken += mib;
    drop(state);
    MEMORY.changed.notify_all();
    Reservation(mib)
}

impl Drop for Reservation {
    fn drop(&mut self) {
        MEMORY.lock().taken -= self.0;
        MEMORY.changed.notify_all();
    }
}

/// Estimates the memory of a scenario in MiB: 1,000 machines need about 450 MiB for 25 minutes. A
/// rule that pads answers makes both sides hold hundreds of MiB.
pub(crate) fn estimate(scenario: &Scenario) -> u64 {
    if scenario.timeline.iter().any(|step| pads_answers(&step.act)) {
        return PADDED;
    }
    let topology = &scenario.topology;
    let machines = u64::from(topology.machines) * u64::from(topology.vcenters);
    if machines < 300 {
        // Such a world needs more only if it lives for days, and few do.
        return SMALL;
    }
    machines * (300 + scenario.horizon.as_secs() / 8) / 1000
}

fn pads_answers(act: &Act) -> bool {
    let Act::Fault(rule) = act else { return false };
    rule.actions.iter().any(|action| matches!(action, Action::Spoil(Spoil::Padded(_))))
}

/// Estimates the memory of a fleet without a log in MiB: 5,000 nodes need about 600 MiB.
pub(crate) fn estimate_without_log(nodes: u32) -> u64 {
    u64::from(nodes) * 12 / 100
}
