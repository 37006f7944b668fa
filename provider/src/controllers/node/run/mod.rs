//! Carries out the decisions of `plan` about nodes, with one queue, a few workers, and a periodic
//! pass over the addresses.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use provider_vcenter::{Chain, Jitter};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{
    plan::{self, Plan, Writes},
    record::Recorder,
};
use crate::{
    cluster::{Cluster, ClusterError, Events, NodeChange, NodeStore, PatchKind, Severity},
    controllers::WorkQueue,
    instances::{Instances, LateZone, ZoneWanted},
    model::{Lookup, Metadata, Node, NodeName, Unknown},
    mutant::Active,
    tasks::Tasks,
    telemetry::Telemetry,
};

/// Maximum number of times that one initialization repeats its writes after a conflict
/// (`UpdateNodeSpecBackoff`).
const MAX_CONFLICTS: u32 = 20;
/// Cap of the growing delay before the next sync of a node after a failed request to the API
/// server, or of an uninitialized node whose lookup or plan is [`Unknown::Incomplete`] or
/// [`Unknown::Unavailable`]. A `Retry-After` of the API server or the rate of the queue can require
/// a longer delay.
const KNOWN_CAP: Duration = Duration::from_secs(60);
/// Cap of the growing delay before the next sync of a node that cannot be initialized for another
/// reason than those of [`KNOWN_CAP`], for example because the provider does not find its machine.
/// The rate of the queue can require a longer delay.
const UNKNOWN_CAP: Duration = Duration::from_secs(1000);
/// Maximum number of writes of addresses or late zone labels per initialized node in a [`WINDOW`],
/// so that a guest whose addresses flap causes few writes. Initialization does not count.
const MAX_WRITES: u32 = 2;
const WINDOW: Duration = Duration::from_secs(30);
/// Time after which the controller syncs an uninitialized node again if its lookup was pending.
const PENDING_RECHECK: Duration = Duration::from_secs(60);

/// Settings of the cloud-node controller.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub workers: usize,
    pub status_period: Duration,
    /// Labels to add at initialization. The controller leaves out the reserved ones.
    pub extra_labels: BTreeMap<String, String>,
    pub late_zone: LateZone,
    pub seed: u64,
    pub active: Active,
}

/// The cloud-node controller.
pub(crate) struct NodeController {
    cluster: Cluster,
    store: Arc<NodeStore>,
    instances: Arc<dyn Instances>,
    events: Events,
    telemetry: Arc<Telemetry>,
    settings: Settings,
    queue: WorkQueue,
    recorder: Recorder,
    /// Names of the nodes whose addresses, late zone labels and reference must be checked.
    due: Mutex<BTreeSet<NodeName>>,
    /// Start of the current window and number of writes in it that count for [`MAX_WRITES`], by
    /// node.
    written: Mutex<BTreeMap<NodeName, (Instant, u32)>>,
}

impl NodeController {
    pub(crate) fn new(
        cluster: Cluster,
        store: Arc<NodeStore>,
        instances: Arc<dyn Instances>,
        events: Events,
        telemetry: Arc<Telemetry>,
        mut settings: Settings,
    ) -> Arc<Self> {
        // Here and not for each node, so that the log names each reserved label once.
        settings.extra_labels = plan::without_reserved(settings.extra_labels);
        // The Go framework uses this name in its metrics.
        let queue = telemetry.queue("Nodes");
        let recorder = Recorder::new(cluster.clone(), Arc::clone(&store), settings.seed);
        Arc::new(Self {
            cluster,
            store,
            instances,
            events,
            telemetry,
            settings,
            queue: WorkQueue::new(queue),
            recorder,
            due: Mutex::new(BTreeSet::new()),
            written: Mutex::new(BTreeMap::new()),
        })
    }

