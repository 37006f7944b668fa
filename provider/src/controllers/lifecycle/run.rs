//! Looks up the machines of nodes that are not ready, and carries out the decisions of `plan`, once
//! per period.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, future::join_all};
use provider_vcenter::{Chain, Jitter};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use super::ages::Ages;
use super::guard::Guard;
use super::plan::{JudgedNode, MAX_PROOF_AGE, NodeState, Step, plan};
use super::troubles::Troubles;
use crate::{
    cluster::{Cluster, ClusterError, Events, NodeStore, PatchKind, Severity},
    controllers::taints::{is_shutdown, shutdown_taint, taints_json},
    instances::Instances,
    model::{Lookup, Node, NodeUid, Unknown},
    mutant::{Active, mutant},
    tasks::Tasks,
    telemetry::Telemetry,
};

/// Time limit of one lookup, and of the last check before a deletion, so that one that hangs does
/// not delay others.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit of the proof right before a deletion. It is longer than [`LOOKUP_TIMEOUT`], because a
/// list in many pages may take longer, and a list that begins again in each round would never be
/// complete.
const PROOF_TIMEOUT: Duration = Duration::from_secs(40);
/// Number of steps that the controller confirms together before it takes them: as many as the
/// default client rate allows in a second.
const BATCH: usize = 20;
const MAX_CONFLICTS: u32 = 5;
/// Maximum number of held nodes per round that get an event; more events would only repeat the
/// message.
const MAX_HOLD_EVENTS: usize = 10;

/// Settings of the cloud-node-lifecycle controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub period: Duration,
    /// True if the controller never deletes a Node, as with upstream's `SKIP_NODE_DELETION`.
    pub skip_deletion: bool,
    pub seed: u64,
    pub active: Active,
}

/// Change of the shutdown taint of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaintChange {
    /// The machine is off.
    Add,
    /// The node is ready again.
    Remove,
}

/// Returns the tracing span `node`, in which the controller works on one node.
fn node_span(node: &Node) -> Span {
    tracing::info_span!("node", node = %node.name)
}

/// The cloud-node-lifecycle controller.
pub(crate) struct LifecycleController {
    cluster: Cluster,
    store: Arc<NodeStore>,
    instances: Arc<dyn Instances>,
    events: Events,
    telemetry: Arc<Telemetry>,
    settings: Settings,
}

impl LifecycleController {
    pub(crate) fn new(
        cluster: Cluster,
        store: Arc<NodeStore>,
        instances: Arc<dyn Instances>,
        events: Events,
        telemetry: Arc<Telemetry>,
        settings: Settings,
    ) -> Self {
        Self { cluster, store, instances, events, telemetry, settings }
    }

    /// Spawns the loop, which finishes the current write before it stops.
    pub(crate) fn spawn(self, tasks: &Tasks) {
        let stop = tasks.stopping();
        let span = tracing::info_span!("cloud-node-lifecycle");
        tasks.spawn(span, async move { self.run(&stop).await });
    }

