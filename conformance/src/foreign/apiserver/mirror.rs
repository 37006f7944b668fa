//! Carries changes between the world and the real server, in both directions.
//!
//! The mirror compares states. For every object it keeps the two copies as of their last agreement, and carries what either side
//! has changed since to the other. A copy that only this mirror has changed has no change to carry, so changes do not loop. Only
//! the provider's writes change the real server, and each is carried before it is answered (see [`super::backing`]): judges see
//! it in the world at that moment, as with the built-in server. The mirror does not use the world's time and works while that
//! stands still.

mod sides;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use anyhow::{anyhow, bail};
use serde_json::Value;
use sim::WorldHandle;
use sim::world::objects::{Key, Store};
use tokio_util::sync::CancellationToken;

use super::client::Client;
use super::merge::carried;
use super::resources::{MIRRORED, Resource};
use super::uids::{self, Uids};

/// Maximum number of attempts for one object; more would mean that another client writes it again and again.
const MOST_ATTEMPTS: usize = 20;

/// Keeps a world and a real server equal in the mirrored objects.
#[derive(Debug)]
pub(super) struct Mirror {
    world: WorldHandle,
    client: Client,
    /// Objects in agreement; locked while an object is brought to agree, including the requests for it.
    known: tokio::sync::Mutex<Known>,
    /// The first error, after which the two sides may differ.
    failed: Mutex<Option<String>>,
}

/// Objects and UIDs in agreement.
#[derive(Debug, Default)]
struct Known {
    pairs: BTreeMap<Key, Pair>,
    uids: Uids,
}

/// Both copies of an object at their last agreement.
#[derive(Clone, Debug)]
struct Pair {
    ours: Arc<Value>,
    theirs: Value,
}

/// Result of an attempt to bring an object to agree.
enum Attempt {
    Done,
    /// The object has changed meanwhile, so another attempt is needed.
    Overtaken,
}

impl Mirror {
    pub(super) fn new(world: WorldHandle, client: Client) -> Self {
        Self { world, client, known: tokio::sync::Mutex::default(), failed: Mutex::default() }
    }

    /// Carries changes of the world to the real server, until `stop`.
    pub(super) async fn follow(&self, stop: CancellationToken) {
        let mut changes = self.world.changes();
        loop {
            // Marks before it reads, so that a later change wakes this loop.
            changes.mark_unchanged();
            if let Err(error) = self.catch_up().await {
                self.fail(&error);
                return;
            }
            if stop.run_until_cancelled(changes.changed()).await.is_none() {
                return;
            }
        }
    }

    /// Brings everything to agree that has changed in the world.
    ///
    /// # Errors
    /// Fails if the real server does not answer, or one side rejects an object of the other.
    pub(super) async fn catch_up(&self) -> anyhow::Result<()> {
        let changed = {
            let known = self.known.lock().await;
            self.world.read(|world| known.changed(&world.cluster))
        };
        for key in changed {
            // Takes the lock for one object at a time, so that a write of the provider does not wait for all.
            let mut known = self.known.lock().await;
            self.agree(&mut known, &key, false).await?;
        }
        Ok(())
    }

    /// Carries a provider's write on the real server to the world; an empty name means all objects of the namespace.
    pub(super) async fn written(&self, resource: &'static Resource, namespace: &str, name: &str) {
        let done = match name {
            "" => self.collected(resource, namespace).await,
            name => {
                let key = Key::new(resource.id(), namespace, name);
                let mut known = self.known.lock().await;
                self.agree(&mut known, &key, true).await
            }
        };
        if let Err(error) = done {
            self.fail(&error);
        }
    }

    async fn collected(&self, resource: &Resource, namespace: &str) -> anyhow::Result<()> {
        let mut known = self.known.lock().await;
        let there = self.client.list(&resource.collection(namespace)).await?;
        let mut keys: BTreeSet<Key> = there.iter().map(|it| resource.key(it)).collect();
        let is_here = |key: &&Key| {
            key.resource == resource.id() && (namespace.is_empty() || key.namespace == namespace)
        };
        keys.extend(known.pairs.keys().filter(is_here).cloned());
        for key in keys {
            self.agree(&mut known, &key, true).await?;
        }
        Ok(())
    }

    fn fail(&self, error: &anyhow::Error) {
        let mut failed = self.failed.lock().expect("nobody panics with it");
        failed.get_or_insert_with(|| format!("{error:#}"));
    }

    /// Checks that the two sides have agreed all the time.
    ///
    /// # Errors
    /// Returns the first error of the mirror.
    pub(super) fn verdict(&self) -> anyhow::Result<()> {
        match self.failed.lock().expect("nobody panics with it").as_ref() {
            None => Ok(()),
            Some(why) => Err(anyhow!("the world and the real API server differ: {why}")),
        }
    }

