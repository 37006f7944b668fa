//! Serialized objects, shared by all watches: each is written once per form, not once per client.
//!
//! Fifty watchers of five thousand nodes are a quarter of a million events, which differ only in their
//! reader. The newest bytes are kept up to a bound; older ones are written again if a watch still
//! needs them.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::time::Instant;

use super::accept::Form;
use super::table::Include;

/// Bound of the kept bytes: five thousand nodes of a few kilobytes, three times over.
const MAX_BYTES: usize = 64 << 20;

/// Age after which bytes are dropped. Only slow readers need the bytes of a change for longer.
const MAX_AGE: Duration = Duration::from_secs(60);

/// Key of a serialized object.
///
/// A revision of the store is one change of one object, except that all objects that every cluster
/// begins with have the first revision. One revision has the new state of the object and, for watches
/// that the object leaves, its last state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Edition {
    pub(super) revision: u64,
    pub(super) uid: String,
    pub(super) is_gone: bool,
    /// True if the object is as stored, including fields that are hidden from other readers.
    pub(super) as_kept: bool,
    pub(super) version: Cow<'static, str>,
    /// Revision since which the schemas of the kind are unchanged; 0 for built-in kinds.
    pub(super) schemas: u64,
    pub(super) form: Form,
    /// Further inputs of a table; `None` for other forms.
    pub(super) table: Option<Moment>,
}

/// Inputs of a table besides its object. Ages are in seconds, and only the first table has columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Moment {
    pub(super) at: i64,
    pub(super) include: Include,
    pub(super) with_columns: bool,
}

/// Serialized objects. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Encodings {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    bytes: HashMap<Edition, Arc<OnceLock<Bytes>>>,
    /// Editions, oldest first, with the instants since which they are kept.
    order: VecDeque<(Instant, Edition)>,
    n_bytes: usize,
    n_written: u64,
}

impl Encodings {
    /// The bytes of an edition; calls `object` to make them if they do not exist yet.
    ///
    /// `object` runs outside the lock, so that only callers for the same edition wait for it.
    pub(super) fn bytes(&self, edition: Edition, object: impl FnOnce() -> Bytes) -> Bytes {
        let cell = self.lock().cell(&edition);
        let bytes = cell.get_or_init(|| {
            let bytes = object();
            self.lock().written(&edition, bytes.len());
            bytes
        });
        bytes.clone()
    }

    /// Number of objects written so far.
    #[cfg(test)]
    pub(super) fn n_written(&self) -> u64 {
        self.lock().n_written
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().expect("nobody panics with the lock of the encodings")
    }
}

impl Shared {
    /// Cell that holds the bytes of an edition, or will hold them.
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

    /// Counts written bytes, and drops the oldest editions above [`MAX_BYTES`].
    fn written(&mut self, edition: &Edition, n_bytes: usize) {
        self.n_written += 1;
        // An edition that was dropped meanwhile does not count.
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
