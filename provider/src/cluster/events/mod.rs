//! Kubernetes events about nodes, leases and VirtualMachines, in the core API group, because the
//! published RBAC grants that one.
//!
//! Names, fields and counting follow `k8s.io/client-go: tools/record`. A separate task sends the
//! events, so that a cluster that does not accept them delays nothing else.

use std::{borrow::Cow, collections::BTreeMap};

use provider_vcenter::Chain;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Cluster, ClusterError, PatchKind, spam::SpamFilter};
use crate::model::{Clock, Node};

/// Maximum number of events that wait to be sent; the recorder drops further events, as in
/// client-go.
const QUEUE: usize = 1000;
/// Maximum number of different events whose counts the sender remembers; to remember another one,
/// it first forgets all of them.
const REMEMBERED: usize = 4096;

/// Type of an event, as in its field `type`.
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

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Subject {
    api_version: Cow<'static, str>,
    kind: &'static str,
    /// Namespace of the object; `None` for an object without one, whose events are in the namespace
    /// `default`.
    namespace: Option<String>,
    name: String,
    uid: String,
}

impl Subject {
    fn node(node: &Node) -> Self {
        Self {
            api_version: "v1".into(),
            kind: "Node",
            namespace: None,
            name: node.name.to_string(),
            uid: node.uid.to_string(),
        }
    }

    /// The subject of events about a machine that becomes the Node of this name. The Node may not exist
    /// yet, so that the name stands for its UID, as in the events of a kubelet.
    pub(crate) fn future_node(name: &str) -> Self {
        Self {
            api_version: "v1".into(),
            kind: "Node",
            namespace: None,
            name: name.to_owned(),
            uid: name.to_owned(),
        }
    }

    /// The subject of events about a Lease, from the object as the server returns it.
    pub(crate) fn lease(lease: &Value) -> Self {
        let text = |key: &str| {
            let value = lease.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        Self {
            api_version: "coordination.k8s.io/v1".into(),
            kind: "Lease",
            namespace: Some(text("namespace")),
            name: text("name"),
            uid: text("uid"),
        }
    }

    /// The subject of events about a VirtualMachine. An object that was never made has no UID.
    pub(crate) fn virtual_machine(version: &str, namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            api_version: format!("vmoperator.vmware.com/{version}").into(),
            kind: "VirtualMachine",
            namespace: Some(namespace.to_owned()),
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }

    /// The subject of events about an object of Cluster API.
    pub(crate) fn cluster_api(
        version: &str,
        kind: &'static str,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Self {
        Self {
            api_version: format!("cluster.x-k8s.io/{version}").into(),
            kind,
            ..Self::virtual_machine(version, namespace, name, uid)
        }
    }

    /// The subject of events about a NodeGroup. `version` is that of its API, with the group.
    pub(crate) fn node_group(version: &str, namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            api_version: version.to_owned().into(),
            kind: "NodeGroup",
            ..Self::virtual_machine(version, namespace, name, uid)
        }
    }

    fn events_path(&self) -> String {
        format!("/api/v1/namespaces/{}/events", self.namespace.as_deref().unwrap_or("default"))
    }

    fn reference(&self) -> Value {
        let mut reference = json!({
            "apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid,
        });
        if let Some(namespace) = &self.namespace {
            reference["namespace"] = namespace.as_str().into();
        }
        reference
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) component: &'static str,
    pub(super) subject: Subject,
    pub(super) severity: Severity,
    reason: &'static str,
    message: String,
}

#[derive(Debug)]
struct PendingEvent {
    key: Key,
    at: jiff::Timestamp,
}

/// Recorder of the events of one component; it queues them for the sender.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    component: &'static str,
    queue: mpsc::Sender<PendingEvent>,
    clock: Clock,
}

/// Name of an event that the server has, and the number of times that the event occurred so far,
/// including repeats that were not sent.
#[derive(Clone, Debug)]
struct SentEvent {
    name: String,
    count: u64,
}

