//! Cache of serialized objects for watches: the server serializes an object once per form, not once
//! per client.
//!
//! Fifty watches of 5,000 nodes in the same form send 250,000 events, but only 5,000 different
//! ones. The cache keeps the bytes of an object for a minute, and at most 64 MiB in all. If a watch
//! needs bytes that the cache has dropped, the server serializes the object again.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::time::Instant;

use crate::request::accept::Form;
use crate::table::Include;

/// Maximum size of the cache in bytes: 64 MiB, enough for 5,000 nodes of a few kilobytes in three
/// forms.
const MAX_BYTES: usize = 64 << 20;

/// Age after which the cache drops bytes, at its next use: 60 s. Only slow readers need the bytes
/// of a change for longer.
const MAX_AGE: Duration = Duration::from_secs(60);

/// Key of a serialized object.
///
/// Each change of an object has its own revision of the store, except that all initial objects of a
/// cluster have revision 1. A revision has up to two states of its object: the new state and, for
/// watches whose selector the object no longer matches, the last matching one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EncodingKey {
    pub(crate) revision: u64,
    pub(crate) uid: String,
    /// True for the object of a DELETED event.
    pub(crate) is_gone: bool,
    /// True if the object contains the stored fields that its kind hides from clients elsewhere
    /// (`ResourceDef::hides_fields`). Only events of changes during a watch contain them.
    pub(crate) as_kept: bool,
    pub(crate) version: Cow<'static, str>,
    /// Revision of the definition at the last change of the versions or schemas of the kind; 0 for
    /// built-in kinds.
    pub(crate) schemas: u64,
    pub(crate) form: Form,
    /// Further inputs of a table; `None` for other forms.
    pub(crate) table: Option<TableInputs>,
}

/// Inputs of a table besides its object: the time at which the ages in the table hold, the part of
/// the object that a row includes, and whether the table has columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TableInputs {
    /// Time at which the ages in the table hold, as Unix time in seconds.
    pub(crate) at: i64,
    pub(crate) include: Include,
    /// True for the first table of a watch, the only one that has columns.
    pub(crate) with_columns: bool,
}

/// Cache of serialized objects. Clones share the cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct EncodingCache {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    bytes: HashMap<EncodingKey, Arc<OnceLock<Bytes>>>,
    /// The keys of `bytes`, oldest first, each with the time at which it was added.
    order: VecDeque<(Instant, EncodingKey)>,
    n_bytes: usize,
    n_written: u64,
}

impl EncodingCache {
    /// Returns the serialized object with the key `edition`. Calls `object` to serialize it if the
    /// cache does not have it.
    ///
    /// `object` runs outside the lock, so that only callers with the same key wait for it.
    pub(crate) fn bytes(&self, edition: EncodingKey, object: impl FnOnce() -> Bytes) -> Bytes {
        let cell = self.lock().cell(&edition);
        let bytes = cell.get_or_init(|| {
            let bytes = object();
            self.lock().written(&edition, bytes.len());
            bytes
        });
        bytes.clone()
    }

    /// Number of objects that [`bytes`](Self::bytes) has serialized.
    #[cfg(test)]
    pub(crate) fn n_written(&self) -> u64 {
        self.lock().n_written
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().expect("no task panics while it holds the lock of the encodings")
    }
}

impl Shared {
    /// Drops entries older than [`MAX_AGE`], and returns the cell that holds the bytes of the key
    /// `edition` or will hold them.
    fn cell(&mut self, edition: &EncodingKey) -> Arc<OnceLock<Bytes>> {
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

    /// Counts a serialization, and adds `n_bytes`, the size of the entry with the key `edition`, to
    /// the size of the cache if the entry is still there. While the size is above [`MAX_BYTES`],
    /// drops the oldest entry, but never the last one.
    fn written(&mut self, edition: &EncodingKey, n_bytes: usize) {
        self.n_written += 1;
        // An entry that was dropped meanwhile does not count.
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
pub(crate) fn json(object: &Value) -> Bytes {
    // Values are JSON: writing them into memory cannot fail.
    serde_json::to_vec(object).unwrap_or_default().into()
}