    /// Brings one object to agree. `is_written` is true if the real server may have a new version of it.
    async fn agree(&self, known: &mut Known, key: &Key, is_written: bool) -> anyhow::Result<()> {
        let mut is_written = is_written;
        for _ in 0..MOST_ATTEMPTS {
            match self.attempt(known, key, is_written).await? {
                Attempt::Done => return Ok(()),
                Attempt::Overtaken => is_written = true,
            }
        }
        bail!("{key}: the two do not come to agree")
    }

    async fn attempt(
        &self,
        known: &mut Known,
        key: &Key,
        is_written: bool,
    ) -> anyhow::Result<Attempt> {
        let Some(resource) = Resource::of(&key.resource) else { return Ok(Attempt::Done) };
        let pair = known.pairs.get(key).cloned();
        let theirs = match &pair {
            Some(pair) if !is_written => Some(pair.theirs.clone()),
            _ => self.client.get(&resource.path(key)).await?,
        };
        let ours = self.world.read(|world| world.cluster.get(key).cloned());
        let Some(pair) = pair else {
            return match (ours, theirs) {
                (None, None) => Ok(Attempt::Done),
                (Some(ours), None) if is_terminating(&ours) => Ok(Attempt::Done),
                (Some(ours), None) => self.create_there(known, resource, key, &ours).await,
                (None, Some(theirs)) if is_terminating(&theirs) => Ok(Attempt::Done),
                (None, Some(theirs)) => self.create_here(known, key, &theirs),
                // Both sides created the object by themselves; each keeps its copy.
                (Some(ours), Some(theirs)) => Ok(known.agreed(key, ours, theirs)),
            };
        };
        let ours = ours.filter(|it| uids::of(it) == uids::of(&pair.ours));
        let theirs = theirs.filter(|it| uids::of(it) == uids::of(&pair.theirs));
        match (ours, theirs) {
            (Some(ours), Some(theirs)) if is_terminating(&ours) == is_terminating(&theirs) => {
                self.merge(known, resource, key, (pair, ours, theirs)).await
            }
            (ours, theirs) => {
                let ours = ours.filter(|it| !is_terminating(it));
                let theirs = theirs.filter(|it| !is_terminating(it));
                match (ours, theirs) {
                    // One side still has the object: carries the deletion of the other side.
                    (Some(ours), _) => self.delete_here(key, uids::of(&ours))?,
                    (None, Some(theirs)) => {
                        self.client.delete(&resource.path(key), Some(uids::of(&theirs))).await?;
                    }
                    (None, None) => {
                        known.pairs.remove(key);
                    }
                }
                Ok(Attempt::Overtaken)
            }
        }
    }

    /// Carries the changes of each side to the other.
    async fn merge(
        &self,
        known: &mut Known,
        resource: &Resource,
        key: &Key,
        (pair, ours, theirs): (Pair, Arc<Value>, Value),
    ) -> anyhow::Result<Attempt> {
        let uids = &known.uids;
        let there = carried(&theirs, &uids.there(&pair.ours), &uids.there(&ours));
        let here = carried(&ours, &uids.here(&pair.theirs), &uids.here(&theirs));
        let theirs = match there == theirs {
            true => Some(theirs),
            false => self.replace_there(resource, key, &theirs, there).await?,
        };
        // The next attempt carries these changes again, which has no effect.
        let Some(theirs) = theirs else { return Ok(Attempt::Overtaken) };
        let ours = match here == *ours {
            true => Some(ours),
            false => self.replace_here(resource, key, &ours, here)?,
        };
        let Some(ours) = ours else { return Ok(Attempt::Overtaken) };
        Ok(known.agreed(key, ours, theirs))
    }
}

impl Known {
    /// Returns the objects of the world that differ from their last agreement, each after the objects that it needs.
    fn changed(&self, store: &Store) -> Vec<Key> {
        let version = |it: &Value| it["metadata"]["resourceVersion"].clone();
        let mut changed = Vec::new();
        for resource in &MIRRORED {
            for ours in store.all(&resource.id()) {
                let key = resource.key(ours);
                let pair = self.pairs.get(&key);
                if pair.is_none_or(|pair| version(&pair.ours) != version(ours)) {
                    changed.push(key);
                }
            }
        }
        changed.extend(self.pairs.keys().filter(|key| store.get(key).is_none()).cloned());
        changed
    }

    fn agreed(&mut self, key: &Key, ours: Arc<Value>, theirs: Value) -> Attempt {
        self.uids.pair(&ours, &theirs);
        self.pairs.insert(key.clone(), Pair { ours, theirs });
        Attempt::Done
    }
}

fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}
