//! The world: one state, one log, and one way to change it.

mod invariants;
mod log;

use std::ops::Deref;
use std::time::Duration;

use jiff::Timestamp;

pub use log::{Log, Retain};

use crate::Time;
use crate::act::Execution;
use crate::command::Command;
use crate::event::{Applied, Event, Fault};
use crate::reactions::Timing;
use crate::state::State;
use crate::supervisor::{Supervisor, SupervisorTopology};
use crate::vcenter::{MoRef, VCenter, VcEvent};

/// The simulated truth: a [`State`], and a log of the events that led to it, as far as the world
/// keeps them.
#[derive(Clone, Debug)]
pub struct World {
    state: State,
    log: Log,
    /// Events since the last [`World::take_recorded`]; `None` if the world does not record a tape.
    tape: Option<Vec<(Time, Event)>>,
}

impl Deref for World {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl World {
    /// Creates an empty world whose time zero is `epoch`. All its identifiers depend on `seed`.
    pub fn new(epoch: Timestamp, seed: u64) -> Self {
        Self { state: State::new(epoch, seed), log: Log::new(Retain::Nothing), tape: None }
    }

    /// Replaces the log by a new one, which begins at the present state and keeps the events that
    /// `retain` selects.
    pub fn retain(&mut self, retain: Retain) {
        self.log = Log::starting_from(retain, &self.state);
    }

    /// Starts to record a tape: all further events, for [`World::take_recorded`] and independent of
    /// the log. Returns the present state.
    pub fn start_recording(&mut self) -> State {
        self.tape = Some(Vec::new());
        self.state.clone()
    }

    /// Returns the events since the last call, or since [`World::start_recording`], oldest first,
    /// each with its time. The list is empty if the world does not record a tape.
    pub fn take_recorded(&mut self) -> Vec<(Time, Event)> {
        self.tape.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Adds events to the log, and to the tape if the world records one.
    fn note(&mut self, at: Time, events: &[Event]) {
        self.log.append(at, events);
        if let Some(tape) = &mut self.tape {
            tape.extend(events.iter().map(|event| (at, event.clone())));
        }
    }

    /// Log of the events; has none unless [`World::retain`] selects some.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the present state of the world.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Creates a world that continues from a snapshot, without a log.
    pub fn restore(state: State) -> Self {
        let supervisor = state.supervisor.restored();
        let state = State { supervisor, ..state };
        Self { state, log: Log::new(Retain::Nothing), tape: None }
    }

    /// From now on, keeps the last `events` events for [`before`](Self::before), or fewer if they
    /// exceed the size limit of [`Retain::Last`].
    ///
    /// Does nothing if the world already keeps a log.
    pub fn keep_events(&mut self, events: usize) {
        if self.log.base().is_none() {
            self.retain(Retain::Last(events));
        }
    }

    /// Stops keeping events after [`keep_events`](Self::keep_events), and drops the kept events.
    /// Does nothing to a log with [`Retain::Everything`].
    pub fn drop_events(&mut self) {
        if matches!(self.log.retain(), Retain::Last(_)) {
            self.retain(Retain::Nothing);
        }
    }

    /// Returns a copy of this world in which one vCenter has an earlier inventory and earlier tags:
    /// those before the last `n` changes of its inventory or tags.
    ///
    /// Changes at the same moment count as one. Logins, sessions and everything else stay at their
    /// present state. If the log has fewer than `n` changes, the inventory and tags are those at
    /// the beginning of the log. Without a log they are the present ones. The copy has no log.
    #[must_use]
    pub fn before(&self, vcenter: &str, n: usize) -> Self {
        let mut state = self.state.clone();
        let past = self.log.before(n, |event| event.changes_inventory_of(vcenter));
        let past = past.and_then(|mut past| past.vcenters.remove(vcenter));
        if let (Some(past), Some(present)) = (past, state.vcenters.get_mut(vcenter)) {
            present.inventory = past.inventory;
            present.tags = past.tags;
        }
        Self::restore(state)
    }

    /// Sets the times at which steps end. Adds no event to the log, so callers must use it before
    /// any command.
    pub fn set_timing(&mut self, timing: Timing) {
        self.state.timing = timing;
    }

    /// Sets how long the API servers keep a Kubernetes Event. Adds no event to the log, so callers
    /// must use it before any command.
    pub(crate) fn set_event_ttl(&mut self, ttl: Duration) {
        self.state.event_ttl = ttl;
    }

    /// Carries out `command` at `now`, or refuses it. A refused command changes nothing, except
    /// that a failed login counts towards the lock-out.
    ///
    /// First carries out the reactions and ends the sessions that are due by `now`, even if it then
    /// refuses the command. A `now` before the latest time counts as the latest time.
    ///
    /// # Errors
    /// The fault with which the vCenter, the API server or the world refuses the command.
    pub fn apply(&mut self, now: Time, command: Command) -> Result<Applied, Fault> {
        let mut events = self.advance(now);
        let now = now.max(self.state.latest);
        let mut act = Execution::new(&mut self.state, now);
        let result = act.execute(command);
        let acted = act.into_events();
        debug_assert!(
            result.is_ok()
                || acted
                    .iter()
                    .all(|event| matches!(event, Event::VCenter { event: VcEvent::Login(_), .. })),
            "a refused command changed the world: {acted:?}"
        );
        self.note(now, &acted);
        events.extend(acted);
        result.map(|outcome| Applied { outcome, events })
    }

    /// Carries out every reaction and ends every session that is due by `now`, each at the time at
    /// which it was due. Returns the events.
    pub fn advance(&mut self, now: Time) -> Vec<Event> {
        let mut all = Vec::new();
        while let Some(due) = self.state.next_timer().filter(|due| *due <= now) {
            let at = due.max(self.state.latest);
            let mut act = Execution::new(&mut self.state, at);
            act.react();
            let events = act.into_events();
            self.note(at, &events);
            all.extend(events);
        }
        self.state.pass(now);
        all
    }

    /// Creates the Supervisor of `vcenter` while a topology builds the world.
    pub(crate) fn add_supervisor(&mut self, vcenter: &str, with: &SupervisorTopology) {
        let State { ids, epoch, .. } = self.state;
        let supervisor = Supervisor::founded(ids, epoch, vcenter, with);
        let event = Event::SupervisorFounded(Box::new(supervisor));
        self.state.fold(&event);
        self.note(Time::ZERO, std::slice::from_ref(&event));
    }

    /// Stores the VirtualMachine `object` for an existing machine while a topology builds the
    /// world.
    pub(crate) fn adopt(&mut self, object: serde_json::Value, machine: MoRef) {
        let mut act = Execution::new(&mut self.state, Time::ZERO);
        act.adopt(object, machine);
        let events = act.into_events();
        self.note(Time::ZERO, &events);
    }

    /// Adds a vCenter while a topology builds the world.
    pub(crate) fn add_vcenter(&mut self, name: &str, vcenter: VCenter) {
        let event = Event::VCenterAdded { vcenter: name.to_owned(), with: Box::new(vcenter) };
        self.state.fold(&event);
        self.note(Time::ZERO, std::slice::from_ref(&event));
    }
}

#[cfg(test)]
mod tests;
