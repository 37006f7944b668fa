//! A shared world: one lock, one clock, and a signal for changes.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{FairMutex, FairMutexGuard};
use sim_world::{Applied, Command, Event, Fault, Time, World};

use crate::Clock;
use kube_sim_api::{Changes, Signal};

/// Maximum number of past events that the world keeps while a `read.stale` rule exists.
const EVENTS: usize = 10_000;

/// A world that faces, tests and the admin port share.
///
/// Every access is one short critical section. No caller holds the lock across an await.
#[derive(Clone, Debug)]
pub struct WorldHandle {
    world: Arc<FairMutex<World>>,
    clock: Clock,
    changed: Signal,
    locks: Arc<AtomicU64>,
}

impl WorldHandle {
    /// Returns a handle that shares `world`; `clock` provides the time of the world.
    pub fn new(world: World, clock: Clock) -> Self {
        Self {
            world: Arc::new(FairMutex::new(world)),
            clock,
            changed: Signal::default(),
            locks: Arc::default(),
        }
    }

    /// Returns the current world time.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The clock of the world.
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Sets the seconds of world time per second of tokio's clock; 0 stops world time.
    ///
    /// At pace 60, a client on the real clock waits one second for a step that takes the world a
    /// minute. The pace does not change times that a client measures on its own clock, such as its
    /// timeouts for updates and watches.
    pub fn set_pace(&self, pace: u32) {
        self.clock.set_pace(pace);
    }

    /// Waits until world time is `at` or later.
    ///
    /// Cancel safe.
    pub async fn reach(&self, at: Time) {
        self.clock.sleep_until(at).await;
    }

    /// Carries out the reactions that are due, then `command`. Wakes the tasks that wait for a
    /// change if either has changed the world. The beginning and the end of a session's call do not
    /// count as changes.
    ///
    /// # Errors
    /// The fault with which the world refuses the command. A refused command changes nothing,
    /// except that a failed login counts towards the lock-out.
    pub fn apply(&self, command: Command) -> Result<Applied, Fault> {
        self.lock().apply(command)
    }

    /// Carries out a client's request to a vCenter.
    ///
    /// # Errors
    /// The fault with which the vCenter refuses the request.
    pub(crate) fn request(
        &self,
        vcenter: &str,
        request: sim_world::VcRequest,
    ) -> Result<sim_world::Outcome, Fault> {
        self.lock().request(vcenter, request)
    }

    /// Carries out all reactions and ends all sessions that are due now.
    #[cfg(feature = "listen")]
    pub(crate) fn advance(&self) {
        self.lock().advance();
    }

    /// From now on, makes the world keep its last 10,000 events, with at most 64 MiB of Kubernetes
    /// objects. [`before`](Self::before) computes earlier states from them. Does nothing if the
    /// world already keeps events.
    pub(crate) fn keep_events(&self) {
        self.lock().world.keep_events(EVENTS);
    }

    /// Drops the events that the world keeps, and makes it keep no more. Does nothing if the world
    /// keeps all of its events.
    pub(crate) fn drop_events(&self) {
        self.lock().world.drop_events();
    }

    /// Starts to record events for [`take_recorded`](Self::take_recorded). Returns the present
    /// state.
    #[cfg(feature = "cli")]
    pub(crate) fn start_recording(&self) -> sim_world::State {
        self.lock().world.start_recording()
    }

    /// Returns the events since the last call, or since [`start_recording`](Self::start_recording),
    /// and the present time. Carries out the reactions that are due first, so that no later event
    /// is of an earlier time.
    #[cfg(feature = "cli")]
    pub(crate) fn take_recorded(&self) -> (Vec<(Time, Event)>, Time) {
        let mut world = self.lock();
        let now = world.advance();
        (world.world.take_recorded(), now)
    }

    /// Returns a separate copy of `world`, without waiters, in which the inventory and tags of
    /// `vcenter` are those before its last `n` changes. If `world` keeps fewer changes, they are
    /// those before the first kept change, or the present ones if it keeps none.
    pub(crate) fn before(&self, world: &World, vcenter: &str, n: usize) -> Self {
        Self::new(world.before(vcenter, n), self.clock())
    }

