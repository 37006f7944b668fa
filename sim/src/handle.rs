//! A shared world: one lock, one clock, and a signal for changes.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{FairMutex, FairMutexGuard};
use sim_world::{Applied, Command, Event, Fault, State, Time, World};

use crate::Clock;
use crate::signal::{Changes, Signal};

/// Number of events kept for reads of the past.
const EVENTS: usize = 10_000;

/// A world that faces, tests and the admin port share.
///
/// Every access is one short critical section; nothing is held across an await.
#[derive(Clone, Debug)]
pub struct WorldHandle {
    world: Arc<FairMutex<World>>,
    clock: Clock,
    changed: Signal,
    locks: Arc<AtomicU64>,
}

impl WorldHandle {
    /// Shares `world`; `clock` provides its time.
    pub fn new(world: World, clock: Clock) -> Self {
        Self {
            world: Arc::new(FairMutex::new(world)),
            clock,
            changed: Signal::default(),
            locks: Arc::default(),
        }
    }

    /// Current world time.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The clock of the world.
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Sets the seconds of world time per second of tokio's clock; 0 stops world time.
    ///
    /// Clients on the real clock then need not wait in full for what takes the world minutes. Times that a client counts on its
    /// own clock stay as they are: how long it waits for updates and watches.
    pub fn set_pace(&self, pace: u32) {
        self.clock.set_pace(pace);
    }

    /// Waits until world time is `at`.
    ///
    /// Cancel safe.
    pub async fn reach(&self, at: Time) {
        self.clock.reach(at).await;
    }

    /// Carries out `command` now and wakes the tasks that wait for a change.
    ///
    /// # Errors
    /// The world's fault. The world is unchanged then.
    pub fn apply(&self, command: Command) -> Result<Applied, Fault> {
        self.lock().apply(command)
    }

    /// Carries out a client's request to a vCenter.
    ///
    /// # Errors
    /// The vCenter's fault.
    pub(crate) fn request(
        &self,
        vcenter: &str,
        request: sim_world::VcRequest,
    ) -> Result<sim_world::Outcome, Fault> {
        self.lock().request(vcenter, request)
    }

    /// Carries out everything that is due now.
    pub(crate) fn advance(&self) {
        self.lock().advance();
    }

    /// Starts to keep the last events, for reads of the past.
    pub(crate) fn remember(&self) {
        self.lock().world.remember(EVENTS);
    }

    /// Ends what [`remember`](Self::remember) began.
    pub(crate) fn forget(&self) {
        self.lock().world.forget();
    }

    /// Starts to record events for [`take_tape`](Self::take_tape). Returns the present state.
    pub(crate) fn start_tape(&self) -> State {
        self.lock().world.start_tape()
    }

    /// Returns the events since the last call, and the time until which they are complete.
    pub(crate) fn take_tape(&self) -> (Vec<(Time, Event)>, Time) {
        let mut world = self.lock();
        let now = world.now();
        (world.world.take_tape(), now)
    }

    /// Returns a separate world, with no waiters, that has the inventory and tags of `vcenter` before its last `n` changes.
    pub(crate) fn before(&self, world: &World, vcenter: &str, n: usize) -> Self {
        Self::new(world.before(vcenter, n), self.clock())
    }

    /// Calls `look` with the locked world.
    pub fn read<R>(&self, look: impl FnOnce(&World) -> R) -> R {
        look(&self.lock())
    }

    /// Locks the world until the returned guard is dropped. A thread that holds the guard must not lock the world again, because
    /// it would deadlock.
    ///
    /// The lock is fair: a caller that does many things in a row, such as a start with 100,000 nodes, lets others in between.
    pub(crate) fn lock(&self) -> Locked<'_> {
        let wake = Wake { signal: &self.changed, is_due: false };
        self.locks.fetch_add(1, Ordering::Relaxed);
        Locked { world: self.world.lock(), clock: &self.clock, wake }
    }

    /// Number of times that calls and all other tasks have locked the world: a measure of what a call costs the others.
    pub fn locks(&self) -> u64 {
        self.locks.load(Ordering::Relaxed)
    }

    /// Returns a signal whose value grows with every change. Mark it seen *before* reading the
    /// world, then await `changed()`: no change can slip in between.
    pub fn changes(&self) -> Changes {
        self.changed.changes()
    }
}

/// The locked world. Everything read and changed through this guard is one critical section.
///
/// Waiters are woken once, after the lock is released, and not by session bookkeeping.
pub(crate) struct Locked<'a> {
    // Dropped first: a waiter that wakes finds the lock free.
    world: FairMutexGuard<'a, World>,
    clock: &'a Clock,
    wake: Wake<'a>,
}

/// Sends the signal on drop, if something changed.
struct Wake<'a> {
    signal: &'a Signal,
    is_due: bool,
}

impl Drop for Wake<'_> {
    fn drop(&mut self) {
        if self.is_due {
            self.signal.send();
        }
    }
}

impl Locked<'_> {
    /// Carries out `command` now.
    ///
    /// # Errors
    /// The world's fault. The world is unchanged then.
    pub(crate) fn apply(&mut self, command: Command) -> Result<Applied, Fault> {
        // Advances first: a refused command carries out nothing, not even what was due before it.
        self.advance();
        let applied = self.world.apply(self.clock.now(), command)?;
        self.wake.is_due |= applied.events.iter().any(Event::concerns_others);
        Ok(applied)
    }

    /// Carries out all `commands` now, at one moment and in order, or none.
    ///
    /// # Errors
    /// The world's fault, and the index of the command that met it. The world is unchanged then.
    pub(crate) fn apply_all(
        &mut self,
        commands: Vec<Command>,
    ) -> Result<Vec<Applied>, (usize, Fault)> {
        self.advance();
        let now = self.clock.now();
        // Tries the commands on a copy, which replaces the world if all succeed.
        let mut copy = self.world.clone();
        let mut all = Vec::new();
        for (i, command) in commands.into_iter().enumerate() {
            all.push(copy.apply(now, command).map_err(|fault| (i, fault))?);
        }
        *self.world = copy;
        let events = all.iter().flat_map(|applied| &applied.events);
        self.wake.is_due |= events.into_iter().any(Event::concerns_others);
        Ok(all)
    }

    /// Carries out a client's request to a vCenter.
    ///
    /// # Errors
    /// The vCenter's fault.
    pub(crate) fn request(
        &mut self,
        vcenter: &str,
        request: sim_world::VcRequest,
    ) -> Result<sim_world::Outcome, Fault> {
        let command = Command::Request { vcenter: vcenter.to_owned(), request };
        self.apply(command).map(|applied| applied.outcome)
    }

    /// Carries out everything that is due now.
    pub(crate) fn advance(&mut self) {
        let events = self.world.advance(self.clock.now());
        self.wake.is_due |= !events.is_empty();
    }

    /// Current world time.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }
}

impl Deref for Locked<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}
