//! Writes the references of machines to their Nodes if no other write carries them, at most ten per
//! second, independent of other work.
//!
//! Nodes that another provider initialized have no reference, and without one the provider cannot
//! prove after a restart that a machine is gone. When our provider takes over such a cluster, every
//! Node needs one write. None of these writes is urgent, so the recorder has its own pace and does
//! not delay nodes that join. The recorder tries a failed write again after a growing pause: until
//! the write succeeds, the provider could not prove that the machine is gone if the machine were
//! deleted during a restart of the provider.

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
    model::{MachineReference, Node, NodeName, NodeUid},
};

/// Upper bound of the growing pause before the recorder tries failed writes again. Jitter lengthens
/// the pause by up to half; see [`Backoff`].
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Pause after each attempt to write.
const PACE: Duration = Duration::from_millis(100);

/// UID of a node, and the reference of its machine.
type NodeReference = (NodeUid, MachineReference);

/// References that the recorder has yet to write, by name of the node.
#[derive(Default)]
struct Waiting {
    /// References to write next.
    next: BTreeMap<NodeName, NodeReference>,
    /// References whose write failed. The recorder tries them again together after a pause, so that
    /// a reference that the API server always refuses does not delay others.
    failed: BTreeMap<NodeName, NodeReference>,
    /// Name of the node whose reference the recorder has taken to write, and that reference, until
    /// the recorder takes the next one. `None` while no reference waits.
    writing: Option<(NodeName, MachineReference)>,
}

impl Waiting {
    /// Moves the failed references to `next`; a newer reference of a node stays there.
    fn try_failed_again(&mut self) {
        for (name, wanted) in std::mem::take(&mut self.failed) {
            self.next.entry(name).or_insert(wanted);
        }
    }
}

/// Writes references to Nodes, one after the other.
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

    /// Notes the reference of a node's machine for [`Recorder::run`]; the latest one of a node
    /// counts.
    pub(super) fn record(&self, node: &Node, reference: MachineReference) {
        let wanted = (node.uid.clone(), reference);
        let mut waiting = self.lock();
        waiting.failed.remove(&node.name);
        waiting.next.insert(node.name.clone(), wanted);
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Notes that `reference` is the current one of this node. Drops a different reference that
    /// waits, because the Node already has the current one, or gets it with another write or with a
    /// later [`Recorder::record`]. If the recorder is writing a different one now, it writes the
    /// current one afterwards.
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

    /// Writes the noted references, forever.
    ///
    /// Cancel safe: after a restart the controller notes every unwritten reference again.
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
                    tracing::debug!(node = %name, reference = %reference, "recorded the reference of the machine in an annotation of the Node");
                }
                // The Node was deleted. A new Node of the same name has another UID, so its
                // reference is noted separately.
                Err(err) if err.says_gone(name.as_str()) => {}
                Err(err) => {
                    tracing::info!(node = %name, error = %Chain(&err), "writing the reference of the machine into an annotation of the Node failed; retrying");
                    if !any_failed {
                        pause = backoff.next_pause();
                    }
                    // The pause counts from the last failure, so that the recorder pauses even if
                    // the attempts took longer.
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
