//! Records the references of machines on their nodes, a few per second, independent of other work.
//!
//! Nodes that another provider initialized carry no reference, and without one the provider cannot prove after a restart
//! that a machine is gone. When such a cluster is taken over, every node needs one write. None of them is urgent, so they
//! have their own pace and delay no join. A failed write is tried again after a growing pause: until it succeeds, the loss
//! of the machine during the next restart could not be proved.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use provider_vcenter::{Backoff, Chain, Jitter};
use tokio::{sync::Notify, time::Instant};

use super::plan;
use crate::{
    cluster::{Cluster, NodeStore, PatchKind},
    model::{MachineReference, Node},
};

/// Longest pause before failed writes are tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Pause after each write.
const PACE: Duration = Duration::from_millis(100);

/// UID of a node, and the reference of its machine.
type Wanted = (String, MachineReference);

/// References that wait to be written, by name of the node.
#[derive(Default)]
struct Waiting {
    /// References to write next.
    next: BTreeMap<String, Wanted>,
    /// References whose write failed. They are tried again together, so that one that is always refused holds up no other.
    failed: BTreeMap<String, Wanted>,
    /// Name of the node whose reference is being written, and that reference.
    writing: Option<(String, MachineReference)>,
}

impl Waiting {
    /// Moves the failed references to those to write next.
    fn try_failed_again(&mut self) {
        for (name, wanted) in std::mem::take(&mut self.failed) {
            self.next.entry(name).or_insert(wanted);
        }
    }
}

/// Writes references, one after the other.
pub(super) struct Recorder {
    cluster: Cluster,
    store: Arc<NodeStore>,
    seed: u64,
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

impl Recorder {
    pub(super) fn new(cluster: Cluster, store: Arc<NodeStore>, seed: u64) -> Self {
        Self { cluster, store, seed, waiting: Mutex::default(), arrived: Notify::new() }
    }

    /// Notes the reference of a node's machine; the latest one counts.
    pub(super) fn record(&self, node: &Node, reference: MachineReference) {
        let wanted = (node.uid.clone(), reference);
        let mut waiting = self.lock();
        waiting.failed.remove(&node.name);
        waiting.next.insert(node.name.clone(), wanted);
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Drops a reference of the node that waits and is not this one: the machine has another reference now, which the node
    /// has already or gets with another write. If another one is being written, records this one after it.
    pub(super) fn supersede(&self, node: &Node, reference: &MachineReference) {
        let mut waiting = self.lock();
        let Waiting { next, failed, writing } = &mut *waiting;
        for references in [&mut *next, failed] {
            if references.get(&node.name).is_some_and(|(_, waiting)| waiting != reference) {
                references.remove(&node.name);
            }
        }
        if writing.as_ref().is_some_and(|(name, old)| *name == node.name && old != reference) {
            next.insert(node.name.clone(), (node.uid.clone(), reference.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nothing panics under this lock")
    }

    /// Writes forever.
    ///
    /// Cancel safe: a reference that was not written is recorded again after a restart.
    pub(super) async fn run(&self) {
        let jitter = Jitter::new(self.seed, "nodes/record");
        let mut backoff = Backoff::new(Duration::from_secs(1), LONGEST_PAUSE, jitter);
        let (mut pause, mut again_at) = (Duration::ZERO, Instant::now());
        loop {
            let (next, any_failed) = {
                let mut waiting = self.lock();
                if Instant::now() >= again_at {
                    waiting.try_failed_again();
                }
                let next = waiting.next.pop_first();
                let writing = next.as_ref();
                waiting.writing =
                    writing.map(|(name, (_, reference))| (name.clone(), reference.clone()));
                (next, !waiting.failed.is_empty())
            };
            let Some((name, (uid, reference))) = next else {
                if any_failed {
                    let _ = tokio::time::timeout_at(again_at, self.arrived.notified()).await;
                } else {
                    backoff.reset();
                    self.arrived.notified().await;
                }
                continue;
            };
            let node = self.store.get(&name).filter(|node| node.uid == uid);
            let Some(node) = node.filter(|node| node.reference.as_ref() != Some(&reference)) else {
                continue;
            };
            let body = plan::reference_patch(&node, &reference);
            let path = format!("/api/v1/nodes/{name}");
            match self.cluster.patch(&path, PatchKind::Strategic, &body).await {
                Ok(written) => {
                    self.store.take_over(&written);
                    tracing::debug!(node = %name, reference = %reference, "reference recorded");
                }
                // The node was deleted; another node of the same name has another UID and its own record.
                Err(err) if err.says_gone(&name) => {}
                Err(err) => {
                    tracing::info!(node = %name, error = %Chain(&err), "recording the reference of a machine failed");
                    if !any_failed {
                        pause = backoff.fail();
                    }
                    // Counted from the last failure: if every write is refused, the pauses are longer than the attempts.
                    again_at = Instant::now() + pause;
                    let mut waiting = self.lock();
                    // A newer reference that arrived during the write replaces this one.
                    if !waiting.next.contains_key(&name) {
                        waiting.failed.insert(name, (uid, reference));
                    }
                }
            }
            tokio::time::sleep(PACE).await;
        }
    }
}
