//! The objects of one kind that the server knows, by name. A list and a watch keep them, and so do the
//! answers to the server's own writes, so that no write is repeated before its event arrives.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
};

use serde_json::Value;
use tokio::sync::Notify;

use super::MachineKey;
use crate::{
    cluster::{ObjectChange, ObjectView, is_earlier},
    model::ProviderId,
};

/// Form in which the server keeps an object.
pub(crate) trait Item: Clone + Send + Sync + Sized {
    /// Reads an object; `None` if it is not of interest.
    fn read(object: &Value) -> Option<Self>;
    fn name(&self) -> &str;
    /// Resource version.
    fn version(&self) -> &str;

    /// True if nothing that the server reads differs. Kubelets write their Nodes every few minutes.
    fn is_same(&self, _other: &Self) -> bool {
        false
    }
}

/// The known objects.
pub(crate) struct Mirror<T> {
    known: Mutex<Known<T>>,
    /// Signal after each change.
    wake: Arc<Notify>,
}

struct Known<T> {
    objects: BTreeMap<String, T>,
    is_listed: bool,
    /// Resource version of the last list or event.
    seen_at: String,
}

impl<T: Item> Mirror<T> {
    pub(crate) fn new(wake: &Arc<Notify>) -> Self {
        let known = Known { objects: BTreeMap::new(), is_listed: false, seen_at: String::new() };
        Self { known: Mutex::new(known), wake: Arc::clone(wake) }
    }

    fn known(&self) -> MutexGuard<'_, Known<T>> {
        self.known.lock().expect("no holder panics")
    }

    /// Returns the objects; `None` before the first list.
    pub(crate) fn all(&self) -> Option<Vec<T>> {
        let known = self.known();
        known.is_listed.then(|| known.objects.values().cloned().collect())
    }

    /// Takes the answer to a write.
    pub(crate) fn apply(&self, object: &Value) {
        if let Some(item) = T::read(object) {
            self.take(item);
        }
    }

    fn take(&self, item: T) {
        if self.known().apply(item) {
            self.wake.notify_one();
        }
    }

    /// Takes the answer to a deletion.
    pub(crate) fn remove(&self, name: &str) {
        self.known().objects.remove(name);
    }
}

impl<T: Item> Known<T> {
    /// Takes a state, unless a later one is known. Returns true if something has changed.
    fn apply(&mut self, item: T) -> bool {
        let known = self.objects.get(item.name());
        if known.is_some_and(|known| is_earlier(item.version(), known.version())) {
            return false;
        }
        let has_changed = known.is_none_or(|known| !known.is_same(&item));
        self.objects.insert(item.name().to_owned(), item);
        has_changed
    }
}

impl<T: Item> ObjectView for Mirror<T> {
    type Object = T;
    /// Names of the known objects.
    type Before = Vec<String>;

    fn read(&self, object: &Value) -> Option<T> {
        T::read(object)
    }

    fn before_list(&self) -> Vec<String> {
        self.known().objects.keys().cloned().collect()
    }

    fn listed(&self, objects: Vec<T>, before: Vec<String>, version: &str) {
        let mut known = self.known();
        if is_earlier(version, &known.seen_at) {
            // The API server was restored from a backup.
            known.objects.clear();
        }
        version.clone_into(&mut known.seen_at);
        for name in before.iter().filter(|name| objects.iter().all(|it| it.name() != **name)) {
            known.objects.remove(name);
        }
        for item in objects {
            known.apply(item);
        }
        known.is_listed = true;
        drop(known);
        self.wake.notify_one();
    }

    fn changed(&self, change: ObjectChange<'_>) {
        match change {
            ObjectChange::Deleted(object) => {
                self.remove(object["metadata"]["name"].as_str().unwrap_or_default());
                self.wake.notify_one();
            }
            ObjectChange::Applied(object) => self.apply(object),
        }
    }

    fn confirmed(&self, version: &str) {
        version.clone_into(&mut self.known().seen_at);
    }
}

/// A Node of the workload cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// Empty until a cloud controller manager has set it.
    pub(crate) provider_id: String,
    version: String,
}

impl Item for Node {
    fn read(object: &Value) -> Option<Self> {
        let metadata = &object["metadata"];
        Some(Self {
            name: metadata["name"].as_str()?.to_owned(),
            provider_id: object["spec"]["providerID"].as_str().unwrap_or_default().to_owned(),
            version: metadata["resourceVersion"].as_str()?.to_owned(),
        })
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn is_same(&self, other: &Self) -> bool {
        self.provider_id == other.provider_id
    }
}

/// The provider IDs of the Nodes, and the names of those without one.
pub(crate) struct Nodes {
    ids: BTreeSet<String>,
    names: BTreeSet<String>,
}

impl Nodes {
    pub(crate) fn new(all: Vec<Node>) -> Self {
        let (without, with): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|it| it.provider_id.is_empty());
        Self {
            ids: with.into_iter().map(|it| it.provider_id).collect(),
            names: without.into_iter().map(|it| it.name).collect(),
        }
    }

    /// True if the machine is a Node.
    pub(crate) fn has(&self, key: &MachineKey) -> bool {
        let id = ProviderId(key.bios_uuid).to_string();
        self.ids.contains(&id) || self.names.contains(&key.name)
    }
}
