//! A work queue like client-go's, on tokio's clock and without randomness.
//!
//! The queue holds each key once, and never gives one key to two workers at once. A key that fails
//! after n earlier failures comes back after 5 ms · 2ⁿ (at most 1000 s, or less if the caller caps
//! it), or when the overall rate of 10 per second (burst of 100) allows, whichever is later. The
//! delay is at least the pause that a server requested, if the caller passes one. Unlike in
//! client-go, callers can cap the delay, and [`WorkQueue::add`] ends the delay of its key. See
//! `k8s.io/client-go: util/workqueue`, `DefaultTypedControllerRateLimiter`.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::{cluster::TokenBucket, model::NodeName, telemetry::QueueMetrics};

const FIRST_DELAY: Duration = Duration::from_millis(5);
const MAX_DELAY: Duration = Duration::from_secs(1000);

/// A queue of keys, which are names of nodes.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    state: Mutex<QueueState>,
    changed: Notify,
    overall: TokenBucket,
    metrics: Arc<QueueMetrics>,
}

#[derive(Debug, Default)]
struct QueueState {
    ready: VecDeque<NodeName>,
    dirty: BTreeSet<NodeName>,
    processing: BTreeSet<NodeName>,
    delayed: BTreeSet<(Instant, NodeName)>,
    due: BTreeMap<NodeName, Instant>,
    failures: BTreeMap<NodeName, u32>,
}

