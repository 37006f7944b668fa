//! Tells the world what happens on the real server, and the real server what happens in the world.
//!
//! It looks and is not told: of every object it keeps the two copies as they were when they last agreed, and what either side has
//! changed since is carried to the other. A copy that only this mirror has changed has no change to carry, so that nothing goes
//! round in circles. The real server changes by the provider's writes alone, and each of them is carried before it is answered
//! (see [`super::backing`]): judges see it in the world at that moment, as with the built-in server. Nothing here goes by the
//! world's time: it works also while that stands still.

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

/// Somebody else writes the same object at the same moment, again and again: then something is wrong.
const MOST_ATTEMPTS: usize = 20;

/// A world and a real server that show the same objects.
#[derive(Debug)]
pub(super) struct Mirror {
    world: WorldHandle,
    client: Client,
    /// Held while an object is brought to agree, over the requests that this takes.
    known: tokio::sync::Mutex<Known>,
    /// Why the two may differ by now.
    failed: Mutex<Option<String>>,
}

/// What has agreed.
#[derive(Debug, Default)]
struct Known {
    pairs: BTreeMap<Key, Pair>,
    uids: Uids,
}

/// The copies of an object when they last agreed.
#[derive(Clone, Debug)]
struct Pair {
    ours: Arc<Value>,
    theirs: Value,
}

/// What came of an attempt.
enum Attempt {
    Done,
    /// Something else has happened meanwhile: look again.
    Overtaken,
}

impl Mirror {
    pub(super) fn new(world: WorldHandle, client: Client) -> Self {
        Self { world, client, known: tokio::sync::Mutex::default(), failed: Mutex::default() }
    }

    /// Shows the real server what happens in the world, until `stop`.
    pub(super) async fn follow(&self, stop: CancellationToken) {
        let mut changes = self.world.changes();
        loop {
            // Seen before looking: what changes after the look wakes us.
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
    /// The real server does not answer, or one side refuses what the other has.
    pub(super) async fn catch_up(&self) -> anyhow::Result<()> {
        let changed = {
            let known = self.known.lock().await;
            self.world.read(|world| known.changed(&world.cluster))
        };
        for key in changed {
            // One by one: a write of the provider need not wait for all of them.
            let mut known = self.known.lock().await;
            self.agree(&mut known, &key, false).await?;
        }
        Ok(())
    }

    /// Brings to agree what a provider has written on the real server; a name that is empty stands for all of the namespace.
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

    /// Whether the two sides have agreed all the time.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn verdict(&self) -> anyhow::Result<()> {
        match self.failed.lock().expect("nobody panics with it").as_ref() {
            None => Ok(()),
            Some(why) => Err(anyhow!("the world and the real API server differ: {why}")),
        }
    }

    /// Brings one object to agree. `is_written` says that the real server may have another version than when it last did.
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
                // Both have it by themselves, and each as it is.
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
                    // Whichever has it still: the other side's deletion is carried.
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

    /// Carries what either side has changed to the other.
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
        // What is carried again because the world was faster changes nothing there.
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
    /// What is in the world otherwise than when it last agreed, in an order in which it can be told.
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
