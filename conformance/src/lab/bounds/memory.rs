//! Keeps the memory of a run of the whole catalogue below 1 GiB: worlds whose estimates add up to
//! more are not played at the same time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use sim::faults::{Action, Spoil};

use crate::scenario::{Act, Scenario};

/// MiB for all worlds that are played at the same time.
const CAPACITY: u64 = 900;
/// MiB of a world with padded answers.
const PADDED: u64 = 600;
/// MiB of a small world.
const SMALL: u64 = 50;

/// MiB that worlds have taken.
static TAKEN: Mutex<u64> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();

/// Memory for one world, which it gives back when dropped.
#[must_use]
pub(crate) struct Reservation(u64);

fn taken() -> MutexGuard<'static, u64> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until there is memory for a world of this estimate in MiB. A small world does not wait for
/// a large one that came before, because few worlds are large and a processor would be idle.
pub(crate) fn reserve(mib: u64) -> Reservation {
    let mib = mib.clamp(SMALL, CAPACITY);
    let taken = CHANGED.wait_while(taken(), |taken| *taken + mib > CAPACITY);
    *taken.unwrap_or_else(PoisonError::into_inner) += mib;
    Reservation(mib)
}

impl Drop for Reservation {
    fn drop(&mut self) {
        *taken() -= self.0;
        CHANGED.notify_all();
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

/// True if the world of a scenario may wait for the end of others.
pub(crate) fn is_large(scenario: &Scenario) -> bool {
    estimate(scenario) > SMALL
}

fn pads_answers(act: &Act) -> bool {
    let Act::Fault(rule) = act else { return false };
    rule.actions.iter().any(|action| matches!(action, Action::Spoil(Spoil::Padded(_))))
}

/// Estimates the memory of a fleet without a log in MiB: 5,000 nodes need about 600 MiB.
pub(crate) fn estimate_without_log(nodes: u32) -> u64 {
    u64::from(nodes) * 12 / 100
}