    /// Queues the node of a change from the node watch; after a deletion, first forgets the node.
    pub(crate) fn on_change(&self, change: &NodeChange) {
        let (NodeChange::Applied(node) | NodeChange::Deleted(node)) = change;
        if let NodeChange::Deleted(_) = change {
            self.forget(&node.name);
        }
        self.queue.add(&node.name);
    }

    /// Forgets the due check and the counted address writes of a node, so that a new node of the
    /// same name starts afresh.
    fn forget(&self, name: &NodeName) {
        self.take_due(name);
        self.written.lock().expect("nothing panics under this lock").remove(name);
    }

    /// Spawns the workers, which finish their current sync before they stop, and the loops, which
    /// stop at once.
    pub(crate) fn spawn(self: &Arc<Self>, tasks: &Tasks) {
        for worker in 0..self.settings.workers {
            let (this, stop) = (Arc::clone(self), tasks.stopping());
            let span = tracing::info_span!("cloud-node", worker);
            tasks.spawn(span, async move { this.work(worker, &stop).await });
        }
        let this = Arc::clone(self);
        let span = tracing::info_span!("cloud-node-backend");
        tasks.spawn_droppable(span, async move { this.follow_backend().await });
        let this = Arc::clone(self);
        let span = tracing::info_span!("cloud-node-addresses");
        tasks.spawn_droppable(span, async move { this.pass_periodically().await });
        let this = Arc::clone(self);
        let span = tracing::info_span!("cloud-node-references");
        tasks.spawn_droppable(span, async move { this.recorder.run().await });
    }

    async fn follow_backend(&self) {
        loop {
            let names = self.instances.changed().await;
            self.mark_due(names.iter().cloned());
            for name in &names {
                self.queue.add(name);
            }
        }
    }

    async fn pass_periodically(&self) {
        self.store.synced().await;
        loop {
            let names = self.store.names();
            self.mark_due(names.iter().cloned());
            for name in &names {
                self.queue.add(name);
            }
            tokio::time::sleep(self.settings.status_period).await;
        }
    }

    fn mark_due(&self, names: impl Iterator<Item = NodeName>) {
        self.due.lock().expect("nothing panics under this lock").extend(names);
    }

    fn take_due(&self, name: &NodeName) -> bool {
        self.due.lock().expect("nothing panics under this lock").remove(name)
    }

    async fn work(&self, worker: usize, stop: &CancellationToken) {
        let mut jitter = Jitter::new(self.settings.seed, &format!("cloud-node/{worker}"));
        while let Some(name) = stop.run_until_cancelled(self.queue.get()).await {
            let span = tracing::info_span!("node", node = %name);
            match self.sync(&name, &mut jitter).instrument(span).await {
                Ok(None) => self.queue.forget(&name),
                Ok(Some(Unknown::Pending)) => self.queue.add_after(&name, PENDING_RECHECK),
                Ok(Some(why)) => {
                    tracing::info!(node = %name, reason = %why, "cannot initialize the node yet; retrying");
                    let is_known = matches!(why, Unknown::Incomplete(_) | Unknown::Unavailable(_));
                    let cap = if is_known { KNOWN_CAP } else { UNKNOWN_CAP };
                    self.queue.add_rate_limited(&name, cap);
                }
                // The Node was deleted; the watch has not reported it yet.
                Err(err) if err.says_gone(name.as_str()) => self.queue.forget(&name),
                Err(err) => {
                    tracing::warn!(node = %name, error = %Chain(&err), "syncing the Node with its machine failed; retrying");
                    self.telemetry.sync_failed();
                    let pause = err.retry_after().unwrap_or_default();
                    self.queue.add_rate_limited_after(&name, KNOWN_CAP, pause);
                }
            }
            self.queue.done(&name);
        }
    }