    /// Calls `look` with the locked world, and returns its result.
    pub fn read<R>(&self, look: impl FnOnce(&World) -> R) -> R {
        look(&self.lock())
    }

    /// Locks the world until the returned guard is dropped. A thread that holds the guard must not
    /// lock the world again, because it would deadlock.
    ///
    /// The lock is fair. While one caller locks the world many times in a row, as the start of
    /// 100,000 nodes does, other callers get their turn in between.
    pub(crate) fn lock(&self) -> Locked<'_> {
        let wake = Wake { signal: &self.changed, is_due: false };
        self.locks.fetch_add(1, Ordering::Relaxed);
        Locked { world: self.world.lock(), clock: &self.clock, wake }
    }

    /// Number of times that calls and other tasks have locked the world. The number per call
    /// indicates how much calls delay each other.
    pub fn locks(&self) -> u64 {
        self.locks.load(Ordering::Relaxed)
    }

    /// Returns a waiter for changes of the world. Call [`Changes::mark_unchanged`] *before*
    /// reading the world, then await [`Changes::changed`]. This order misses no change.
    pub fn changes(&self) -> Changes {
        self.changed.changes()
    }
}

/// Guard of the locked world. All reads and changes through one guard are one critical section.
///
/// On drop the guard releases the lock, then wakes all waiters once if the world has changed. The
/// beginning and the end of a session's call do not count as changes.
pub(crate) struct Locked<'a> {
    // Must stay the first field: it is dropped first, so that a woken waiter finds the lock free.
    world: FairMutexGuard<'a, World>,
    clock: &'a Clock,
    wake: Wake<'a>,
}

/// Wakes the tasks that wait for a change, on drop, if the world has changed.
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
    /// Carries out the reactions that are due, then `command`.
    ///
    /// # Errors
    /// The fault with which the world refuses the command. A refused command changes nothing,
    /// except that a failed login counts towards the lock-out.
    pub(crate) fn apply(&mut self, command: Command) -> Result<Applied, Fault> {
        // Advances first, because a refusal returns no events. Waiters would then miss the
        // reactions that the world carries out before it refuses the command.
        self.advance();
        let applied = self.world.apply(self.clock.now(), command)?;
        self.wake.is_due |= applied.events.iter().any(Event::wakes_waiters);
        Ok(applied)
    }

    /// Carries out the reactions that are due, then all `commands`, at one moment and in order, or
    /// none of them.
    ///
    /// # Errors
    /// The index of the first command that the world refuses, and the fault. No command has an
    /// effect then.
    #[cfg(feature = "listen")]
    pub(crate) fn apply_all(
        &mut self,
        commands: Vec<Command>,
    ) -> Result<Vec<Applied>, (usize, Fault)> {
        let now = self.advance();
        // Tries the commands on a copy, which replaces the world if all succeed.
        let mut copy = self.world.clone();
        let mut all = Vec::new();
        for (i, command) in commands.into_iter().enumerate() {
            all.push(copy.apply(now, command).map_err(|fault| (i, fault))?);
        }
        *self.world = copy;
        let events = all.iter().flat_map(|applied| &applied.events);
        self.wake.is_due |= events.into_iter().any(Event::wakes_waiters);
        Ok(all)
    }

    /// Carries out a client's request to a vCenter.
    ///
    /// # Errors
    /// The fault with which the vCenter refuses the request.
    pub(crate) fn request(
        &mut self,
        vcenter: &str,
        request: sim_world::VcRequest,
    ) -> Result<sim_world::Outcome, Fault> {
        let command = Command::Request { vcenter: vcenter.to_owned(), request };
        self.apply(command).map(|applied| applied.outcome)
    }

    /// Carries out all reactions and ends all sessions that are due now. Returns the time that
    /// counted as now.
    pub(crate) fn advance(&mut self) -> Time {
        let now = self.clock.now();
        let events = self.world.advance(now);
        self.wake.is_due |= !events.is_empty();
        now
    }

    /// Returns the current world time.
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
