//! The objects of one cluster, and a log of their recent changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::graves::Graves;
use super::log::{Entry, Log};
use super::resources::{self, customresourcedefinitions};
use super::{
    Admission, Conversion, Custom, Event, GroupResource, Key, Op, Outage, Quota, ResourceDef,
};
use crate::{Ids, Time};

/// Default maximum of changes kept per resource; twice the number of objects if that is more. A watch that lags further behind
/// has to start over. The window grows with the objects because all of them may change at one moment (Nodes whose kubelets
/// report together do), and a watcher that has not read these changes yet is not slow.
const DEFAULT_WINDOW: usize = 4096;

/// Number of changes of a resource that a compaction keeps regardless of their age; twice the number of objects if that is
/// more. A watch cache also keeps the changes of a quiet resource beyond etcd's compaction.
const MIN_WINDOW: usize = 512;

/// Interval between compactions (`--etcd-compaction-interval`). Each one forgets the changes made before the previous one.
const COMPACTION: Duration = Duration::from_secs(5 * 60);

/// Revision of a store without any change.
const FIRST_REVISION: u64 = 1;

/// The objects of one cluster.
///
/// Clones share the objects, so that cloning is cheap. Two stores are equal if they hold the same objects and the same graves
/// at the same revision; the reach of their watch logs does not matter.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) ids: Ids,
    pub(super) resources: Arc<BTreeMap<GroupResource, ResourceDef>>,
    /// Objects by resource, then by path.
    pub(super) objects: BTreeMap<GroupResource, Objects>,
    /// Changes by resource.
    pub(super) logs: BTreeMap<GroupResource, Log>,
    /// Names of deleted objects, so that a successor gets another UID.
    pub(super) graves: Graves,
    pub(super) revision: u64,
    /// Functions that convert between versions of custom kinds whose definitions ask for a webhook.
    pub(super) conversions: BTreeMap<GroupResource, Conversion>,
    /// Substitutes for the admission webhooks of kinds.
    pub(super) admissions: BTreeMap<GroupResource, Admission>,
    /// The outage, while webhooks do not answer.
    pub(super) outage: Option<Outage>,
    /// True while the store creates the objects that come with the program, which it does not validate again.
    pub(super) is_founding: bool,
    /// Limits on the number of objects.
    pub(super) quotas: Vec<Quota>,
    /// Number of changes kept per resource; `None` for the default, [`DEFAULT_WINDOW`].
    window: Option<usize>,
    /// Time of the next compaction, and the revision up to which it forgets.
    compaction: (Time, u64),
    /// Number of times that all watches were ended.
    watches_ended: u64,
}

/// Objects of one resource by [`Key::path`], which is the order of etcd's keys.
pub(super) type Objects = BTreeMap<String, Arc<Value>>;

impl Store {
    /// Returns a store with the built-in resources and the system's namespaces, which were created at the Unix epoch.
    pub fn new(ids: Ids) -> Self {
        Self::founded(ids, Timestamp::UNIX_EPOCH)
    }

    /// Returns a store like that of [`Store::new`], whose initial objects were created at `now`.
    pub fn founded(ids: Ids, now: Timestamp) -> Self {
        let mut store = Self::empty(ids, resources::builtin());
        resources::found(&mut store, now);
        store
    }

    /// Returns a store of these resources without any object.
    pub fn empty(ids: Ids, resources: Vec<ResourceDef>) -> Self {
        let resources = resources.into_iter().map(|def| (def.id.clone(), def)).collect();
        Self {
            ids,
            resources: Arc::new(resources),
            objects: BTreeMap::new(),
            logs: BTreeMap::new(),
            graves: Graves::default(),
            revision: FIRST_REVISION,
            conversions: BTreeMap::new(),
            admissions: BTreeMap::new(),
            outage: None,
            is_founding: false,
            quotas: Vec::new(),
            window: None,
            compaction: (Time::ZERO + COMPACTION, 0),
            watches_ended: 0,
        }
    }