impl WorkQueue {
    pub(crate) fn new(metrics: Arc<QueueMetrics>) -> Self {
        Self {
            state: Mutex::new(QueueState::default()),
            changed: Notify::new(),
            overall: TokenBucket::new(10.0, 100),
            metrics,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, QueueState> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Adds a key and ends its delay, if any. The key is ready at once or, if a worker has it, as
    /// soon as the worker gives it back.
    pub(crate) fn add(&self, key: &NodeName) {
        self.lock().add(key, &self.metrics);
        self.changed.notify_one();
    }

    /// Adds a key that becomes ready after `delay`, unless it is due sooner.
    pub(crate) fn add_after(&self, key: &NodeName, delay: Duration) {
        self.metrics.delayed();
        let at = Instant::now() + delay;
        let queued = &mut *self.lock();
        match queued.due.get(key) {
            Some(due) if *due <= at => return,
            Some(due) => {
                let old = (*due, key.clone());
                queued.delayed.remove(&old);
            }
            None => {}
        }
        queued.due.insert(key.clone(), at);
        queued.delayed.insert((at, key.clone()));
        self.changed.notify_one();
    }

    /// Notes a failure of a key and adds the key, which becomes ready after its growing delay. The
    /// delay is at most `cap`, unless the overall rate requires a longer one.
    pub(crate) fn add_rate_limited(&self, key: &NodeName, cap: Duration) {
        self.add_rate_limited_after(key, cap, Duration::ZERO);
    }

    /// Like [`WorkQueue::add_rate_limited`], but the delay is at least `pause`, which a server
    /// requested.
    pub(crate) fn add_rate_limited_after(&self, key: &NodeName, cap: Duration, pause: Duration) {
        let failures = {
            let queued = &mut *self.lock();
            let failures = queued.failures.entry(key.clone()).or_insert(0);
            *failures = failures.saturating_add(1);
            *failures - 1
        };
        let own = FIRST_DELAY.saturating_mul(1u32 << failures.min(24)).min(MAX_DELAY).min(cap);
        self.add_after(key, own.max(self.overall.reserve()).max(pause));
    }

    /// Forgets the failures of a key, so that its delay starts at 5 ms again.
    pub(crate) fn forget(&self, key: &NodeName) {
        self.lock().failures.remove(key);
    }

    /// Waits for the next key and returns it. The caller must give it back with
    /// [`WorkQueue::done`].
    ///
    /// Cancel safe: a cancelled call takes no key.
    pub(crate) async fn get(&self) -> NodeName {
        loop {
            let changed = self.changed.notified();
            let next_due = {
                let queued = &mut *self.lock();
                queued.release_due(Instant::now(), &self.metrics);
                if let Some(key) = queued.take() {
                    self.metrics.taken(&key);
                    if !queued.ready.is_empty() {
                        self.changed.notify_one();
                    }
                    return key;
                }
                queued.delayed.first().map(|(at, _)| *at)
            };
            match next_due {
                Some(at) => {
                    let _ = tokio::time::timeout_at(at, changed).await;
                }
                None => changed.await,
            }
        }
    }

    /// Gives a key back after work. If it was added meanwhile, it is ready again at once.
    pub(crate) fn done(&self, key: &NodeName) {
        let queued = &mut *self.lock();
        queued.processing.remove(key);
        self.metrics.done(key);
        if queued.dirty.contains(key) {
            queued.ready.push_back(key.clone());
            self.changed.notify_one();
        }
    }
}

impl QueueState {
    fn add(&mut self, key: &NodeName, metrics: &QueueMetrics) {
        if let Some(at) = self.due.remove(key) {
            self.delayed.remove(&(at, key.clone()));
        }
        if self.dirty.insert(key.clone()) {
            metrics.added(key);
            if !self.processing.contains(key) {
                self.ready.push_back(key.clone());
            }
        }
    }

    fn release_due(&mut self, now: Instant, metrics: &QueueMetrics) {
        while let Some((at, key)) = self.delayed.first().cloned() {
            if at > now {
                break;
            }
            self.add(&key, metrics);
        }
    }

    fn take(&mut self) -> Option<NodeName> {
        let key = self.ready.pop_front()?;
        self.dirty.remove(&key);
        self.processing.insert(key.clone());
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> WorkQueue {
        WorkQueue::new(crate::Telemetry::default().queue("test"))
    }

    const CAP: Duration = Duration::from_secs(1000);

    #[tokio::test(start_paused = true)]
    async fn a_key_is_queued_once_and_processed_by_one_worker() {
        let (a, b) = (NodeName::from("a"), NodeName::from("b"));
        let queue = queue();
        queue.add(&a);
        queue.add(&b);
        queue.add(&a);
        assert_eq!(queue.get().await, a);
        queue.add(&a);
        assert_eq!(queue.get().await, b);
        assert!(tokio::time::timeout(CAP, queue.get()).await.is_err());
        queue.done(&a);
        assert_eq!(queue.get().await, a);
    }

    #[tokio::test(start_paused = true)]
    async fn the_delay_of_a_failing_key_doubles_each_time() {
        let a = NodeName::from("a");
        let queue = queue();
        let mut waits = Vec::new();
        for _ in 0..20 {
            queue.add_rate_limited(&a, CAP);
            let before = Instant::now();
            assert_eq!(queue.get().await, a);
            waits.push(before.elapsed().as_millis());
            queue.done(&a);
        }
        assert_eq!(waits[..5], [5, 10, 20, 40, 80]);
        assert_eq!(waits[19], 1_000_000);
        queue.forget(&a);
        queue.add_rate_limited(&a, CAP);
        let before = Instant::now();
        queue.get().await;
        assert_eq!(before.elapsed().as_millis(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn adding_a_delayed_key_queues_it_at_once() {
        let a = NodeName::from("a");
        let queue = queue();
        queue.add_after(&a, CAP);
        queue.add(&a);
        let before = Instant::now();
        assert_eq!(queue.get().await, a);
        assert_eq!(before.elapsed(), Duration::ZERO);
        queue.done(&a);
        assert!(tokio::time::timeout(CAP * 2, queue.get()).await.is_err(), "queued once only");
    }

    #[tokio::test(start_paused = true)]
    async fn the_sooner_of_two_delays_counts() {
        let a = NodeName::from("a");
        let queue = queue();
        queue.add_after(&a, Duration::from_secs(9));
        queue.add_after(&a, Duration::from_secs(3));
        queue.add_after(&a, Duration::from_secs(6));
        let before = Instant::now();
        assert_eq!(queue.get().await, a);
        assert_eq!(before.elapsed().as_secs(), 3);
    }
}
