//! A store at one moment, to be kept and restored.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::log::Log;
use super::resources::{self, customresourcedefinitions};
use super::{Key, Op, Store};
use crate::Ids;

/// Everything a store of built-in resources knows, but for its watch logs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    revision: u64,
    objects: Vec<(Key, Arc<Value>)>,
    /// How many objects of a key have gone.
    graves: Vec<(Key, u32)>,
}

impl Store {
    /// This moment.
    pub fn snapshot(&self) -> Snapshot {
        let entry = |(resource, path): (_, &String)| {
            let (namespace, name) = path.split_once('/').unwrap_or(("", path));
            Key::new(Clone::clone(resource), namespace, name)
        };
        let mut objects = Vec::new();
        for (resource, all) in &self.objects {
            objects.extend(all.iter().map(|(path, it)| (entry((resource, path)), it.clone())));
        }
        let graves = self.graves.iter().map(|(key, n)| (key.clone(), *n)).collect();
        Snapshot { revision: self.revision, objects, graves }
    }

    /// A store as it was at the moment of `snapshot`. Watches from earlier versions start over.
    pub fn restore(ids: Ids, snapshot: Snapshot) -> Self {
        let Snapshot { revision, objects, graves } = snapshot;
        let mut store = Self::empty(ids, resources::builtin());
        store.revision = revision;
        store.graves = graves.into_iter().collect();
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
