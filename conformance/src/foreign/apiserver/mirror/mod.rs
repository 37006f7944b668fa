//! Carries changes between the world and the real server, in both directions.
//!
//! The mirror compares states. For every mirrored object it keeps both copies as they were when
//! they last agreed, and carries what either side has changed since then to the other side. It
//! keeps the result of its own writes as agreed, so changes do not loop. While a case runs, only
//! the mirror and providers write mirrored objects on the real server. The mirror carries a
//! provider's write to the world before the provider gets the answer (see [`super::backing`]), so
//! judges see the write in the world at that moment, as with the built-in server. The mirror does
//! not use world time and also works while world time stands still.

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
use super::merge::merged;
use super::resources::{MIRRORED, Resource};
use super::uids::{self, Uids};

/// Maximum number of attempts for one object. More would mean that another client changes the
/// object again and again.
const MOST_ATTEMPTS: usize = 20;

/// Carries the changes of mirrored objects between a world and a real server, in both directions.
#[derive(Debug)]
pub(super) struct Mirror {
    world: WorldHandle,
    client: Client,
    /// Objects whose copies have agreed. The mirror holds the lock while it makes the copies of one
    /// object agree, or those of all objects of a collection that a provider has written. The
    /// mirror's requests to the real server are part of this time.
    known: tokio::sync::Mutex<KnownPairs>,
    /// The first error of [`Mirror::follow`] or [`Mirror::carry_write`], after which the two sides
    /// may differ; `None` without an error.
    failed: Mutex<Option<String>>,
}

/// Objects whose copies have agreed and are not deleted, and the UIDs of all objects whose copies
/// have ever agreed.
#[derive(Debug, Default)]
struct KnownPairs {
    pairs: BTreeMap<Key, Pair>,
    uids: Uids,
}

/// Both copies of an object as they last agreed: `ours` in the world, `theirs` on the real server.
#[derive(Clone, Debug)]
struct Pair {
    ours: Arc<Value>,
    theirs: Value,
}

/// Result of one attempt to make the copies of an object agree.
enum Attempt {
    /// The copies agree, or nothing has to be copied.
    Done,
    /// Another attempt is needed: the object changed during this attempt, or this attempt did only
    /// a part.
    Overtaken,
}

impl Mirror {
    pub(super) fn new(world: WorldHandle, client: Client) -> Self {
        Self { world, client, known: tokio::sync::Mutex::default(), failed: Mutex::default() }
    }

