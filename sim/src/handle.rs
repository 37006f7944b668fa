//! A shared world: one lock, one clock, and a signal when something changed.

use std::sync::Arc;

use parking_lot::{FairMutex, FairMutexGuard};
use sim_world::{Applied, Command, Fault, Time, World};

use crate::Clock;
use crate::signal::{Changes, Signal};

/// A world that faces, tests and the admin port share.
///
/// Every access is one short critical section; nothing is held across an await.
#[derive(Clone, Debug)]
pub struct WorldHandle {
    world: Arc<FairMutex<World>>,
    clock: Clock,
    changed: Signal,
}

impl WorldHandle {
    /// Shares `world`, whose time `clock` tells.
    pub fn new(world: World, clock: Clock) -> Self {
        Self { world: Arc::new(FairMutex::new(world)), clock, changed: Signal::default() }
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
        let applied = self.lock().apply(self.clock.now(), command)?;
        if !applied.events.is_empty() {
            self.changed.send();
        }
        Ok(applied)
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
        let command = Command::Request { vcenter: vcenter.to_owned(), request };
        self.apply(command).map(|applied| applied.outcome)
    }

    /// Lets everything happen that is due now.
    pub(crate) fn advance(&self) {
        let happened = !self.lock().advance(self.clock.now()).is_empty();
        if happened {
            self.changed.send();
        }
    }

    /// Looks at the world.
    pub fn read<R>(&self, look: impl FnOnce(&World) -> R) -> R {
        look(&self.lock())
    }

    /// A signal whose value grows with every change. Mark it seen *before* reading the world, then
    /// await `changed()`: no change can slip in between.
    pub fn changes(&self) -> Changes {
        self.changed.changes()
    }

    /// Fair: whoever does many things in a row, such as a start with a hundred thousand nodes, lets others in between.
    fn lock(&self) -> FairMutexGuard<'_, World> {
        self.world.lock()
    }
}
