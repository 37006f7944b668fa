//! The objects, and what happened to them lately.

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

/// How many changes of one resource a watch may lag behind before it has to start over, while they are young. It is
/// twice the objects where these are more: all of them may change at one moment, as Nodes do whose kubelets
/// report together, and nobody who watches has been slow then.
const DEFAULT_WINDOW: usize = 4096;

/// How many changes of one resource are kept however old they are, unless twice the objects are more: a watch cache keeps the
/// changes of a quiet resource beyond etcd's compaction.
const MIN_WINDOW: usize = 512;

/// How often the server forgets what happened before the last time (`--etcd-compaction-interval`).
const COMPACTION: Duration = Duration::from_secs(5 * 60);

/// The revision of a store in which nothing has happened yet.
const FIRST_REVISION: u64 = 1;

/// The objects of one cluster.
///
/// Cloning is cheap beside the objects' size: they are shared. Two stores are equal if they hold the
/// same objects at the same revision; how far back their watch logs reach does not matter.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) ids: Ids,
    pub(super) resources: Arc<BTreeMap<GroupResource, ResourceDef>>,
    /// Objects by resource, then by path.
    pub(super) objects: BTreeMap<GroupResource, Objects>,
    /// Changes by resource.
    pub(super) logs: BTreeMap<GroupResource, Log>,
    /// Who bore a name before, so that the successor is another one.
    pub(super) graves: Graves,
    pub(super) revision: u64,
    /// Functions between versions of custom kinds whose definitions ask for a webhook.
    pub(super) conversions: BTreeMap<GroupResource, Conversion>,
    /// What stands for webhooks of kinds.
    pub(super) admissions: BTreeMap<GroupResource, Admission>,
    /// Whether what stands for webhooks does not answer.
    pub(super) outage: Option<Outage>,
    /// Whether what is created comes with the program and is not looked at once more.
    pub(super) is_founding: bool,
    /// How many objects there may be.
    pub(super) quotas: Vec<Quota>,
    /// Changes that are kept of a resource; `None` for as many as [`DEFAULT_WINDOW`] says.
    window: Option<usize>,
    /// When the next compaction is due, and the revision up to which it forgets.
    compaction: (Time, u64),
    /// How often every watch was ended.
    watches_ended: u64,
}

/// Objects of one resource by [`Key::path`], which is the order of etcd's keys.
pub(super) type Objects = BTreeMap<String, Arc<Value>>;

impl Store {
    /// A store with the built-in resources and the system's namespaces, which are as old as time.
    pub fn new(ids: Ids) -> Self {
        Self::founded(ids, Timestamp::UNIX_EPOCH)
    }

    /// The same with namespaces made at `now`.
    pub fn founded(ids: Ids, now: Timestamp) -> Self {
        let mut store = Self::empty(ids, resources::builtin());
        resources::found(&mut store, now);
        store
    }

    /// A store of these resources, without any object.
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

    /// Lets `found` create what comes with the program. It is not validated: patterns of definitions would be
    /// compiled to see whether they can be, and tests have seen that.
    pub(crate) fn founding(&mut self, found: impl FnOnce(&mut Self)) {
        self.is_founding = true;
        found(self);
        self.is_founding = false;
    }

    /// The revision: the resourceVersion of whatever changed last.
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

    /// How many objects of a resource there are.
    pub fn count(&self, resource: &GroupResource) -> usize {
        self.objects.get(resource).map_or(0, BTreeMap::len)
    }

    /// Makes `event` so. Only events that this store decided, or its original, make sense.
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
        // Watchers whose selection it leaves are told of it as it was read.
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

    /// Registers what a CustomResourceDefinition defines, or no longer defines. Where it says the same
    /// as before, what it made stays, and whoever watches that goes on.
    pub(super) fn register(&mut self, definition: &Value, op: Op, before: Option<&Value>) {
        let id = customresourcedefinitions::defined(definition);
        let is_same = before.is_some_and(|it| customresourcedefinitions::is_same(it, definition));
        if is_same && op != Op::Deleted && self.resources.contains_key(&id) {
            return;
        }
        let resources = Arc::make_mut(&mut self.resources);
        if resources.get(&id).is_some_and(|def| def.custom.is_none()) {
            // Nothing takes the place of a built-in kind.
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

    /// Lets `conversion` stand for the webhook that the definition of `resource` asks for.
    ///
    /// It belongs to this store and its clones; a snapshot does not keep it.
    pub fn convert_with(&mut self, resource: GroupResource, conversion: Conversion) {
        self.conversions.insert(resource, conversion);
    }

    /// Keeps at most `window` changes per resource from now on; older watches have to start over.
    pub fn set_window(&mut self, window: usize) {
        self.window = Some(window);
        self.compact(window);
    }

    /// Ends every watch that began before.
    pub fn end_watches(&mut self) {
        self.watches_ended += 1;
    }

    /// The store after a restore from `backup`, an earlier state of it. Every watch ends, the logs begin at the backup, and
    /// objects that are made anew under the names of lost ones get other UIDs.
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

    /// How often every watch was ended: one that began under another count is over.
    pub fn watches_ended(&self) -> u64 {
        self.watches_ended
    }

    /// Lets time pass until `now`: at every compaction that is due, changes are forgotten that were there at the one before.
    ///
    /// Changes are kept for five to ten minutes therefore, and a few of each resource for longer.
    pub(crate) fn pass(&mut self, now: Time) {
        let (due, until) = self.compaction;
        if now < due {
            return;
        }
        let missed = now.since(due).as_nanos() / COMPACTION.as_nanos();
        // Nothing has happened since the first compaction that was missed.
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
            // A resource whose last object has gone equals one that never had any.
            let filled = |(_, objects): &(&GroupResource, &Objects)| !objects.is_empty();
            store.objects.iter().filter(filled).map(|(id, all)| (id.clone(), all.clone())).collect()
        };
        let (ours, theirs): (Vec<_>, Vec<_>) = (objects(self), objects(other));
        self.revision == other.revision && self.graves == other.graves && ours == theirs
    }
}
