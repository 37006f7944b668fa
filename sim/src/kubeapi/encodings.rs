//! Serialised objects, shared by all watches: each is written once per form, not once per client.
//!
//! Fifty watchers of five thousand nodes are a quarter of a million events; what differs between them
//! is who reads. Kept are the newest bytes up to a bound; what is older is written again if somebody
//! still needs it.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::time::Instant;

use super::accept::Form;
use super::table::Include;

/// Five thousand nodes of a few kilobytes, three times over.
const MAX_BYTES: usize = 64 << 20;

/// All who watch are told of a change within this time, but for slow readers.
const MAX_AGE: Duration = Duration::from_secs(60);

/// What tells serialised objects apart.
///
/// A revision of the store is one change of one object, but for those that every cluster begins with:
/// these all have the first one. At a revision there is the object as it is since then and, for those
/// who see it go, its last state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Edition {
    pub(super) revision: u64,
    pub(super) uid: String,
    pub(super) is_gone: bool,
    /// Whether nothing is hidden in it that readers do not see.
    pub(super) as_kept: bool,
    pub(super) version: Cow<'static, str>,
    /// Since when the schemas of its kind are what they are; 0 for those of built-in kinds.
    pub(super) schemas: u64,
    pub(super) form: Form,
    /// What else a table depends on.
    pub(super) table: Option<Moment>,
}

/// What a table depends on besides its object: ages are told in seconds, columns once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Moment {
    pub(super) at: i64,
    pub(super) include: Include,
    pub(super) with_columns: bool,
}

/// Serialised objects. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Encodings {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    bytes: HashMap<Edition, Arc<OnceLock<Bytes>>>,
    /// The oldest first, and since when they are kept.
    order: VecDeque<(Instant, Edition)>,
    n_bytes: usize,
    n_written: u64,
}

impl Encodings {
    /// The bytes of an edition; `object` makes them if nobody has yet.
    ///
    /// Written outside the lock: who comes meanwhile for the same waits, everybody else does not.
    pub(super) fn bytes(&self, edition: Edition, object: impl FnOnce() -> Bytes) -> Bytes {
        let cell = self.lock().cell(&edition);
        let bytes = cell.get_or_init(|| {
            let bytes = object();
            self.lock().written(&edition, bytes.len());
            bytes
        });
        bytes.clone()
    }

    /// How many objects have been written so far.
    #[cfg(test)]
    pub(super) fn n_written(&self) -> u64 {
        self.lock().n_written
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().expect("nobody panics with the lock of the encodings")
    }
}

impl Shared {
    /// Where the bytes of an edition are or will be.
    fn cell(&mut self, edition: &Edition) -> Arc<OnceLock<Bytes>> {
        let now = Instant::now();
        while self.order.front().is_some_and(|(since, _)| now.duration_since(*since) > MAX_AGE) {
            self.forget_oldest();
        }
        if let Some(cell) = self.bytes.get(edition) {
            return Arc::clone(cell);
        }
        let cell = Arc::new(OnceLock::new());
        self.bytes.insert(edition.clone(), Arc::clone(&cell));
        self.order.push_back((now, edition.clone()));
        cell
    }

    /// Counts so many bytes, and lets go of the oldest if there are too many.
    fn written(&mut self, edition: &Edition, n_bytes: usize) {
        self.n_written += 1;
        // Whoever was let go of meanwhile no longer counts.
        if self.bytes.contains_key(edition) {
            self.n_bytes += n_bytes;
        }
        while self.n_bytes > MAX_BYTES && self.order.len() > 1 {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((_, oldest)) = self.order.pop_front() else { return };
        let cell = self.bytes.remove(&oldest);
        let n_bytes = cell.as_ref().and_then(|cell| cell.get()).map_or(0, Bytes::len);
        self.n_bytes = self.n_bytes.saturating_sub(n_bytes);
    }
}

/// The JSON of an object.
pub(super) fn json(object: &Value) -> Bytes {
    // Values are JSON: writing them into memory cannot fail.
    serde_json::to_vec(object).unwrap_or_default().into()
}
