//! The last changes of a resource. Watches and consistent pages of lists read them.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use crate::object::meta;
use crate::object::size::size;
use crate::{GroupResource, Op, Selection, Status, Store};

/// Maximum size in bytes, as JSON, of the changes kept per resource. In memory an object takes a
/// few times its size as JSON.
///
/// Enough for the last two changes of each of ten thousand Nodes.
const MAX_SIZE: usize = 64 << 20;

/// The last changes of one resource, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    entries: VecDeque<Entry>,
    /// Revision after which the log has every change.
    floor: u64,
    /// Size of all entries as JSON, in bytes: of each changed object, and of each separate copy of
    /// its earlier state.
    size: usize,
}

/// One change of an object in the log.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) revision: u64,
    pub(crate) op: Op,
    /// Path of the object within its resource, as in `Key::path`.
    pub(crate) at: String,
    pub(crate) object: Arc<Value>,
    /// The object before the change, if it existed.
    pub(crate) previous: Option<Arc<Value>>,
    /// True if `previous` is a separate copy that neither an earlier change nor the store shares.
    pub(crate) has_copy: bool,
}

impl Entry {
    fn size(&self) -> usize {
        let copy = self.previous.as_ref().filter(|_| self.has_copy);
        size(&self.object) + copy.map_or(0, |copy| size(copy))
    }
}

impl Log {
    pub(crate) fn push(&mut self, entry: Entry) {
        self.size += entry.size();
        self.entries.push_back(entry);
        // The newest change stays even if it alone exceeds the limit.
        while self.size > MAX_SIZE && self.entries.len() > 1 {
            self.forget();
        }
    }

    pub(crate) fn keep(&mut self, n_entries: usize) {
        while self.entries.len() > n_entries {
            self.forget();
        }
    }

    /// Forgets the changes up to `revision`, but keeps at least the last `n_entries` changes.
    pub(crate) fn forget_until(&mut self, revision: u64, n_entries: usize) {
        let is_old = |entry: &Entry| entry.revision <= revision;
        while self.entries.len() > n_entries && self.entries.front().is_some_and(is_old) {
            self.forget();
        }
    }

    fn forget(&mut self) {
        if let Some(oldest) = self.entries.pop_front() {
            self.size -= oldest.size();
            self.floor = oldest.revision;
        }
    }

    /// Returns an empty log that begins after `revision`.
    pub(crate) fn after(revision: u64) -> Self {
        Self { entries: VecDeque::new(), floor: revision, size: 0 }
    }

    /// Revision of the oldest state that a reader can reconstruct from the log.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns the revision before the last `n_changes` changes; the floor if the log has no more
    /// than `n_changes`; `None` if `n_changes` is 0.
    pub(crate) fn before(&self, n_changes: usize) -> Option<u64> {
        let oldest = self.entries.len().checked_sub(n_changes);
        match oldest {
            Some(at) if at == self.entries.len() => None,
            Some(at) if at > 0 => self.entries.get(at - 1).map(|entry| entry.revision),
            _ => Some(self.floor),
        }
    }

    /// Changes after `revision`, oldest first.
    pub(crate) fn since(&self, revision: u64) -> impl DoubleEndedIterator<Item = &Entry> {
        let from = self.entries.partition_point(|entry| entry.revision <= revision);
        self.entries.range(from..)
    }
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchEvent {
    /// Type of the change for this watch. An object that begins to match the selection counts as
    /// added, one that no longer matches as deleted.
    pub kind: WatchType,
    /// The object after the change. For [`WatchType::Deleted`]: the last state of a removed object,
    /// or the last matching state of an object that no longer matches; in both cases with the
    /// revision of the change.
    pub object: Arc<Value>,
    /// Revision of the change.
    pub revision: u64,
}

/// The types of watch events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchType {
    /// The object is new, or now matches the selection.
    Added,
    /// The object changed, and matches the selection before and after the change.
    Modified,
    /// The object is gone, or no longer matches the selection.
    Deleted,
}

impl WatchType {
    /// Name of the type in the watch, such as `ADDED`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

impl Store {
    /// Returns the changes of the selected objects of `resource` after `revision`, oldest first.
    ///
    /// The cursor for the next call is the current [`Store::revision`]. The cost grows with the
    /// number of changes.
    ///
    /// # Errors
    /// 410 `Expired` if the store has forgotten a change after `revision`.
    pub fn watch_since(
        &self,
        resource: &GroupResource,
        selection: &Selection,
        revision: u64,
    ) -> Result<Vec<WatchEvent>, Status> {
        let Some(log) = self.logs.get(resource) else { return Ok(Vec::new()) };
        if revision < log.floor() {
            return Err(too_old(revision, log.floor()));
        }
        Ok(log.since(revision).filter_map(|entry| watch_event(selection, entry)).collect())
    }
}

impl Store {
    /// True if the store still has all changes of `resource` after `revision`, so that a watch can
    /// continue from `revision`.
    pub fn has_changes_since(&self, resource: &GroupResource, revision: u64) -> bool {
        self.logs.get(resource).is_none_or(|log| revision >= log.floor())
    }
}

fn too_old(revision: u64, floor: u64) -> Status {
    Status::expired(format!("too old resource version: {revision} ({floor})"))
}

fn watch_event(selection: &Selection, entry: &Entry) -> Option<WatchEvent> {
    let Entry { revision, op, at, object, previous, has_copy: _ } = entry;
    if !selection.is_in_namespace(at.split_once('/').map_or("", |(namespace, _)| namespace)) {
        return None;
    }
    let was = previous.as_deref().is_some_and(|previous| selection.matches(previous));
    let is = *op != Op::Deleted && selection.matches(object);
    let (kind, object) = match (was, is) {
        (false, false) => return None,
        (false, true) => (WatchType::Added, object.clone()),
        (true, true) => (WatchType::Modified, object.clone()),
        (true, false) if *op == Op::Deleted => (WatchType::Deleted, object.clone()),
        // The object left the selection: the watch gets the last state that matched.
        (true, false) => {
            let mut last = previous.as_deref().cloned().unwrap_or_default();
            meta::set_revision(&mut last, *revision);
            (WatchType::Deleted, Arc::new(last))
        }
    };
    Some(WatchEvent { kind, object, revision: *revision })
}
