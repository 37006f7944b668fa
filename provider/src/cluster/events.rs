//! Kubernetes events about nodes, in the core group as the published RBAC grants it.
//!
//! Names, fields and counting follow `k8s.io/client-go: tools/record`. Events are sent by a task of their own: a
//! cluster that cannot take them must not hold up anything else.

use std::{collections::BTreeMap, sync::Mutex};

use provider_vcenter::Chain;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Cluster, PatchKind};
use crate::model::{Clock, Node};

/// Events that wait; more are dropped, as in client-go.
const QUEUE: usize = 1000;
/// Identities whose counts are remembered.
const REMEMBERED: usize = 4096;

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Normal,
    Warning,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    component: &'static str,
    uid: String,
    severity: Severity,
    reason: &'static str,
    message: String,
}

#[derive(Debug)]
struct Note {
    key: Key,
    node: String,
    at: jiff::Timestamp,
}

/// Takes events of one component.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    component: &'static str,
    queue: mpsc::Sender<Note>,
    clock: Clock,
}

#[derive(Clone, Debug)]
struct Sent {
    name: String,
    count: u64,
}

impl Events {
    /// Where events go in, and the future that sends them until all senders are gone.
    pub(crate) fn new(
        component: &'static str,
        cluster: Cluster,
        clock: Clock,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, received) = mpsc::channel(QUEUE);
        (Self { component, queue, clock }, send_all(cluster, received))
    }

    /// Records an event about a node; never waits.
    pub(crate) fn record(
        &self,
        node: &Node,
        severity: Severity,
        reason: &'static str,
        message: String,
    ) {
        let key =
            Key { component: self.component, uid: node.uid.clone(), severity, reason, message };
        let note = Note { key, node: node.name.clone(), at: self.clock.now() };
        if self.queue.try_send(note).is_err() {
            tracing::warn!(reason, "event dropped");
        }
    }
}

async fn send_all(cluster: Cluster, mut received: mpsc::Receiver<Note>) {
    let sent: Mutex<BTreeMap<Key, Sent>> = Mutex::new(BTreeMap::new());
    let mut sequence = 0u64;
    while let Some(note) = received.recv().await {
        let known = sent.lock().expect("nothing panics under this lock").get(&note.key).cloned();
        sequence += 1;
        let result = send(&cluster, &note, known, sequence).await;
        match result {
            Ok(now_sent) => {
                let mut sent = sent.lock().expect("nothing panics under this lock");
                if sent.len() >= REMEMBERED {
                    sent.clear();
                }
                sent.insert(note.key, now_sent);
            }
            Err(err) => tracing::warn!(error = %Chain(&err), "event not recorded"),
        }
    }
}

async fn send(
    cluster: &Cluster,
    note: &Note,
    known: Option<Sent>,
    sequence: u64,
) -> Result<Sent, super::ClusterError> {
    const PATH: &str = "/api/v1/namespaces/default/events";
    let at = note.at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    if let Some(known) = known {
        let count = known.count + 1;
        let body = json!({"count": count, "lastTimestamp": at, "message": note.key.message});
        let path = format!("{PATH}/{}", known.name);
        match cluster.patch(&path, PatchKind::Strategic, &body).await {
            Ok(_) => return Ok(Sent { count, ..known }),
            Err(err) if err.is_not_found() => {}
            Err(err) => return Err(err),
        }
    }
    // The sequence keeps two events of one instant apart; a paused clock makes them likely.
    let nanos = note.at.as_nanosecond().unsigned_abs() + u128::from(sequence);
    let name = format!("{}.{nanos:x}", note.node);
    let body: Value = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {
            "apiVersion": "v1", "kind": "Node", "name": note.node, "uid": note.key.uid,
        },
        "reason": note.key.reason,
        "message": note.key.message,
        "source": {"component": note.key.component},
        "reportingComponent": note.key.component,
        "reportingInstance": "",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "eventTime": null,
        "count": 1,
        "type": note.key.severity.as_str(),
    });
    cluster.post(PATH, &body).await?;
    Ok(Sent { name, count: 1 })
}
