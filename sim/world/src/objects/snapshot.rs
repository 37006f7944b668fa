//! A store written down and read back: objects, revision and graves; watches have to start over.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{GroupResource, Key, Store};
use crate::Ids;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Snapshot {
    ids: Ids,
    revision: u64,
    objects: Vec<(GroupResource, BTreeMap<String, Arc<Value>>)>,
    graves: Vec<(Key, u32)>,
}

impl Serialize for Store {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Snapshot {
            ids: self.ids,
            revision: self.revision,
            objects: self.objects.iter().map(|(id, all)| (id.clone(), all.clone())).collect(),
            graves: self.graves.iter().map(|(key, n)| (key.clone(), *n)).collect(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Store {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Snapshot { ids, revision, objects, graves } = Snapshot::deserialize(deserializer)?;
        let mut store = Self::new(ids);
        store.revision = revision;
        store.objects = objects.into_iter().collect();
        store.graves = graves.into_iter().collect();
        // Nothing of the past is known: a watch from before the snapshot has to start over.
        store.forget_before(revision);
        Ok(store)
    }
}