impl Events {
    /// Returns the recorder, and the future that sends its events until the recorder and its clones
    /// are dropped.
    pub(crate) fn new(
        component: &'static str,
        cluster: Cluster,
        clock: Clock,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, received) = mpsc::channel(QUEUE);
        (Self { component, queue, clock }, send_all(cluster, received))
    }

    /// Records an event about a node; never waits, and drops the event if the queue is full.
    pub(crate) fn record(
        &self,
        node: &Node,
        severity: Severity,
        reason: &'static str,
        message: String,
    ) {
        self.record_about(Subject::node(node), severity, reason, message);
    }

    /// Records an event about any object, as [`Events::record`] does.
    pub(crate) fn record_about(
        &self,
        subject: Subject,
        severity: Severity,
        reason: &'static str,
        message: String,
    ) {
        let key = Key { component: self.component, subject, severity, reason, message };
        let note = PendingEvent { key, at: self.clock.now() };
        if self.queue.try_send(note).is_err() {
            tracing::warn!(reason, "the queue of Kubernetes events is full; dropping this event");
        }
    }
}

/// Sends one event at once, without counting repeats; for events that occur once or twice in the
/// life of a process.
pub(crate) async fn send_event(
    cluster: &Cluster,
    component: &'static str,
    subject: Subject,
    reason: &'static str,
    message: String,
    at: jiff::Timestamp,
) -> Result<(), ClusterError> {
    let key = Key { component, subject, severity: Severity::Normal, reason, message };
    send(cluster, &PendingEvent { key, at }, None, 0).await.map(|_| ())
}

async fn send_all(cluster: Cluster, mut received: mpsc::Receiver<PendingEvent>) {
    let mut sent: BTreeMap<Key, SentEvent> = BTreeMap::new();
    let mut spam = SpamFilter::default();
    let mut sequence = 0u64;
    while let Some(note) = received.recv().await {
        if !spam.lets_through(&note.key) {
            // The sender counts the event anyway, as client-go does: the next repeat that passes
            // carries the total.
            if let Some(known) = sent.get_mut(&note.key) {
                known.count += 1;
            }
            let Key { subject, reason, .. } = &note.key;
            tracing::debug!(object = %subject.name, reason, "too many events about this object; dropping this event");
            continue;
        }
        sequence += 1;
        match send(&cluster, &note, sent.get(&note.key).cloned(), sequence).await {
            Ok(now_sent) => {
                if sent.len() >= REMEMBERED {
                    sent.clear();
                }
                sent.insert(note.key, now_sent);
            }
            Err(err) => {
                tracing::warn!(error = %Chain(&err), "writing a Kubernetes event failed; dropping the event")
            }
        }
    }
}

async fn send(
    cluster: &Cluster,
    note: &PendingEvent,
    known: Option<SentEvent>,
    sequence: u64,
) -> Result<SentEvent, ClusterError> {
    let subject = &note.key.subject;
    let path = subject.events_path();
    let at = note.at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    if let Some(known) = known {
        let count = known.count + 1;
        let body = json!({"count": count, "lastTimestamp": at, "message": note.key.message});
        let of_event = format!("{path}/{}", known.name);
        match cluster.patch(&of_event, PatchKind::Strategic, &body).await {
            Ok(_) => return Ok(SentEvent { count, ..known }),
            Err(err) if err.is_not_found() => {}
            Err(err) => return Err(err),
        }
    }
    // The sequence number gives two events of the same instant different names; under a paused
    // clock they are likely.
    let nanos = note.at.as_nanosecond().unsigned_abs() + u128::from(sequence);
    let name = format!("{}.{nanos:x}", subject.name);
    let body: Value = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": name, "namespace": subject.namespace.as_deref().unwrap_or("default"),
        },
        "involvedObject": subject.reference(),
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
    cluster.post(&path, &body).await?;
    Ok(SentEvent { name, count: 1 })
}

#[cfg(test)]
mod tests;