    /// Lets `found` create the objects that come with the program. The store does not validate them: that would compile the
    /// patterns of definitions, and tests have already shown that they compile.
    pub(crate) fn founding(&mut self, found: impl FnOnce(&mut Self)) {
        self.is_founding = true;
        found(self);
        self.is_founding = false;
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

    /// The object at `key`.
    pub fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(&key.resource)?.get(&key.path())
    }

    /// All objects of a resource, by namespace and name.
    pub fn all(&self, resource: &GroupResource) -> impl Iterator<Item = &Arc<Value>> {
        self.objects.get(resource).into_iter().flat_map(BTreeMap::values)
    }

    /// Number of objects of a resource.
    pub fn count(&self, resource: &GroupResource) -> usize {
        self.objects.get(resource).map_or(0, BTreeMap::len)
    }

    /// Applies `event`, which this store or its original must have decided.
    pub fn fold(&mut self, event: &Event) {
        let Event { key, op, revision, object } = event;
        let at = key.path();
        let objects = self.objects.entry(key.resource.clone()).or_default();
        let previous = match op {
            Op::Added | Op::Modified => objects.insert(at.clone(), object.clone()),
            Op::Deleted => {
                self.graves.dig(key);
                objects.remove(&at)
            }
        };
        let n_objects = objects.len();
        // A watcher whose selection the object leaves gets the previous object as it was read.
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

    /// Registers the resource that a CustomResourceDefinition defines, or removes it. If the definition says the same as
    /// before, its resource stays and watches of it continue.
    pub(super) fn register(&mut self, definition: &Value, op: Op, before: Option<&Value>) {
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

    /// Uses `conversion` in place of the webhook that the definition of `resource` asks for.
    ///
    /// The function belongs to this store and its clones; a snapshot does not keep it.
    pub fn convert_with(&mut self, resource: GroupResource, conversion: Conversion) {
        self.conversions.insert(resource, conversion);
    }

    /// Keeps at most `window` changes per resource from now on; older watches have to start over.
    pub fn set_window(&mut self, window: usize) {
        self.window = Some(window);
        self.compact(window);
    }

    /// Ends every watch that is open now.
    pub fn end_watches(&mut self) {
        self.watches_ended += 1;
    }

    /// Returns the store after a restore from `backup`, an earlier state of this store. Every watch ends, the logs begin at
    /// the backup, and an object created anew under the name of a lost one gets another UID.
    pub(crate) fn replaced_by(&self, backup: &Self) -> Self {
        let mut restored = backup.clone();
        restored.watches_ended = self.watches_ended + 1;
        restored.logs.values_mut().for_each(|log| *log = Log::after(backup.revision));
        restored.compaction = (self.compaction.0, backup.revision);
        restored.graves = self.graves.clone();
        for (resource, objects) in &self.objects {
            let is_lost = |path: &&String| !backup.holds(resource, path);
            for path in objects.keys().filter(is_lost) {
                restored.graves.dig(&Key::at(resource.clone(), path));
            }
        }
        restored
    }

    fn holds(&self, resource: &GroupResource, path: &str) -> bool {
        self.objects.get(resource).is_some_and(|objects| objects.contains_key(path))
    }

    /// Number of times that all watches were ended. A watch that began under another count is over.
    pub fn watches_ended(&self) -> u64 {
        self.watches_ended
    }

    /// Lets time pass until `now`. Each compaction that is due forgets the changes that were there at the previous one.
    ///
    /// The store therefore keeps changes for 5 to 10 minutes, and a few of each resource for longer.
    pub(crate) fn pass(&mut self, now: Time) {
        let (due, until) = self.compaction;
        if now < due {
            return;
        }
        let missed = now.since(due).as_nanos() / COMPACTION.as_nanos();
        // No object has changed since the first missed compaction.
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

impl PartialEq for Store {
    fn eq(&self, other: &Self) -> bool {
        let objects = |store: &Self| {
            // A resource without objects equals one that never had any.
            let filled = |(_, objects): &(&GroupResource, &Objects)| !objects.is_empty();
            store.objects.iter().filter(filled).map(|(id, all)| (id.clone(), all.clone())).collect()
        };
        let (ours, theirs): (Vec<_>, Vec<_>) = (objects(self), objects(other));
        self.revision == other.revision && self.graves == other.graves && ours == theirs
    }
}
