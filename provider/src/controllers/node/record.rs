//! Records the references of machines on their nodes, a few per second, independent of other work.
//!
//! Nodes that another provider initialized carry no reference, and without one the provider cannot prove after a restart
//! that a machine is gone. When such a cluster is taken over, every node needs one write. None of them is urgent, so they
//! have their own pace and delay no join. A failed write is tried again after a growing pause: until it succeeds, the loss
//! of the machine during the next restart could not be proved.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
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

/// References that wait to be written.
pub(super) struct Recorder {
    cluster: Cluster,
    store: Arc<NodeStore>,
    seed: u64,
    /// By name of the node: its UID and the reference of its machine.
    wanted: Mutex<BTreeMap<String, (String, MachineReference)>>,
    arrived: Notify,
}

impl Recorder {
    pub(super) fn new(cluster: Cluster, store: Arc<NodeStore>, seed: u64) -> Self {
        Self { cluster, store, seed, wanted: Mutex::default(), arrived: Notify::new() }
    }

    /// Notes the reference of a node's machine; the latest one counts.
    pub(super) fn record(&self, node: &Node, reference: MachineReference) {
        let wanted = (node.uid.clone(), reference);
        self.wanted
            .lock()
            .expect("nothing panics under this lock")
            .insert(node.name.clone(), wanted);
        self.arrived.notify_one();
    }

    /// Writes forever.
    ///
    /// Cancel safe: a reference that was not written is recorded again after a restart.
    pub(super) async fn run(&self) {
        let jitter = Jitter::new(self.seed, "nodes/record");
        let mut backoff = Backoff::new(Duration::from_secs(1), LONGEST_PAUSE, jitter);
        // Failed writes are tried again together, so that one that is always refused holds up no other.
        let mut failed: BTreeMap<String, (String, MachineReference)> = BTreeMap::new();
        let (mut pause, mut again_at) = (Duration::ZERO, Instant::now());
        loop {
            if !failed.is_empty() && Instant::now() >= again_at {
                let mut wanted = self.wanted.lock().expect("nothing panics under this lock");
                for (name, last) in std::mem::take(&mut failed) {
                    wanted.entry(name).or_insert(last);
                }
            }
            let next = self.wanted.lock().expect("nothing panics under this lock").pop_first();
            let Some((name, (uid, reference))) = next else {
                if failed.is_empty() {
                    backoff.reset();
                    self.arrived.notified().await;
                } else {
                    let _ = tokio::time::timeout_at(again_at, self.arrived.notified()).await;
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
                Err(err) if err.is_not_found() => {}
                Err(err) => {
                    tracing::info!(node = %name, error = %Chain(&err), "recording the reference of a machine failed");
                    if failed.is_empty() {
                        pause = backoff.fail();
                    }
                    // Counted from the last failure: if every write is refused, the pauses are longer than the attempts.
                    again_at = Instant::now() + pause;
                    failed.insert(name, (uid, reference));
                }
            }
            tokio::time::sleep(PACE).await;
        }
    }
}
