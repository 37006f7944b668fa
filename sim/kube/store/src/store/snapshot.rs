//! Snapshots: the serializable state of a store at one moment.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::log::Log;
use crate::Ids;
use crate::resources::{self, customresourcedefinitions};
use crate::{GroupResource, Key, Op, Store};

/// The objects, the revision and the numbers of deletions of a store with the built-in resources.
///
/// A snapshot contains neither watch logs nor settings, such as quotas, the functions that replace
/// webhooks, and outages of webhooks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    revision: u64,
    objects: Vec<(Key, Arc<Value>)>,
    /// Number of deletions by key, for resources whose deletions are counted.
    graves: Vec<(Key, u32)>,
    /// Resources whose deletions are no longer counted, because they had too many names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    uncounted: Vec<GroupResource>,
}

impl Store {
    /// Takes a snapshot of the current state.
    pub fn snapshot(&self) -> Snapshot {
        let mut objects = Vec::new();
        for (resource, all) in &self.objects {
            let entries =
                all.iter().map(|(path, it)| (Key::from_path(resource.clone(), path), it.clone()));
            objects.extend(entries);
        }
        let graves = self.graves.counted().collect();
        let uncounted = self.graves.uncounted().cloned().collect();
        Snapshot { revision: self.revision, objects, graves, uncounted }
    }

    /// Returns a store with the state in `snapshot`. Its watch logs are empty, so a client with a
    /// watch from an earlier revision must list again.
    pub fn restore(ids: Ids, snapshot: Snapshot) -> Self {
        let Snapshot { revision, objects, graves, uncounted } = snapshot;
        let mut store = Self::empty(ids, resources::builtin());
        store.revision = revision;
        graves.iter().for_each(|(key, n_times)| store.graves.add(key, *n_times));
        uncounted.into_iter().for_each(|resource| store.graves.stop(resource));
        for (key, object) in objects {
            let path = key.path();
            if key.resource == customresourcedefinitions::id() {
                store.register(&object, Op::Added, None);
            }
            store.objects.entry(key.resource).or_default().insert(path, object);
        }
        store.logs = store.resources().map(|def| (def.id.clone(), Log::after(revision))).collect();
        store
    }
}

impl Serialize for Store {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.ids, self.snapshot()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Store {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (ids, snapshot) = <(Ids, Snapshot)>::deserialize(deserializer)?;
        Ok(Self::restore(ids, snapshot))
    }
}
