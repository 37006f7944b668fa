//! State that the tasks of the backend share, and [`Shared::with`], the function through which they
//! change it.

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
    index::PerVcenter,
    proof::census::Censuses,
    state::{Effects, Link, State, machine::Machine},
};
use crate::{model::NodeName, supervisor::InstancesMode, telemetry::Telemetry};

/// The vCenters, their state, the signals for the tasks, and the names of nodes to announce to the
/// node controller.
pub(super) struct Shared {
    pub(super) vcenters: PerVcenter<VcenterHandle>,
    state: Mutex<State>,
    pub(super) policy: Policy,
    pub(super) tuning: Tuning,
    pub(super) telemetry: Arc<Telemetry>,
    /// Nodes whose answers may have changed, until the node controller takes their names.
    news: Mutex<BTreeSet<NodeName>>,
    news_arrived: Notify,
    /// Wakes [`Shared::run_grace`].
    grace: Notify,
    /// Permits for four concurrent proofs: enough if the machines of a rack disappear, too few to
    /// overload a vCenter if all disappear.
    pub(super) proofs: Semaphore,
    pub(super) censuses: Censuses,
}

/// One vCenter: its client, and the signals for its tasks.
pub(super) struct VcenterHandle {
    pub(super) client: Vcenter,
    /// Wakes the task that finds machines of new nodes.
    pub(super) join: Notify,
    /// Wakes the task that keeps the view, or that polls.
    pub(super) view: Notify,
    /// Wakes the task that reads tags.
    pub(super) zones: Notify,
    /// Lock of the reads that poll machines. One read runs at a time, and a caller that waited for
    /// a read uses the result of that read.
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
        let vcenters = vcenters.into_iter().map(|client| VcenterHandle {
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

    /// True if the backend reads machines periodically instead of waiting for updates.
    pub(super) fn polls(&self) -> bool {
        matches!(self.tuning.mode, InstancesMode::Poll | InstancesMode::V1)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Lets `change` change the state, then wakes the tasks and announces the nodes that `change`
    /// has added to the [`Effects`].
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

    /// Adds the names of nodes whose answers may have changed, and wakes their reader.
    pub(super) fn announce(&self, names: BTreeSet<NodeName>) {
        if names.is_empty() {
            return;
        }
        self.news.lock().expect("nothing panics under this lock").extend(names);
        self.news_arrived.notify_one();
    }

    /// Decides each lookup whose hit has waited for slower vCenters for `Tuning::grace`. Never
    /// ends.
    pub(super) async fn run_grace(&self) {
        loop {
            self.grace.notified().await;
            // Each hit waits for the full time; a later hit is not decided together with an earlier
            // one.
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

    /// Returns the node's link and machine, if the collector shows the machine and the machine
    /// still has the UUID of the link.
    pub(super) fn link_and_machine<'a>(
        state: &'a State,
        name: &NodeName,
    ) -> Option<(&'a Link, &'a Machine)> {
        let link = state.nodes.get(name)?.link.as_ref()?;
        let machine = state.vcenters[link.vcenter].machines.get(&link.machine)?;
        let is_it = machine.present && machine.uuid == Some(link.uuid);
        is_it.then_some((link, machine))
    }

    /// True if the collector shows the linked machine of the node, and vCenter has reported no UUID
    /// of that machine so far.
    pub(super) fn lacks_uuid(state: &State, name: &NodeName) -> bool {
        let link = state.nodes.get(name).and_then(|tracked| tracked.link.as_ref());
        let machine =
            link.and_then(|link| state.vcenters[link.vcenter].machines.get(&link.machine));
        machine.is_some_and(|machine| machine.present && machine.uuid.is_none())
    }

    /// Waits until a name is announced, unless one is already, and takes all names.
    ///
    /// Cancel safe: the next call returns the names that a cancelled call did not return.
    pub(super) async fn news(&self) -> BTreeSet<NodeName> {
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
