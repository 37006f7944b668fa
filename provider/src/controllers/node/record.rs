//! Records on nodes where their machines were found, a few per second, beside everything else.
//!
//! Nodes that another hand initialized carry no reference, and without one nobody can prove after a restart that a machine
//! is gone. When such a cluster is taken over, every node needs one write. None of them is urgent, so they have a pace of
//! their own and hold up no join. One that fails is tried again after a pause that grows: until it is made, the loss of the
//! machine in the next restart could not be proved.

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

/// The longest pause before writes that failed are tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Pause after each write.
const PACE: Duration = Duration::from_millis(100);

/// References that wait to be written.
pub(super) struct Recorder {
    cluster: Cluster,
    store: Arc<NodeStore>,
    seed: u64,
    /// By name of the node: its UID and where its machine is.
    wanted: Mutex<BTreeMap<String, (String, MachineReference)>>,
    arrived: Notify,
}

impl Recorder {
    pub(super) fn new(cluster: Cluster, store: Arc<NodeStore>, seed: u64) -> Self {
        Self { cluster, store, seed, wanted: Mutex::default(), arrived: Notify::new() }
    }

    /// Takes note of where the machine of a node is; the last word counts.
    pub(super) fn record(&self, node: &Node, reference: MachineReference) {
        let wanted = (node.uid.clone(), reference);
        self.wanted
            .lock()
            .expect("nothing panics under this lock")
            .insert(node.name.clone(), wanted);
        self.arrived.notify_one();
    }

    /// Writes for ever.
    ///
    /// Cancel safe: a reference that was not written is recorded again after a restart.
    pub(super) async fn run(&self) {
        let jitter = Jitter::new(self.seed, "nodes/record");
        let mut backoff = Backoff::new(Duration::from_secs(1), LONGEST_PAUSE, jitter);
        // Written again together, when it is time: one that is always refused holds up no other.
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
                // Deleted; another node of the name has another uid and is recorded by itself.
                Err(err) if err.is_not_found() => {}
                Err(err) => {
                    tracing::info!(node = %name, error = %Chain(&err), "reference not recorded");
                    if failed.is_empty() {
                        pause = backoff.fail();
                    }
                    // Counted from the last one: where every write is refused, they rest longer than they are tried.
                    again_at = Instant::now() + pause;
                    failed.insert(name, (uid, reference));
                }
            }
            tokio::time::sleep(PACE).await;
        }
    }
}
