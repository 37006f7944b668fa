//! The log of events. A log with a bound folds the events that it drops into a snapshot, so that a
//! replay still works.

use std::collections::VecDeque;

use crate::Time;
use crate::event::Event;
use crate::objects::{GroupResource, Op};
use crate::state::State;

/// Maximum total size of the Kubernetes objects in a log with [`Retain::Last`], in bytes of JSON.
const MAX_SIZE: usize = 64 << 20;

/// The events that a [`Log`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retain {
    /// No events, and no state, so that the log cannot be replayed.
    Nothing,
    /// At most this number of the last events, with at most 64 MiB of Kubernetes objects, and the
    /// state before the first of these events.
    Last(usize),
    /// Every event, and the state before the first event.
    Everything,
    /// Like [`Retain::Everything`], without the renewals of kubelets' leases. In a world with 1,000
    /// machines they take hundreds of MiB. States that follow from the log have the leases as they
    /// were created.
    NoRenewals,
}

/// The log of events, oldest first.
#[derive(Clone, Debug)]
pub struct Log {
    retain: Retain,
    base: Option<Box<State>>,
    entries: VecDeque<(Time, Event)>,
    /// Total size of the Kubernetes objects in bytes; counted only with [`Retain::Last`].
    size: usize,
}

/// Size of the Kubernetes object of an event, in bytes; 0 for an event without one.
fn size(event: &Event) -> usize {
    match event {
        Event::Cluster(event) | Event::Supervisor(event) => event.size(),
        _ => 0,
    }
}

/// True if a kubelet renews the lease of its Node.
fn is_renewal(event: &Event) -> bool {
    let Event::Cluster(event) = event else { return false };
    event.op == Op::Modified
        && event.key.namespace == "kube-node-lease"
        && event.key.resource == GroupResource::of("coordination.k8s.io", "leases")
}

impl Log {
    pub(crate) fn new(retain: Retain) -> Self {
        Self { retain, base: None, entries: VecDeque::new(), size: 0 }
    }

    /// Creates a log from a recording: the state before the first event, and every event with its
    /// time.
    pub fn recorded(base: State, entries: impl IntoIterator<Item = (Time, Event)>) -> Self {
        let entries = entries.into_iter().collect();
        Self { retain: Retain::Everything, base: Some(Box::new(base)), entries, size: 0 }
    }

    pub(crate) fn starting_from(retain: Retain, state: &State) -> Self {
        let base = (retain != Retain::Nothing).then(|| Box::new(state.clone()));
        Self { retain, base, entries: VecDeque::new(), size: 0 }
    }

    pub(crate) fn append(&mut self, at: Time, events: &[Event]) {
        if self.base.is_none() {
            return;
        }
        let drops = self.retain == Retain::NoRenewals;
        let kept = events.iter().filter(|event| !(drops && is_renewal(event)));
        self.entries.extend(kept.map(|event| (at, event.clone())));
        let Retain::Last(kept) = self.retain else { return };
        self.size += events.iter().map(size).sum::<usize>();
        while self.entries.len() > kept || self.size > MAX_SIZE {
            let Some((at, event)) = self.entries.pop_front() else { break };
            self.size -= size(&event);
            if let Some(base) = &mut self.base {
                base.pass(at);
                base.fold(&event);
            }
        }
    }

    pub(crate) fn retain(&self) -> Retain {
        self.retain
    }

    /// The kept events, oldest first, each with its time.
    pub fn entries(&self) -> impl Iterator<Item = &(Time, Event)> {
        self.entries.iter()
    }

    /// The state before the oldest kept event; `None` with [`Retain::Nothing`].
    pub fn base(&self) -> Option<&State> {
        self.base.as_deref()
    }

    /// Replays the log. Calls `look` for each event, with its time and the states before and after
    /// it. Does nothing with [`Retain::Nothing`].
    pub fn for_each(&self, mut look: impl FnMut(Time, &Event, &State, &State)) {
        let Some(base) = self.base.as_deref() else { return };
        let mut before = base.clone();
        let mut after = base.clone();
        for (at, event) in &self.entries {
            after.fold(event);
            after.latest = *at;
            look(*at, event, &before, &after);
            before.fold(event);
            before.latest = *at;
        }
    }

    /// The state that follows from the base and every kept event up to and including `until`.
    ///
    /// `None` with [`Retain::Nothing`], or when the base is later than `until`.
    pub fn replay(&self, until: Time) -> Option<State> {
        let mut state = self.base.as_deref()?.clone();
        if state.latest > until {
            return None;
        }
        for (_, event) in self.entries.iter().take_while(|(at, _)| *at <= until) {
            state.fold(event);
        }
        state.latest = until;
        Some(state)
    }

    /// The state before one of the times at which an event happened for which `counts` is true: the
    /// `n`-th last of these times. Returns the base if the log has fewer such times, and the
    /// present state if `n` is 0.
    ///
    /// `None` with [`Retain::Nothing`].
    pub(crate) fn before(&self, n: usize, counts: impl Fn(&Event) -> bool) -> Option<State> {
        let mut state = self.base.as_deref()?.clone();
        let mut moments: Vec<Time> =
            self.entries.iter().filter(|(_, event)| counts(event)).map(|(at, _)| *at).collect();
        moments.dedup();
        let bound = match n {
            0 => None,
            n => Some(moments.len().checked_sub(n).map_or(Time::ZERO, |first| moments[first])),
        };
        for (at, event) in &self.entries {
            if bound.is_some_and(|bound| *at >= bound) {
                break;
            }
            state.fold(event);
            state.latest = *at;
        }
        Some(state)
    }
}