    async fn run(&self, stop: &CancellationToken) {
        let mut guard = Guard::default();
        let mut told = BTreeMap::new();
        let mut troubles = Troubles::default();
        let mut ages = Ages::default();
        let mut spared = BTreeSet::new();
        let mut jitter = Jitter::new(self.settings.seed, "lifecycle");
        if stop.run_until_cancelled(self.store.synced()).await.is_none() {
            return;
        }
        loop {
            ages.see(&self.store.all(), Instant::now());
            let judging = self.judge(&guard, &ages);
            let Some(judged) = stop.run_until_cancelled(judging).await else { return };
            log_unknown_machines(&judged, &mut told);
            let known = self.instances.troubles();
            troubles.report(known, &judged, &self.store, &self.events, &self.telemetry);
            let n_missing = self.instances.n_missing();
            let now = Instant::now();
            let steps = plan(&judged, n_missing, &mut guard, now, self.settings.active);
            self.telemetry.set_held(guard.n_held());
            let mut n_hold_events = 0;
            if self.settings.skip_deletion {
                log_kept_nodes(&steps, &mut spared);
            }
            for batch in steps.chunks(BATCH) {
                let confirming =
                    batch.iter().map(|step| self.confirm(step).instrument(node_span(step.node())));
                let confirming = join_all(confirming);
                let Some(confirmed) = stop.run_until_cancelled(confirming).await else { return };
                for (step, mut confirmed) in batch.iter().zip(confirmed) {
                    if stop.is_cancelled() {
                        return;
                    }
                    // The proof may be old by now, because the other lookups and the earlier writes
                    // took time.
                    if step.deletes() && confirmed.is_some_and(|at| at.elapsed() > MAX_PROOF_AGE) {
                        confirmed = self.confirm(step).instrument(node_span(step.node())).await;
                    }
                    let refused = if confirmed.is_some() {
                        let acting = self.act(step, &mut n_hold_events, &mut jitter);
                        acting.instrument(node_span(step.node())).await.err()
                    } else {
                        Some(Duration::ZERO)
                    };
                    if let (Step::Delete { node, .. }, Some(wait)) = (step, refused) {
                        guard.refused(&node.uid, Instant::now(), self.settings.period, wait);
                    }
                }
            }
            let pause = tokio::time::sleep(self.settings.period);
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }

    /// Checks a step right before it is taken, and returns the instant at which the check ended.
    /// Returns `None` for a deletion if its old proof cannot be renewed, if the backend objects, or
    /// if the Node is ready, replaced or deleted by now. Other steps, and all steps with
    /// [`Settings::skip_deletion`], need no check.
    async fn confirm(&self, step: &Step) -> Option<Instant> {
        let Step::Delete { node, proved_at } = step else { return Some(Instant::now()) };
        // With `skip_deletion` the step deletes nothing, so it needs no fresh proof.
        let is_harmless = self.settings.skip_deletion;
        let is_fresh = proved_at.elapsed() <= MAX_PROOF_AGE;
        if is_harmless {
            return Some(Instant::now());
        }
        if !is_fresh && !mutant!(self.settings.active, StaleProof) {
            match self.exists(node, Instant::now(), PROOF_TIMEOUT).await {
                Lookup::Gone { .. } => {}
                other => {
                    tracing::info!(node = %node.name, answer = ?other, "the proof that the machine is gone is too old, and a new lookup does not repeat it; the Node stays");
                    return None;
                }
            }
        }
        let identity = node.identity();
        let asked = tokio::time::timeout(LOOKUP_TIMEOUT, self.instances.recheck_absence(&identity));
        let objection = asked.await.unwrap_or_else(|_| {
            Some(Unknown::Unavailable(format!(
                "vCenter or Supervisor gave no answer within {LOOKUP_TIMEOUT:?}"
            )))
        });
        if let Some(why) = objection {
            tracing::warn!(node = %node.name, reason = %why, "the last check before the deletion does not confirm that the machine is gone; the Node stays");
            let message = format!("Failed deleting node {}: {why}", node.name);
            self.events.record(node, Severity::Warning, "DeletingNodeFailed", message);
            return None;
        }
        // The node may have become ready during the lookups.
        let is_it = |now: &Arc<Node>| now.uid == node.uid && !now.ready;
        self.store.get(&node.name).filter(is_it).map(|_| Instant::now())
    }

    /// Looks up if the node's machine exists. `Gone` needs a proof that began at `proof_after` or
    /// later. The answer is unknown if the backend takes longer than `patience`.
    async fn exists(&self, node: &Node, proof_after: Instant, patience: Duration) -> Lookup<()> {
        let identity = node.identity();
        let asked = self.instances.exists(&identity, proof_after);
        tokio::time::timeout(patience, asked).await.unwrap_or_else(|_| {
            let why = format!("vCenter or Supervisor gave no answer within {patience:?}");
            Lookup::Unknown(Unknown::Unavailable(why))
        })
    }

    /// Judges all nodes. Looks up the machines of nodes that are not ready, as many at once as the
    /// backend allows. A backend with a view answers most lookups from it, and needs calls mainly
    /// for missing machines.
    async fn judge(&self, guard: &Guard, ages: &Ages) -> Vec<JudgedNode> {
        let now = Instant::now();
        let (ready, not_ready): (Vec<_>, Vec<_>) =
            self.store.all().into_iter().partition(|node| node.ready);
        let questions = not_ready.into_iter().map(|node| {
            let span = node_span(&node);
            let question = async move {
                let identity = node.identity();
                let exists =
                    self.exists(&node, guard.proof_after(&node.uid, now), LOOKUP_TIMEOUT).await;
                let may_be_off = matches!(exists, Lookup::Found(()))
                    || mutant!(self.settings.active, ShutdownOnUnknown);
                let shutdown = may_be_off.then(|| self.instances.shutdown(&identity));
                let exists = match exists {
                    Lookup::Unknown(_) if mutant!(self.settings.active, ShutdownOnUnknown) => {
                        Lookup::Found(())
                    }
                    other => other,
                };
                let age = ages.age(&node, now);
                JudgedNode { node, judgement: NodeState::NotReady { exists, shutdown, age } }
            };
            question.instrument(span)
        });
        let asking =
            futures::stream::iter(questions).buffered(self.instances.max_concurrent_exists());
        let mut judged: Vec<JudgedNode> = asking.collect().await;
        judged
            .extend(ready.into_iter().map(|node| JudgedNode { node, judgement: NodeState::Ready }));
        judged
    }

    /// Carries out a step: changes the shutdown taint, deletes the Node, or reports a hold. Deletes
    /// nothing with [`Settings::skip_deletion`]. Counts the holds of the round in `n_hold_events`,
    /// and records an event only for the first [`MAX_HOLD_EVENTS`].
    ///
    /// # Errors
    ///
    /// If a request failed; the value is the pause that the API server requests before the next
    /// attempt, or zero.
    async fn act(
        &self,
        step: &Step,
        n_hold_events: &mut usize,
        jitter: &mut Jitter,
    ) -> Result<(), Duration> {
        let (node, result) = match step {
            Step::RemoveShutdownTaint(node) => {
                (node, self.set_taint(node, TaintChange::Remove, jitter).await)
            }
            Step::AddShutdownTaint(node) => {
                (node, self.set_taint(node, TaintChange::Add, jitter).await)
            }
            Step::Delete { node, .. } => (node, self.delete(node).await),
            Step::Hold { node, n_gone, n_nodes } => {
                tracing::warn!(node = %node.name, n_gone, n_nodes, "the machines of too many nodes are gone at once; holding the deletion until a second check at least 30 s later");
                self.telemetry.deletion_held();
                *n_hold_events += 1;
                if *n_hold_events <= MAX_HOLD_EVENTS {
                    let message = format!(
                        "Deletion of node {} waits for a second check at least 30 s later, because the machines of \
                         too many nodes were gone at once (now {n_gone} of {n_nodes})",
                        node.name
                    );
                    self.events.record(node, Severity::Warning, "NodeDeletionHeld", message);
                }
                return Ok(());
            }
        };
        if let Err(err) = result {
            tracing::warn!(node = %node.name, error = %Chain(&err), "changing or deleting the Node failed; retrying");
            if let Step::Delete { node, .. } = step {
                let message = format!("Failed deleting node {}: {}", node.name, Chain(&err));
                self.events.record(node, Severity::Warning, "DeletingNodeFailed", message);
            }
            return Err(err.retry_after().unwrap_or_default());
        }
        Ok(())
    }

    /// Removes a deleted node from the store and the backend at once, because the watch may never
    /// report the deletion.
    fn forget(&self, node: &Node) {
        if self.store.remove(&node.name, &node.uid) {
            self.instances.forget(&node.name);
        }
    }

    async fn delete(&self, node: &Arc<Node>) -> Result<(), ClusterError> {
        if self.settings.skip_deletion {
            return Ok(());
        }
        let name = &node.name;
        let message =
            format!("Deleting node {name} because it does not exist in the cloud provider");
        self.events.record(node, Severity::Normal, "DeletingNode", message);
        let path = format!("/api/v1/nodes/{name}");
        let uid = (!mutant!(self.settings.active, NoUidPrecondition)).then_some(node.uid.as_str());
        // A throttled request is an error here and is not repeated, because after the pause the
        // proof would be old.
        match self.cluster.clone().without_retries().delete(&path, uid).await {
            Ok(_) => {
                tracing::info!(node = %name, "node deleted: its machine is gone");
                self.telemetry.deleted();
                // A Node with finalizers still exists; the watch adds it to the store again.
                self.forget(node);
                Ok(())
            }
            // Another client has deleted the node.
            Err(err) if err.says_gone(name.as_str()) => {
                self.forget(node);
                Ok(())
            }
            // Either a new Node has the name: it must stay, and the watch will report it. Or
            // another client wrote at the same moment: the next round tries again.
            Err(err) if err.is_conflict() => Ok(()),
            Err(err) => Err(err),
        }
    }

    async fn set_taint(
        &self,
        node: &Arc<Node>,
        change: TaintChange,
        jitter: &mut Jitter,
    ) -> Result<(), ClusterError> {
        let is_off = change == TaintChange::Add;
        let path = format!("/api/v1/nodes/{}", node.name);
        let mut current = Arc::clone(node);
        for conflicts in 0..=MAX_CONFLICTS {
            if current.uid != node.uid || current.has_shutdown_taint() == is_off {
                return Ok(());
            }
            let mut taints = current.taints_without(is_shutdown);
            if is_off {
                taints.push(shutdown_taint());
            }
            // The patch replaces the whole list of taints, so its version protects the taints of
            // other clients.
            let body = json!({
                "metadata": {"uid": current.uid, "resourceVersion": current.resource_version},
                "spec": {"taints": taints_json(&taints)},
            });
            match self.cluster.patch(&path, PatchKind::Strategic, &body).await {
                Ok(written) => {
                    self.store.take_over(&written);
                    return Ok(());
                }
                Err(err) if err.says_gone(node.name.as_str()) => return Ok(()),
                Err(err) if err.is_conflict() && conflicts < MAX_CONFLICTS => {
                    let pause = jitter.stretch(Duration::from_millis(100), 1.0);
                    tokio::time::sleep(pause).await;
                    let value = match self.cluster.get(&path).await {
                        Err(err) if err.says_gone(node.name.as_str()) => return Ok(()),
                        other => other?,
                    };
                    let fresh = self.store.take_over(&value).filter(|it| it.uid == node.uid);
                    let Some(fresh) = fresh else { return Ok(()) };
                    // If the node's readiness has changed meanwhile, the next round decides again.
                    if fresh.ready == is_off {
                        return Ok(());
                    }
                    current = fresh;
                }
                Err(err) => return Err(err),
            }
        }
        Ok(())
    }
}

/// Logs the nodes that stay only because deletion is switched off, except those in `spared`. Then
/// replaces `spared` with all nodes that stay for this reason now.
fn log_kept_nodes(steps: &[Step], spared: &mut BTreeSet<NodeUid>) {
    let mut now = BTreeSet::new();
    for step in steps {
        let Step::Delete { node, .. } = step else { continue };
        if !spared.contains(&node.uid) {
            tracing::info!(node = %node.name, "the machine is gone, but SKIP_NODE_DELETION is set; the Node stays");
        }
        now.insert(node.uid.clone());
    }
    *spared = now;
}

/// Logs each node that is not ready and whose machine is unknown, unless `told` has the same reason
/// for the node. Then replaces `told` with the present reasons.
fn log_unknown_machines(judged: &[JudgedNode], told: &mut BTreeMap<NodeUid, String>) {
    let mut now = BTreeMap::new();
    for JudgedNode { node, judgement } in judged {
        let NodeState::NotReady { exists: Lookup::Unknown(why), .. } = judgement else { continue };
        let why = why.to_string();
        if told.get(&node.uid) != Some(&why) {
            tracing::warn!(node = %node.name, reason = %why, "the node is not ready, and the provider cannot tell if its machine exists; the Node stays");
        }
        now.insert(node.uid.clone(), why);
    }
    *told = now;
}
