//! Records on nodes where their machines were found, a few per second, beside everything else.
//!
//! Nodes that another hand initialized carry no reference, and without one nobody can prove after a restart that a machine
//! is gone. When such a cluster is taken over, every node needs one write. None of them is urgent, so they have a pace of
//! their own and hold up no join; one that is refused is asked for again by the next look at the node.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use provider_vcenter::Chain;
use tokio::sync::Notify;

use super::plan;
use crate::{
    cluster::{Cluster, NodeStore, PatchKind},
    model::{MachineReference, Node},
};

/// Pause after each write.
const PACE: Duration = Duration::from_millis(100);

/// References that wait to be written.
pub(super) struct Recorder {
    cluster: Cluster,
    store: Arc<NodeStore>,
    /// By name of the node: its UID and where its machine is.
    wanted: Mutex<BTreeMap<String, (String, MachineReference)>>,
    arrived: Notify,
}

impl Recorder {
    pub(super) fn new(cluster: Cluster, store: Arc<NodeStore>) -> Self {
        Self { cluster, store, wanted: Mutex::default(), arrived: Notify::new() }
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
        loop {
            let next = self.wanted.lock().expect("nothing panics under this lock").pop_first();
            let Some((name, (uid, reference))) = next else {
                self.arrived.notified().await;
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
                Err(err) => {
                    tracing::info!(node = %name, error = %Chain(&err), "reference not recorded");
                }
            }
            tokio::time::sleep(PACE).await;
        }
    }
}
