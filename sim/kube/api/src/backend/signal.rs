//! A signal for changes, with any number of waiters that wake in the order in which they began to
//! wait.
//!
//! tokio's `watch` spreads its waiters over shards at random, so the order in which two waiters for
//! one change wake may differ from run to run. The order must be the same in every run, because the
//! same seed must give the same ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Sending side. Clones send the same signal.
#[derive(Clone, Debug, Default)]
pub struct Signal {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    version: AtomicU64,
    notify: Notify,
}

/// Waiting side: remembers the last change that it has seen.
#[derive(Clone, Debug)]
pub struct Changes {
    shared: Arc<Shared>,
    seen: u64,
}

impl Signal {
    /// Signals a change to all waiters.
    pub fn send(&self) {
        self.shared.version.fetch_add(1, Ordering::Release);
        self.shared.notify.notify_waiters();
    }

    /// Returns a waiter that counts all earlier changes as seen.
    pub fn changes(&self) -> Changes {
        let seen = self.shared.version.load(Ordering::Acquire);
        Changes { shared: Arc::clone(&self.shared), seen }
    }
}

impl Changes {
    /// Marks all earlier changes as seen. Call this *before* reading the shared state: then
    /// [`changed`](Self::changed) misses no change after the read.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.version.load(Ordering::Acquire);
    }

    /// Waits until this waiter has an unseen change, and marks all changes as seen. Returns at once
    /// if it already has one.
    ///
    /// Cancel safe: the next call reports a change that happens in the meantime.
    pub async fn changed(&mut self) {
        loop {
            // Registers before the check, so that a change in between wakes this waiter.
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