    /// Carries changes of the world to the real server, until `stop` is canceled or an error
    /// occurs, which [`Self::verdict`] then returns.
    pub(super) async fn follow(&self, stop: CancellationToken) {
        let mut changes = self.world.changes();
        loop {
            // Marks the present changes as seen before it reads them, so that a later change wakes
            // this loop.
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

    /// Carries all changes of the world to the real server.
    ///
    /// # Errors
    /// Fails if the real server does not answer, if one side rejects an object of the other, or if
    /// the copies of an object do not agree after [`MOST_ATTEMPTS`] attempts.
    pub(super) async fn catch_up(&self) -> anyhow::Result<()> {
        let changed = {
            let known = self.known.lock().await;
            self.world.read(|world| known.changed(&world.cluster))
        };
        for key in changed {
            // Takes the lock for one object at a time, so that a provider's write does not wait for
            // all objects.
            let mut known = self.known.lock().await;
            self.agree(&mut known, &key, false).await?;
        }
        Ok(())
    }

    /// Carries a provider's write on the real server to the world. An empty `name` means all
    /// objects of the resource in the namespace, and an empty `namespace` all namespaces. If this
    /// fails, [`Self::verdict`] returns the error.
    pub(super) async fn carry_write(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
    ) {
        let done = match name {
            "" => self.carry_collection(resource, namespace).await,
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

    async fn carry_collection(&self, resource: &Resource, namespace: &str) -> anyhow::Result<()> {
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
        let mut failed = self.failed.lock().expect("no holder panics");
        failed.get_or_insert_with(|| format!("{error:#}"));
    }

    /// Checks that neither [`Self::follow`] nor [`Self::carry_write`] has failed. After such an
    /// error the two sides may have differed.
    ///
    /// # Errors
    /// Returns the first error.
    pub(super) fn verdict(&self) -> anyhow::Result<()> {
        match self.failed.lock().expect("no holder panics").as_ref() {
            None => Ok(()),
            Some(why) => Err(anyhow!(
                "the mirror between the simulated world and the real API server failed, so their \
                 objects may differ: {why}"
            )),
        }
    }

    /// Makes the copies of one object agree, and records them in `known`, or removes them from it
    /// if the object is deleted. `is_written` is true if the real server may have a new version of
    /// the object.
    ///
    /// # Errors
    /// Fails if a request fails, if one side rejects the object of the other, or if the copies do
    /// not agree after [`MOST_ATTEMPTS`] attempts.
    async fn agree(
        &self,
        known: &mut KnownPairs,
        key: &Key,
        is_written: bool,
    ) -> anyhow::Result<()> {
        let mut is_written = is_written;
        for _ in 0..MOST_ATTEMPTS {
            match self.attempt(known, key, is_written).await? {
                Attempt::Done => return Ok(()),
                Attempt::Overtaken => is_written = true,
            }
        }
        bail!(
            "{key}: the mirror made {MOST_ATTEMPTS} attempts, but the object in the simulated \
             world still differs from that on the real API server; play the case again"
        )
    }

    async fn attempt(
        &self,
        known: &mut KnownPairs,
        key: &Key,
        is_written: bool,
    ) -> anyhow::Result<Attempt> {
        let Some(resource) = Resource::find(&key.resource) else { return Ok(Attempt::Done) };
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
                (Some(ours), None) => self.create_on_server(known, resource, key, &ours).await,
                (None, Some(theirs)) if is_terminating(&theirs) => Ok(Attempt::Done),
                (None, Some(theirs)) => self.create_in_world(known, key, &theirs),
                // Both sides created the object by themselves; each keeps its copy.
                (Some(ours), Some(theirs)) => Ok(known.agreed(key, ours, theirs)),
            };
        };
        let ours = ours.filter(|it| uids::uid(it) == uids::uid(&pair.ours));
        let theirs = theirs.filter(|it| uids::uid(it) == uids::uid(&pair.theirs));
        match (ours, theirs) {
            (Some(ours), Some(theirs)) if is_terminating(&ours) == is_terminating(&theirs) => {
                self.merge(known, resource, key, (pair, ours, theirs)).await
            }
            (ours, theirs) => {
                let ours = ours.filter(|it| !is_terminating(it));
                let theirs = theirs.filter(|it| !is_terminating(it));
                match (ours, theirs) {
                    // One side still has the object, so the deletion on the other side is carried
                    // to it.
                    (Some(ours), _) => self.delete_here(key, uids::uid(&ours))?,
                    (None, Some(theirs)) => {
                        self.client.delete(&resource.path(key), Some(uids::uid(&theirs))).await?;
                    }
                    (None, None) => {
                        known.pairs.remove(key);
                    }
                }
                Ok(Attempt::Overtaken)
            }
        }
    }

    /// Carries the changes of each side to the other. If the copies agree then, records them in
    /// `known`; else another attempt is needed.
    async fn merge(
        &self,
        known: &mut KnownPairs,
        resource: &Resource,
        key: &Key,
        (pair, ours, theirs): (Pair, Arc<Value>, Value),
    ) -> anyhow::Result<Attempt> {
        let uids = &known.uids;
        let there = merged(&theirs, &uids.for_server(&pair.ours), &uids.for_server(&ours));
        let here = merged(&ours, &uids.for_world(&pair.theirs), &uids.for_world(&theirs));
        let theirs = match there == theirs {
            true => Some(theirs),
            false => self.replace_on_server(resource, key, &theirs, there).await?,
        };
        // The next attempt may carry some of these changes again, which has no effect.
        let Some(theirs) = theirs else { return Ok(Attempt::Overtaken) };
        let ours = match here == *ours {
            true => Some(ours),
            false => self.replace_in_world(resource, key, &ours, here)?,
        };
        let Some(ours) = ours else { return Ok(Attempt::Overtaken) };
        Ok(known.agreed(key, ours, theirs))
    }
}

impl KnownPairs {
    /// Returns the keys of the mirrored objects that the world has created, changed or removed
    /// since the copies last agreed. Created and changed objects come first, each after the objects
    /// that it needs.
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
