//! A cache of reviews that stay valid for a limited time.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use tokio::time::Instant;

/// Maximum number of entries; a full cache drops its expired entries or, if it has none, the entry
/// that expires first.
const KEPT: usize = 4096;

/// Values by key, each with the instant at which it expires.
pub(super) struct Cache<K, V>(Mutex<BTreeMap<K, (V, Instant)>>);

impl<K: Ord, V> Default for Cache<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Clone, V: Clone> Cache<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<V> {
        let entries = self.0.lock().expect("nothing panics under this lock");
        let (value, until) = entries.get(key)?;
        (Instant::now() < *until).then(|| value.clone())
    }

    pub(super) fn insert(&self, key: K, value: V, ttl: Duration) {
        let now = Instant::now();
        let mut entries = self.0.lock().expect("nothing panics under this lock");
        if entries.len() >= KEPT {
            entries.retain(|_, (_, until)| now < *until);
        }
        if entries.len() >= KEPT {
            let first = entries.iter().min_by_key(|(_, (_, until))| *until);
            let first = first.map(|(key, _)| key.clone());
            first.and_then(|key| entries.remove(&key));
        }
        entries.insert(key, (value, now + ttl));
    }
}
