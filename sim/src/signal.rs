//! "Something changed", for any number of waiters, who wake in the order in which they waited.
//!
//! tokio's `watch` spreads its waiters over shards at random, so that two that wait for one change
//! run in another order in every run. Same seed, same ledger needs one order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// The sending side. Clones are the same signal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signal {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    version: AtomicU64,
    notify: Notify,
}

/// The waiting side: remembers which change it has seen.
#[derive(Clone, Debug)]
pub struct Changes {
    shared: Arc<Shared>,
    seen: u64,
}

impl Signal {
    /// Tells everybody that something changed.
    pub(crate) fn send(&self) {
        self.shared.version.fetch_add(1, Ordering::Release);
        self.shared.notify.notify_waiters();
    }

    /// A waiter that has seen every change so far.
    pub(crate) fn changes(&self) -> Changes {
        let seen = self.shared.version.load(Ordering::Acquire);
        Changes { shared: Arc::clone(&self.shared), seen }
    }
}

impl Changes {
    /// Takes every change so far as seen. Do that *before* looking: then no change slips in between.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.version.load(Ordering::Acquire);
    }

    /// Waits for a change that has not been seen.
    ///
    /// Cancel safe: a change that comes meanwhile is seen by the next call.
    pub async fn changed(&mut self) {
        loop {
            // Registered before the look, so that a change in between wakes it.
            let notified = self.shared.notify.notified();
            let version = self.shared.version.load(Ordering::Acquire);
            if version != self.seen {
                self.seen = version;
                return;
            }
            notified.await;
        }
    }
}
