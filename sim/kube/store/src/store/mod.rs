//! The objects of one cluster, and a log of their recent changes.

mod admission;
mod conversion;
mod deletions;
mod list;
mod log;
mod quota;
mod snapshot;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

pub use admission::{Admission, Outage};
use deletions::Deletions;
pub use list::{Page, Paging};
use log::{Entry, Log};
pub use log::{WatchEvent, WatchType};
pub use quota::Quota;
pub use snapshot::Snapshot;

use crate::kind::ObjectReader;
use crate::resources::customresourcedefinitions;
use crate::{Conversion, Custom, Event, GroupResource, Key, Op, ResourceDef};
use crate::{Ids, Time};

/// Default maximum of changes kept per resource; twice the number of objects if that is more. A
/// client whose watch lags further behind must list again. The maximum grows with the number of
/// objects because all of them may change at one moment (Nodes whose kubelets report together do),
/// and a watcher that has not read these changes yet is not slow.
const DEFAULT_WINDOW: usize = 4096;

/// Minimum of changes of a resource that [`Store::run_compactions`] keeps regardless of their age;
/// twice the number of objects if that is more. The watch cache of a real API server also keeps the
/// changes of a quiet resource beyond etcd's compaction.
const MIN_WINDOW: usize = 512;

/// Interval between compactions (`--etcd-compaction-interval`). Each compaction forgets the changes
/// made before the previous compaction.
const COMPACTION: Duration = Duration::from_secs(5 * 60);

/// Revision of a store without any change.
const FIRST_REVISION: u64 = 1;

/// The objects of one cluster.
///
/// Clones share the objects, so a clone copies only keys and references. Two stores are equal if
/// they have the same objects, numbers of deletions and revision. Nothing else counts, such as
/// watch logs, quotas and webhooks.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) ids: Ids,
    pub(crate) resources: Arc<BTreeMap<GroupResource, ResourceDef>>,
    /// Objects by resource, then by path.
    pub(crate) objects: BTreeMap<GroupResource, Objects>,
    /// Logs of recent changes, by resource.
    pub(crate) logs: BTreeMap<GroupResource, Log>,
    /// Numbers of deletions, so that a new object with the name of a deleted one gets another UID.
    pub(crate) graves: Deletions,
    pub(crate) revision: u64,
    /// Functions that replace the conversion webhooks of custom kinds.
    pub(crate) conversions: BTreeMap<GroupResource, Conversion>,
    /// Functions that replace the admission webhooks of kinds.
    pub(crate) admissions: BTreeMap<GroupResource, Admission>,
    /// The outage of webhooks; `None` while they answer.
    pub(crate) outage: Option<Outage>,
    /// True while [`Store::with_light_validation`] creates initial objects. Meanwhile the store
    /// validates only the metadata of new objects.
    pub(crate) skips_validation: bool,
    /// Limits on the number of objects.
    pub(crate) quotas: Vec<Quota>,
    /// Maximum of changes kept per resource; `None` for the default, see [`DEFAULT_WINDOW`].
    window: Option<usize>,
    /// Time of the next compaction, and the revision up to which it forgets changes.
    compaction: (Time, u64),
    /// Number of times that the store has ended all watches.
    watches_ended: u64,
}

/// Objects of one resource by [`Key::path`], in the order of etcd's keys.
pub(crate) type Objects = BTreeMap<String, Arc<Value>>;

impl Store {
    /// Returns a store with the given resources and without objects.
    pub fn empty(ids: Ids, resources: Vec<ResourceDef>) -> Self {
        let resources = resources.into_iter().map(|def| (def.id.clone(), def)).collect();
        Self {
            ids,
            resources: Arc::new(resources),
            objects: BTreeMap::new(),
            logs: BTreeMap::new(),
            graves: Deletions::default(),
            revision: FIRST_REVISION,
            conversions: BTreeMap::new(),
            admissions: BTreeMap::new(),
            outage: None,
            skips_validation: false,
            quotas: Vec::new(),
            window: None,
            compaction: (Time::ZERO + COMPACTION, 0),
            watches_ended: 0,
        }
    }

