//! State that the tasks of the backend share, and the one function that changes it.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard},
};

use provider_vcenter::Vcenter;
use tokio::{
    sync::{Mutex as AsyncMutex, Notify, Semaphore},
    time::Instant,
};

use super::{
    Policy, Tuning,
    census::Censuses,
    machine::Machine,
    state::{Effects, Link, State},
};
use crate::{supervisor::InstancesMode, telemetry::Telemetry};

/// The vCenters, their state, and the signals for tasks and for the reader of news.
pub(super) struct Shared {
    pub(super) vcenters: Vec<Backend>,
    state: Mutex<State>,
    pub(super) policy: Policy,
    pub(super) tuning: Tuning,
    pub(super) telemetry: Arc<Telemetry>,
    news: Mutex<BTreeSet<String>>,
    news_arrived: Notify,
    grace: Notify,
    /// Permits for concurrent proofs: enough for a rack, too few to hurt a vCenter when everything is gone.
    pub(super) proofs: Semaphore,
    pub(super) censuses: Censuses,
}

/// One vCenter: its client, and the signals for its tasks.
pub(super) struct Backend {
    pub(super) client: Vcenter,
    pub(super) join: Notify,
    pub(super) view: Notify,
    pub(super) zones: Notify,
    /// Held while machines are polled: one read runs at a time, and callers that waited use its result.
    pub(super) reading: AsyncMutex<()>,
}

impl Shared {
    pub(super) fn new(
        vcenters: Vec<Vcenter>,
        policy: Policy,
        tuning: Tuning,
        telemetry: Arc<Telemetry>,
    ) -> Self {
        let state = State::new(vcenters.len());
        let censuses = Censuses::new(vcenters.len());
        let vcenters = vcenters.into_iter().map(|client| Backend {
            client,
            join: Notify::new(),
            view: Notify::new(),
            zones: Notify::new(),
            reading: AsyncMutex::new(()),
        });
        Self {
            vcenters: vcenters.collect(),
            state: Mutex::new(state),
            policy,
            tuning,
            telemetry,
            news: Mutex::new(BTreeSet::new()),
            news_arrived: Notify::new(),
            grace: Notify::new(),
            proofs: Semaphore::new(4),
            censuses,
        }
    }

    /// True if the backend reads machines periodically, instead of waiting for updates.
    pub(super) fn polls(&self) -> bool {
        matches!(self.tuning.mode, InstancesMode::Poll | InstancesMode::V1)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Changes the state, then wakes the tasks concerned.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut State, &mut Effects) -> T) -> T {
        let mut effects = Effects::default();
        let result = change(&mut self.lock(), &mut effects);
        for index in &effects.join {
            self.vcenters[*index].join.notify_one();
        }
        for index in &effects.view {
            self.vcenters[*index].view.notify_one();
        }
        if effects.grace {
            self.grace.notify_one();
        }
        self.announce(effects.changed);
        result
    }

    pub(super) fn announce(&self, names: BTreeSet<String>) {
        if names.is_empty() {
            return;
        }
        self.news.lock().expect("nothing panics under this lock").extend(names);
        self.news_arrived.notify_one();
    }

    pub(super) async fn run_grace(&self) {
        loop {
            self.grace.notified().await;
            // Each hit waits the full time: a later one is not decided with the first.
            while let Some(oldest) = self.oldest_hit() {
                let grace = self.tuning.grace;
                tokio::time::sleep_until(oldest + grace).await;
                self.with(|state, effects| state.decide_hits(Instant::now(), grace, effects));
            }
        }
    }

    fn oldest_hit(&self) -> Option<Instant> {
        self.lock().oldest_hit()
    }

    /// Returns the linked machine, if the collector shows it and its UUID is still that of the link.
    pub(super) fn linked<'a>(state: &'a State, name: &str) -> Option<(&'a Link, &'a Machine)> {
        let link = state.nodes.get(name)?.link.as_ref()?;
        let machine = state.vcenters[link.vcenter].machines.get(&link.machine)?;
        let is_it = machine.present && machine.uuid == Some(link.uuid);
        is_it.then_some((link, machine))
    }

    /// True if the collector shows a machine under the node's reference, and that machine has no UUID now.
    pub(super) fn is_nameless(state: &State, name: &str) -> bool {
        let link = state.nodes.get(name).and_then(|tracked| tracked.link.as_ref());
        let machine =
            link.and_then(|link| state.vcenters[link.vcenter].machines.get(&link.machine));
        machine.is_some_and(|machine| machine.present && machine.uuid.is_none())
    }

    /// Waits for news and takes all names.
    ///
    /// Cancel safe: the next call returns the names that this one did not.
    pub(super) async fn news(&self) -> BTreeSet<String> {
        loop {
            let arrived = self.news_arrived.notified();
            let news =
                std::mem::take(&mut *self.news.lock().expect("nothing panics under this lock"));
            if !news.is_empty() {
                return news;
            }
            arrived.await;
        }
    }
}