    /// Syncs one node once. Returns the reason if the node cannot be initialized yet, else `None`.
    async fn sync(
        &self,
        name: &NodeName,
        jitter: &mut Jitter,
    ) -> Result<Option<Unknown>, ClusterError> {
        let Some(mut node) = self.store.get(name) else {
            self.forget(name);
            return Ok(None);
        };
        if node.is_uninitialized() {
            return self.initialize(node, jitter).await;
        }
        let identity = node.identity();
        let lookup = || self.instances.metadata(&identity, ZoneWanted::No);
        if let Plan::Write(writes) = plan::reconcile_labels(&node, lookup) {
            // The next decision needs the node as it is after this write, because the API server
            // would refuse the old version.
            if let Some(written) = self.write(&node, &writes).await?.node() {
                node = written;
            }
        }
        if !self.take_due(name) {
            return Ok(None);
        }
        let found = lookup();
        self.drop_older_reference(&node, &found);
        match plan::refresh(&node, &found, self.settings.late_zone, self.settings.active) {
            Plan::Nothing => Ok(None),
            // The published addresses stay until the next change or the next period.
            Plan::Wait(Unknown::Pending) => Ok(None),
            Plan::Wait(why) => {
                tracing::info!(node = %name, reason = %why, "cannot read the addresses of the machine; keeping those of the Node");
                Ok(None)
            }
            Plan::Record(reference) => {
                self.recorder.record(&node, reference);
                Ok(None)
            }
            Plan::Write(writes) => {
                if let Some(wait) = self.address_write_delay(name) {
                    self.mark_due(std::iter::once(name.clone()));
                    self.queue.add_after(name, wait);
                    return Ok(None);
                }
                let result = self.write(&node, &writes).await;
                // Some of the writes may not have been made.
                if !matches!(result, Ok(WriteResult::Whole(_))) {
                    self.mark_due(std::iter::once(name.clone()));
                }
                if let Ok(WriteResult::Overtaken(_)) = result {
                    self.queue.add(name);
                }
                result.map(|_| None)
            }
        }
    }

    /// Tells the recorder the current reference of the node's machine, if the lookup found one, so
    /// that the recorder does not write an older one.
    fn drop_older_reference(&self, node: &Node, lookup: &Lookup<Metadata>) {
        if let Lookup::Found(Metadata { reference: Some(reference), .. }) = lookup {
            self.recorder.supersede(node, reference);
        }
    }

    /// Counts a write of the node's addresses or late zone labels and returns `None`. If the node
    /// has used up its [`MAX_WRITES`] in the current window, counts nothing and returns the time
    /// until the window ends.
    fn address_write_delay(&self, name: &NodeName) -> Option<Duration> {
        let now = Instant::now();
        let mut written = self.written.lock().expect("nothing panics under this lock");
        let (since, count) = written.entry(name.clone()).or_insert((now, 0));
        if now.duration_since(*since) >= WINDOW {
            (*since, *count) = (now, 0);
        }
        if *count >= MAX_WRITES {
            return Some((*since + WINDOW).duration_since(now));
        }
        *count += 1;
        None
    }

    async fn initialize(
        &self,
        mut node: Arc<Node>,
        jitter: &mut Jitter,
    ) -> Result<Option<Unknown>, ClusterError> {
        let mut conflicts = 0;
        loop {
            let lookup = self.instances.metadata(&node.identity(), ZoneWanted::Yes);
            self.drop_older_reference(&node, &lookup);
            let plan =
                plan::initialize(&node, &lookup, &self.settings.extra_labels, self.settings.active);
            let writes = match plan {
                Plan::Nothing | Plan::Record(_) => return Ok(None),
                Plan::Wait(why) => return Ok(Some(why)),
                Plan::Write(writes) => writes,
            };
            match self.write(&node, &writes).await {
                // The answer shows the node as it is now, so the next plan needs no read.
                Ok(WriteResult::Overtaken(fresh)) if conflicts < MAX_CONFLICTS => {
                    conflicts += 1;
                    if !fresh.is_uninitialized() {
                        return Ok(None);
                    }
                    node = fresh;
                }
                Ok(WriteResult::Overtaken(_)) => {
                    return Ok(Some(Unknown::Incomplete(
                        "other clients keep changing the Node".to_owned(),
                    )));
                }
                Ok(WriteResult::Whole(_)) => {
                    self.take_due(&node.name);
                    let message = "Node synced successfully".to_owned();
                    self.events.record(&node, Severity::Normal, "Synced", message);
                    self.telemetry.initialized();
                    if let Lookup::Found(metadata) = lookup {
                        let id = metadata.provider_id;
                        tracing::info!(node = %node.name, provider_id = %id, "node initialized");
                    }
                    return Ok(None);
                }
                Err(err) if err.is_conflict() && conflicts < MAX_CONFLICTS => {
                    conflicts += 1;
                    let pause = jitter.stretch(Duration::from_millis(50), 1.0);
                    tokio::time::sleep(pause).await;
                    match self.read_again(&node).await? {
                        Some(fresh) if fresh.is_uninitialized() => node = fresh,
                        _ => return Ok(None),
                    }
                }
                Err(err) => return Err(err),
            }
        }
    }

