//! A shared world: one lock, one clock, and a signal when something changed.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{FairMutex, FairMutexGuard};
use sim_world::{Applied, Command, Event, Fault, Time, World};

use crate::Clock;
use crate::signal::{Changes, Signal};

/// How many events are kept for reads of the past.
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
    /// Shares `world`, whose time `clock` tells.
    pub fn new(world: World, clock: Clock) -> Self {
        Self {
            world: Arc::new(FairMutex::new(world)),
            clock,
            changed: Signal::default(),
            locks: Arc::default(),
        }
    }

    /// Now, in world time.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The clock.
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// From now on the world lives `pace` seconds in a second outside, or stands still if it is 0.
    ///
    /// For clients on the real clock that need not wait in full for what takes a world minutes. What is counted on
    /// the client's own clock is left alone: how long it waits for updates and watches.
    pub fn set_pace(&self, pace: u32) {
        self.clock.set_pace(pace);
    }

    /// Returns as soon as world time is `at`.
    ///
    /// Cancel safe.
    pub async fn reach(&self, at: Time) {
        self.clock.reach(at).await;
    }

    /// Carries out `command` now and wakes everybody who waits for a change.
    ///
    /// # Errors
    /// The world's fault; nothing has changed then.
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

    /// Lets everything happen that is due now.
    pub(crate) fn advance(&self) {
        self.lock().advance();
    }

    /// Keeps what happens from now on, within bounds, for reads of the past.
    pub(crate) fn remember(&self) {
        self.lock().world.remember(EVENTS);
    }

    /// A world of its own, of no signal to anybody, with the inventory and tags of `vcenter` before its last `n` changes.
    pub(crate) fn before(&self, world: &World, vcenter: &str, n: usize) -> Self {
        Self::new(world.before(vcenter, n), self.clock())
    }

    /// Looks at the world.
    pub fn read<R>(&self, look: impl FnOnce(&World) -> R) -> R {
        look(&self.lock())
    }

    /// Locks the world until the answer is dropped. A thread that holds it must not lock it again: that never ends.
    ///
    /// Fair: a caller that does many things in a row, such as a start with a hundred thousand nodes, lets others in between.
    pub(crate) fn lock(&self) -> Locked<'_> {
        let wake = Wake { signal: &self.changed, is_due: false };
        self.locks.fetch_add(1, Ordering::Relaxed);
        Locked { world: self.world.lock(), clock: &self.clock, wake }
    }

    /// How often the world has been locked so far, by calls and by everybody else: what a call costs those beside it.
    pub fn locks(&self) -> u64 {
        self.locks.load(Ordering::Relaxed)
    }

    /// A signal whose value grows with every change. Mark it seen *before* reading the world, then
    /// await `changed()`: no change can slip in between.
    pub fn changes(&self) -> Changes {
        self.changed.changes()
    }
}

/// The locked world: all that is read and changed through it is one critical section.
///
/// Waiters are woken once, after the lock is released, and not by session bookkeeping.
pub(crate) struct Locked<'a> {
    // Dropped first: a waiter that wakes finds the lock free.
    world: FairMutexGuard<'a, World>,
    clock: &'a Clock,
    wake: Wake<'a>,
}

/// Sends the signal when it is dropped, if something changed.
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
    /// The world's fault; nothing has changed then.
    pub(crate) fn apply(&mut self, command: Command) -> Result<Applied, Fault> {
        // A refused command brings no events along, not even those of what was due before it.
        self.advance();
        let applied = self.world.apply(self.clock.now(), command)?;
        self.wake.is_due |= applied.events.iter().any(Event::concerns_others);
        Ok(applied)
    }

    /// Carries out all `commands` now, at one moment and in order, or none.
    ///
    /// # Errors
    /// The world's fault, and which command met it; nothing has changed then.
    pub(crate) fn apply_all(
        &mut self,
        commands: Vec<Command>,
    ) -> Result<Vec<Applied>, (usize, Fault)> {
        self.advance();
        let now = self.clock.now();
        // Tried on a copy, which takes the world's place if all of it is well.
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

    /// Lets everything happen that is due now.
    pub(crate) fn advance(&mut self) {
        let events = self.world.advance(self.clock.now());
        self.wake.is_due |= !events.is_empty();
    }

    /// Now, in world time.
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
