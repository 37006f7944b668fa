//! Groups that are NodeGroup objects of a cluster, instead of entries of a file.
//!
//! A list and a watch keep the objects. [`Groups`](super::groups::Groups) applies them when the
//! autoscaler refreshes or an object changes, so that no refresh costs a request. An object that is
//! wrong is refused by its name, and the others go on. The status of each object says what the server
//! decided, and the size of the group.
//!
//! | part | task |
//! | --- | --- |
//! | [`definition`] | the CustomResourceDefinition |
//! | [`decide`] | which objects are groups, and why others are not; pure |
//! | [`status`] | the status of an object, if it has to change; pure |
//! | [`known`] | the objects that the server knows, and the last decisions |
//! | [`keep`] | keeps the objects current |
//! | [`write`] | writes the statuses |

mod decide;
mod definition;
mod keep;
mod known;
mod status;
mod write;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
};

use tokio::sync::Notify;

use self::known::Known;
use super::{
    group::{Group, MachineKind},
    plan::COMPONENT,
};
use crate::{
    cluster::{Cluster, Events, Severity, Subject},
    model::Clock,
    telemetry::{AutoscalerMetrics, Telemetry},
};

pub use definition::NODE_GROUP_DEFINITION;

use self::decide::{Decision, Verdict};

/// Names of the kind. Those of the definition are the same, as a test shows.
const GROUP: &str = "vsphere.cloud-provider";
const VERSION: &str = "v1alpha1";
const RESOURCE: &str = "nodegroups";
/// Requests per second after a burst.
const QPS: f64 = 5.0;
const BURST: u32 = 10;

/// Selection of the NodeGroup objects, and limits of their content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeGroupSettings {
    /// Namespace of the objects; `None` for all namespaces.
    pub namespace: Option<String>,
    /// Directory with the files of bootstrap data that an object may name. Required for clones, whose
    /// machines can read the data: without it, whoever may write a NodeGroup could read every file of
    /// the server.
    pub bootstrap_directory: Option<PathBuf>,
}

/// The NodeGroup objects of a cluster.
pub(crate) struct NodeGroups {
    cluster: Cluster,
    events: Events,
    metrics: Arc<AutoscalerMetrics>,
    settings: NodeGroupSettings,
    machines: MachineKind,
    clock: Clock,
    seed: u64,
    known: Mutex<Known>,
    /// Signal to [`Groups`](super::groups::Groups) that an object has changed.
    changed: Arc<Notify>,
    /// Signal to the writer of statuses that a decision has changed.
    decided: Notify,
}

impl NodeGroups {
    /// Returns the objects, of which none is known yet, and the future that writes events about them
    /// until the objects are dropped. `changed` is notified after each change.
    pub(crate) fn new(
        client: kube::Client,
        settings: NodeGroupSettings,
        machines: MachineKind,
        (clock, seed): (Clock, u64),
        telemetry: &Telemetry,
        changed: Arc<Notify>,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + use<>) {
        let cluster =
            |client| Cluster::new(client, QPS, BURST).with_counter(telemetry.cluster_requests());
        let (events, sending) = Events::new(COMPONENT, cluster(client.clone()), clock.clone());
        let objects = Self {
            cluster: cluster(client),
            events,
            metrics: telemetry.autoscaler(),
            settings,
            machines,
            clock,
            seed,
            known: Mutex::default(),
            changed,
            decided: Notify::new(),
        };
        (Arc::new(objects), sending)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no holder panics")
    }

    /// Says why the groups cannot be used.
    pub(crate) fn usable(&self) -> Result<(), String> {
        self.known().usable()
    }

    /// True if the objects were decided upon, which follows the first list.
    pub(crate) fn is_decided(&self) -> bool {
        self.known().is_decided()
    }

    /// Decides about the objects as they are now. Returns the groups and the number of objects that
    /// are refused; `None` before the first list, and if no decision has changed.
    pub(crate) fn decide(&self) -> Option<(Vec<Arc<Group>>, usize)> {
        let decide = |objects: &mut dyn Iterator<Item = &serde_json::Value>| {
            decide::decide(objects, &self.machines, self.settings.bootstrap_directory.as_deref())
        };
        let changed = self.known().decide(decide)?;
        for (decision, is_new) in &changed.decisions {
            if *is_new {
                self.announce(decision);
            }
        }
        self.decided.notify_one();
        let all = || changed.decisions.iter().map(|(it, _)| it);
        let groups = all().filter_map(|it| it.verdict.group().cloned()).collect();
        let n_refused = all().filter(|it| it.verdict.is_mistake()).count();
        tracing::info!(n = all().count() - n_refused, n_refused, "applied the NodeGroups");
        Some((groups, n_refused))
    }

    /// Logs a new decision, and records an event unless the object's status has the decision already,
    /// as after a restart.
    fn announce(&self, decision: &Decision) {
        let object = &decision.object;
        match &decision.verdict {
            Verdict::Refused { message, .. } if decision.verdict.is_mistake() => {
                tracing::error!("ignoring a group: NodeGroup {object}: {message}");
            }
            Verdict::Refused { .. } => {
                tracing::info!(%object, "the NodeGroup is being deleted; its machines stay");
            }
            Verdict::Accepted(_) => {}
        }
        if decision.is_in_status {
            return;
        }
        let version = format!("{GROUP}/{VERSION}");
        let (namespace, name) = (&object.namespace, &object.name);
        let subject = Subject::node_group(&version, namespace, name, &decision.uid);
        match &decision.verdict {
            Verdict::Accepted(group) => {
                let message = format!("The server accepts the group {}", group.id);
                self.events.record_about(subject, Severity::Normal, "Accepted", message);
            }
            Verdict::Refused { reason, message } if decision.verdict.is_mistake() => {
                let message = message.clone();
                self.events.record_about(subject, Severity::Warning, reason.as_str(), message);
            }
            Verdict::Refused { .. } => {}
        }
    }
}