    async fn write(&self, node: &Arc<Node>, writes: &Writes) -> Result<WriteResult, ClusterError> {
        let path = format!("/api/v1/nodes/{}", node.name);
        let mut last = None;
        let mut version = node.resource_version.clone();
        if let Some(status) = &writes.status {
            let written =
                self.cluster.patch(&format!("{path}/status"), PatchKind::Strategic, status).await?;
            if let Some(written) = self.store.take_over(&written) {
                // The second write was computed from the old node, and it replaces whole lists.
                // With the version of the first answer it would undo what other clients wrote
                // meanwhile.
                if let Some(body) = &writes.node
                    && !is_same_for_writes(body, node, &written)
                {
                    return Ok(WriteResult::Overtaken(written));
                }
                if !written.resource_version.is_empty() {
                    version.clone_from(&written.resource_version);
                }
                last = Some(written);
            }
        }
        if let Some(body) = &writes.node {
            let mut body = body.clone();
            // The version of the status write just before, so that our own write is not a conflict.
            body["metadata"]["resourceVersion"] = version.into();
            let written = self.cluster.patch(&path, PatchKind::Strategic, &body).await?;
            last = self.store.take_over(&written);
        }
        Ok(WriteResult::Whole(last))
    }

    async fn read_again(&self, node: &Node) -> Result<Option<Arc<Node>>, ClusterError> {
        match self.cluster.get(&format!("/api/v1/nodes/{}", node.name)).await {
            Ok(value) => Ok(self.store.take_over(&value).filter(|fresh| fresh.uid == node.uid)),
            Err(err) if err.says_gone(node.name.as_str()) => Ok(None),
            Err(err) => Err(err),
        }
    }
}

/// Result of the writes to one node.
enum WriteResult {
    /// All writes were made; the value is the node in the last answer, if that contains one.
    Whole(Option<Arc<Node>>),
    /// Only the first write was made, because its answer shows that other clients wrote meanwhile;
    /// the value is the node in that answer.
    Overtaken(Arc<Node>),
}

impl WriteResult {
    /// Returns the node in the last answer; `None` if that answer contains none.
    fn node(self) -> Option<Arc<Node>> {
        match self {
            Self::Whole(node) => node,
            Self::Overtaken(node) => Some(node),
        }
    }
}

/// True if the node in the version `now` has the same UID, provider ID, taints and values of the
/// labels in `body` as in the version from which the write `body` was computed. The write then
/// undoes no change of another client.
fn is_same_for_writes(body: &Value, computed_from: &Node, now: &Node) -> bool {
    let written = body["metadata"]["labels"].as_object().into_iter().flatten();
    let same_labels =
        written.into_iter().all(|(key, _)| computed_from.labels.get(key) == now.labels.get(key));
    computed_from.uid == now.uid
        && computed_from.provider_id == now.provider_id
        && computed_from.taints == now.taints
        && same_labels
}

#[cfg(test)]
mod tests;
