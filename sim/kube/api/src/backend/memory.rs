//! Objects in memory, as the backend of an API server that stands alone.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kube_sim_store::{Command, Ids, Reply, Status, Store, Time};
use tokio::time::Instant;

use crate::backend::Backend;
use crate::backend::signal::{Changes, Signal};

/// Backend of an API server that stands alone: a store in memory, without a simulated world. Its
/// clock is that of the tokio runtime, which is virtual if paused.
#[derive(Debug)]
pub struct Memory {
    objects: Mutex<Store>,
    epoch: Timestamp,
    began: Instant,
    changed: Signal,
}

impl Memory {
    /// Creates a store with the built-in kinds and the initial objects of every cluster, such as
    /// the namespace `default`. `seed` determines UIDs; `epoch` is the present moment.
    pub fn new(seed: u64, epoch: Timestamp) -> Self {
        Self {
            objects: Mutex::new(Store::new_at(Ids::new(seed), epoch)),
            epoch,
            began: Instant::now(),
            changed: Signal::default(),
        }
    }

    /// Changes the store directly, such as its history or its quotas, and wakes the watches.
    pub fn change(&self, change: impl FnOnce(&mut Store)) {
        change(&mut self.lock());
        self.changed.send();
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Memory {
    fn store(&self) -> Box<dyn Deref<Target = Store> + '_> {
        Box::new(self.lock())
    }

    fn apply(&self, command: Command) -> Result<Reply, Status> {
        let now = self.now();
        let decision = {
            let mut store = self.lock();
            store.run_compactions(now);
            let decision = store.decide(now.timestamp(self.epoch), command)?;
            decision.events.iter().for_each(|event| store.fold(event));
            decision
        };
        if !decision.events.is_empty() {
            self.changed.send();
        }
        Ok(decision.reply)
    }

    fn now(&self) -> Time {
        Time::after_start(self.began.elapsed())
    }

    fn epoch(&self) -> Timestamp {
        self.epoch
    }

    fn changes(&self) -> Changes {
        self.changed.changes()
    }
}