    /// Runs `found`, which creates initial objects, and meanwhile checks only the metadata of new
    /// objects, and no sizes. A full validation would compile the patterns in
    /// CustomResourceDefinitions at each start; a test validates these definitions instead.
    pub fn with_light_validation(&mut self, found: impl FnOnce(&mut Self)) {
        self.skips_validation = true;
        found(self);
        self.skips_validation = false;
    }

    /// Current revision: the resourceVersion of the latest change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The registered resources, by group and name.
    pub fn resources(&self) -> impl Iterator<Item = &ResourceDef> {
        self.resources.values()
    }

    /// The definition of a resource, if it is registered.
    pub fn resource(&self, id: &GroupResource) -> Option<&ResourceDef> {
        self.resources.get(id)
    }

    /// The object at `key`; `None` if no object exists there.
    pub fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(&key.resource)?.get(&key.path())
    }

    /// All objects of a resource, in the order of [`Key::path`].
    pub fn all(&self, resource: &GroupResource) -> impl Iterator<Item = &Arc<Value>> {
        self.objects.get(resource).into_iter().flat_map(BTreeMap::values)
    }

    /// Number of objects of a resource.
    pub fn count(&self, resource: &GroupResource) -> usize {
        self.objects.get(resource).map_or(0, BTreeMap::len)
    }

    /// Applies `event`, which must be the next event of a decision that this store, or an equal
    /// one, has made.
    pub fn fold(&mut self, event: &Event) {
        let Event { key, op, revision, object } = event;
        let at = key.path();
        let objects = self.objects.entry(key.resource.clone()).or_default();
        let previous = match op {
            Op::Added | Op::Modified => objects.insert(at.clone(), object.clone()),
            Op::Deleted => {
                self.graves.record(key);
                objects.remove(&at)
            }
        };
        let n_objects = objects.len();
        // A watcher whose selection the object leaves gets the previous object as a read gave it.
        let stored = previous;
        let previous = stored.as_ref().map(|object| self.read(&key.resource, object));
        let has_copy = match (&stored, &previous) {
            (Some(stored), Some(read)) => !Arc::ptr_eq(stored, read),
            _ => false,
        };
        self.revision = *revision;
        if key.resource == customresourcedefinitions::id() {
            self.register(object, *op, previous.as_deref());
        }
        let log = self.logs.entry(key.resource.clone()).or_default();
        let object = object.clone();
        log.push(Entry { revision: *revision, op: *op, at, object, previous, has_copy });
        log.keep(self.window.unwrap_or_else(|| DEFAULT_WINDOW.max(2 * n_objects)));
    }

    /// Registers the resource that `definition` describes. Unregisters the resource if `op` is the
    /// deletion of the definition, or if the definition is not established or has no stored
    /// version. Otherwise, if `before`, the definition before the change, describes the same
    /// resource, the registration stays and watches continue. Never changes a built-in resource.
    pub(crate) fn register(&mut self, definition: &Value, op: Op, before: Option<&Value>) {
        let id = customresourcedefinitions::defined(definition);
        let is_same = before.is_some_and(|it| customresourcedefinitions::is_same(it, definition));
        if is_same && op != Op::Deleted && self.resources.contains_key(&id) {
            return;
        }
        let resources = Arc::make_mut(&mut self.resources);
        if resources.get(&id).is_some_and(|def| def.custom.is_none()) {
            // A definition cannot replace a built-in kind.
            return;
        }
        let custom = resources.get(&id).and_then(|def| def.custom.clone());
        let def = Custom::define(definition, custom.as_deref());
        match def.filter(|_| op != Op::Deleted) {
            Some(def) => {
                resources.insert(id, def);
            }
            None => {
                resources.remove(&id);
            }
        }
    }

    /// Uses `conversion` in place of the conversion webhook that the definition of `resource`
    /// names.
    ///
    /// The function belongs to this store and its clones; a snapshot does not keep it.
    pub fn convert_with(&mut self, resource: GroupResource, conversion: Conversion) {
        self.conversions.insert(resource, conversion);
    }

    /// Keeps at most `window` changes per resource from now on. A client whose watch needs older
    /// changes must list again.
    pub fn set_window(&mut self, window: usize) {
        self.window = Some(window);
        self.compact(window);
    }

    /// Ends every watch that is open now.
    pub fn end_watches(&mut self) {
        self.watches_ended += 1;
    }

    /// Returns the store after a restore from `backup`, an earlier state of this store. Every watch
    /// ends, and the logs are empty and begin at the revision of the backup. An object created
    /// later under the name of an object that the restore lost gets another UID than the lost one.
    pub fn restored_from(&self, backup: &Self) -> Self {
        let mut restored = backup.clone();
        restored.watches_ended = self.watches_ended + 1;
        restored.logs.values_mut().for_each(|log| *log = Log::after(backup.revision));
        restored.compaction = (self.compaction.0, backup.revision);
        restored.graves = self.graves.clone();
        for (resource, objects) in &self.objects {
            let is_lost = |path: &&String| !backup.holds(resource, path);
            for path in objects.keys().filter(is_lost) {
                restored.graves.record(&Key::from_path(resource.clone(), path));
            }
        }
        restored
    }

    fn holds(&self, resource: &GroupResource, path: &str) -> bool {
        self.objects.get(resource).is_some_and(|objects| objects.contains_key(path))
    }

    /// Number of times that the store has ended all watches. A watch that began at a lower number
    /// is over.
    pub fn watches_ended(&self) -> u64 {
        self.watches_ended
    }

    /// Runs the compactions that are due at `now`. Each compaction forgets the changes made before
    /// the previous one.
    ///
    /// The store therefore keeps a change for 5 to 10 minutes, and the last changes of each
    /// resource (see `MIN_WINDOW`) for longer. The limits on number (`DEFAULT_WINDOW`) and size
    /// may drop a change earlier.
    pub fn run_compactions(&mut self, now: Time) {
        let (due, until) = self.compaction;
        if now < due {
            return;
        }
        let missed = now.since(due).as_nanos() / COMPACTION.as_nanos();
        // If several compactions are due, no object has changed since the first one was due.
        let until = if missed == 0 { until } else { self.revision };
        for (resource, log) in &mut self.logs {
            let n_objects = self.objects.get(resource).map_or(0, BTreeMap::len);
            log.forget_until(until, MIN_WINDOW.max(2 * n_objects));
        }
        let missed = u32::try_from(missed).unwrap_or(u32::MAX);
        self.compaction = (due + COMPACTION.saturating_mul(missed) + COMPACTION, self.revision);
    }

    /// Forgets all but the last `keep` changes of every resource, as a compaction of etcd does.
    pub fn compact(&mut self, keep: usize) {
        for log in self.logs.values_mut() {
            log.keep(keep);
        }
    }
}

impl ObjectReader for Store {
    fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        Self::get(self, key)
    }

    fn all<'a>(
        &'a self,
        resource: &'a GroupResource,
    ) -> Box<dyn Iterator<Item = &'a Arc<Value>> + 'a> {
        Box::new(Self::all(self, resource))
    }

    fn incarnation(&self, key: &Key) -> Option<String> {
        self.graves.incarnation(key, self.revision + 1)
    }
}

impl PartialEq for Store {
    fn eq(&self, other: &Self) -> bool {
        let objects = |store: &Self| {
            // A resource without objects equals a resource that never had any.
            let filled = |(_, objects): &(&GroupResource, &Objects)| !objects.is_empty();
            store.objects.iter().filter(filled).map(|(id, all)| (id.clone(), all.clone())).collect()
        };
        let (ours, theirs): (Vec<_>, Vec<_>) = (objects(self), objects(other));
        self.revision == other.revision && self.graves == other.graves && ours == theirs
    }
}
