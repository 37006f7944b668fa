//! Serialised objects, shared by all watches: each is written once per form, not once per client.
//!
//! Fifty watchers of five thousand nodes are a quarter of a million events; what differs between them
//! is who reads. Kept are the newest bytes up to a bound; what is older is written again if somebody
//! still needs it.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::Value;

use super::accept::Form;

/// Five thousand nodes of a few kilobytes, three times over.
const MAX_BYTES: usize = 64 << 20;

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
    pub(super) version: Cow<'static, str>,
    pub(super) form: Form,
}

/// Serialised objects. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Encodings {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    bytes: HashMap<Edition, Bytes>,
    /// The oldest first.
    order: VecDeque<Edition>,
    n_bytes: usize,
    n_written: u64,
}

impl Encodings {
    /// The bytes of an edition; `object` makes them if nobody has yet.
    ///
    /// Written outside the lock: two that come at once may both write, and one of them counts.
    pub(super) fn bytes(&self, edition: Edition, object: impl FnOnce() -> Bytes) -> Bytes {
        if let Some(bytes) = self.lock().bytes.get(&edition) {
            return bytes.clone();
        }
        let bytes = object();
        let mut shared = self.lock();
        shared.n_written += 1;
        shared.keep(edition, bytes.clone());
        bytes
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
    fn keep(&mut self, edition: Edition, bytes: Bytes) {
        if bytes.len() > MAX_BYTES / 16 {
            return;
        }
        self.n_bytes += bytes.len();
        if self.bytes.insert(edition.clone(), bytes).is_none() {
            self.order.push_back(edition);
        }
        while self.n_bytes > MAX_BYTES {
            let Some(oldest) = self.order.pop_front() else { break };
            let n_bytes = self.bytes.remove(&oldest).map_or(0, |bytes| bytes.len());
            self.n_bytes = self.n_bytes.saturating_sub(n_bytes);
        }
    }
}

/// The JSON of an object.
pub(super) fn json(object: &Value) -> Bytes {
    // Values are JSON: writing them into memory cannot fail.
    serde_json::to_vec(object).unwrap_or_default().into()
}
