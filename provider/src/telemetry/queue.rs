//! Metrics of a work queue, under the names and with the buckets of
//! `k8s.io/client-go: util/workqueue`.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64},
    },
};

use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use tokio::time::Instant;

use super::NameLabel;
use crate::model::NodeName;

type Seconds = Gauge<f64, AtomicU64>;
type Histograms = Family<NameLabel, Histogram, fn() -> Histogram>;

/// The metric families for all queues of a run.
#[derive(Debug)]
pub(super) struct QueueFamilies {
    depth: Family<NameLabel, Gauge<i64, AtomicI64>>,
    adds: Family<NameLabel, Counter<u64, AtomicU64>>,
    retries: Family<NameLabel, Counter<u64, AtomicU64>>,
    waited: Histograms,
    worked: Histograms,
    unfinished: Family<NameLabel, Seconds>,
    longest: Family<NameLabel, Seconds>,
    queues: Mutex<BTreeMap<String, Arc<QueueMetrics>>>,
}

/// A histogram with 12 buckets, whose upper bounds go from ten nanoseconds to a thousand seconds.
fn histogram() -> Histogram {
    Histogram::new(exponential_buckets(10e-9, 10.0, 12))
}

impl Default for QueueFamilies {
    fn default() -> Self {
        Self {
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            waited: Histograms::new_with_constructor(histogram),
            worked: Histograms::new_with_constructor(histogram),
            unfinished: Family::default(),
            longest: Family::default(),
            queues: Mutex::default(),
        }
    }
}

impl QueueFamilies {
    pub(super) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("workqueue");
        registry.register("depth", "Keys that wait for a worker", self.depth.clone());
        registry.register("adds", "Keys added", self.adds.clone());
        registry.register("retries", "Keys added with a delay", self.retries.clone());
        registry.register(
            "queue_duration_seconds",
            "Time that keys waited for a worker",
            self.waited.clone(),
        );
        registry.register(
            "work_duration_seconds",
            "Time that workers spent on a key",
            self.worked.clone(),
        );
        registry.register(
            "unfinished_work_seconds",
            "Time that the workers have spent on their current keys so far, in total",
            self.unfinished.clone(),
        );
        registry.register(
            "longest_running_processor_seconds",
            "Longest time that a worker has spent on its current key so far",
            self.longest.clone(),
        );
    }

    /// Creates the metrics of one queue.
    pub(super) fn queue(&self, name: &str) -> Arc<QueueMetrics> {
        let label = NameLabel { name: name.to_owned() };
        let metrics = Arc::new(QueueMetrics {
            depth: self.depth.get_or_create_owned(&label),
            adds: self.adds.get_or_create_owned(&label),
            retries: self.retries.get_or_create_owned(&label),
            waited: self.waited.get_or_create_owned(&label),
            worked: self.worked.get_or_create_owned(&label),
            unfinished: self.unfinished.get_or_create_owned(&label),
            longest: self.longest.get_or_create_owned(&label),
            keys: Mutex::default(),
        });
        let mut queues = self.queues.lock().expect("nothing panics under this lock");
        queues.insert(name.to_owned(), Arc::clone(&metrics));
        metrics
    }

    /// Updates the gauges that grow with time; called before a scrape.
    pub(super) fn refresh(&self) {
        for queue in self.queues.lock().expect("nothing panics under this lock").values() {
            queue.refresh();
        }
    }
}

/// Metrics of one queue. No key becomes the value of a label.
#[derive(Debug)]
pub(crate) struct QueueMetrics {
    depth: Gauge<i64, AtomicI64>,
    adds: Counter<u64, AtomicU64>,
    retries: Counter<u64, AtomicU64>,
    waited: Histogram,
    worked: Histogram,
    unfinished: Seconds,
    longest: Seconds,
    keys: Mutex<Keys>,
}

#[derive(Debug, Default)]
struct Keys {
    added_at: BTreeMap<NodeName, Instant>,
    begun_at: BTreeMap<NodeName, Instant>,
}

impl QueueMetrics {
    fn keys(&self) -> std::sync::MutexGuard<'_, Keys> {
        self.keys.lock().expect("nothing panics under this lock")
    }

    /// Notes that a key, which was not waiting already, was added.
    pub(crate) fn added(&self, key: &NodeName) {
        self.adds.inc();
        self.depth.inc();
        self.keys().added_at.insert(key.clone(), Instant::now());
    }

    /// Notes a request to add a key with a delay.
    pub(crate) fn delayed(&self) {
        self.retries.inc();
    }

    /// Notes that a worker took a key.
    pub(crate) fn taken(&self, key: &NodeName) {
        let now = Instant::now();
        self.depth.dec();
        let keys = &mut *self.keys();
        if let Some(since) = keys.added_at.remove(key) {
            self.waited.observe(now.duration_since(since).as_secs_f64());
        }
        keys.begun_at.insert(key.clone(), now);
    }

    /// Notes that a worker gave a key back.
    pub(crate) fn done(&self, key: &NodeName) {
        if let Some(since) = self.keys().begun_at.remove(key) {
            self.worked.observe(since.elapsed().as_secs_f64());
        }
    }

    fn refresh(&self) {
        let ages: Vec<f64> =
            self.keys().begun_at.values().map(|since| since.elapsed().as_secs_f64()).collect();
        self.unfinished.set(ages.iter().fold(0.0, |sum, age| sum + age));
        self.longest.set(ages.iter().copied().fold(0.0, f64::max));
    }
}
