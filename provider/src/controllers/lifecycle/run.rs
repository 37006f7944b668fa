//! Carries out the decisions of `plan` about nodes that are not ready, once per period.

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

use super::ages::Ages;
use super::guard::Guard;
use super::plan::{FRESH, Judged, Judgement, Step, plan};
use super::troubles::Troubles;
use crate::{
    cluster::{Cluster, ClusterError, Events, NodeStore, PatchKind, Severity},
    controllers::taints::{is_shutdown, shutdown_taint, taints_json},
    instances::Instances,
    model::{Lookup, Node, Unknown},
    mutant::{Active, mutant},
    tasks::Tasks,
    telemetry::Telemetry,
};

/// Time limit of one lookup, so that one that hangs does not hold up the others.
const QUESTION: Duration = Duration::from_secs(20);
/// Time limit of the proof right before a deletion. A list in many pages takes longer than one lookup may, and a list that is
/// begun anew for each look would never be complete.
const CONFIRMATION: Duration = Duration::from_secs(40);
/// Number of steps between two checks of the age of proofs: what the default client rate lets through in a second.
const BATCH: usize = 20;
const MAX_CONFLICTS: u32 = 5;
/// Maximum number of held nodes per round that get their own event; more events would only repeat it.
const MAX_HOLD_EVENTS: usize = 10;

/// Settings of the controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub period: Duration,
    /// Upstream's `SKIP_NODE_DELETION`: no node is ever deleted.
    pub skip_deletion: bool,
    pub seed: u64,
    pub active: Active,
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

    /// Starts the loop, which finishes the current write before it stops.
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
            tell_unknown(&judged, &mut told);
            let known = self.instances.troubles();
            troubles.show(known, &judged, &self.store, &self.events, &self.telemetry);
            let n_missing = self.instances.n_missing();
            let now = Instant::now();
            let steps = plan(&judged, n_missing, &mut guard, now, self.settings.active);
            self.telemetry.set_held(guard.n_held());
            let mut n_hold_events = 0;
            if self.settings.skip_deletion {
                tell_spared(&steps, &mut spared);
            }
            for batch in steps.chunks(BATCH) {
                let confirming = join_all(batch.iter().map(|step| self.confirm(step)));
                let Some(confirmed) = stop.run_until_cancelled(confirming).await else { return };
                for (step, mut confirmed) in batch.iter().zip(confirmed) {
                    if stop.is_cancelled() {
                        return;
                    }
                    // The lookups about other nodes and the earlier writes took their time.
                    if step.deletes() && confirmed.is_some_and(|at| at.elapsed() > FRESH) {
                        confirmed = self.confirm(step).await;
                    }
                    let refused = if confirmed.is_some() {
                        self.act(step, &mut n_hold_events, &mut jitter).await.err()
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

    /// Returns the instant at which a step was confirmed. `None` for a deletion whose proof is no longer fresh and cannot be
    /// renewed, to which the backend objects, or whose node is ready by now or another one.
    async fn confirm(&self, step: &Step) -> Option<Instant> {
        let Step::Delete { node, proved_at } = step else { return Some(Instant::now()) };
        // A deletion that is skipped needs no fresh proof.
        let is_harmless = self.settings.skip_deletion;
        let is_fresh = proved_at.elapsed() <= FRESH;
        if is_harmless {
            return Some(Instant::now());
        }
        if !is_fresh && !mutant!(self.settings.active, StaleProof) {
            match self.exists(node, Instant::now(), CONFIRMATION).await {
                Lookup::Gone { .. } => {}
                other => {
                    tracing::info!(node = %node.name, answer = ?other, "not deleting the node: its machine is no longer proved absent");
                    return None;
                }
            }
        }
        let identity = node.identity();
        let asked = tokio::time::timeout(QUESTION, self.instances.objection(&identity));
        let objection = asked.await.unwrap_or_else(|_| {
            Some(Unknown::Unavailable(format!("no answer within {QUESTION:?}")))
        });
        if let Some(why) = objection {
            tracing::warn!(node = %node.name, reason = %why, "not deleting the node: the last check objects");
            let message = format!("Failed deleting node {}: {why}", node.name);
            self.events.record(node, Severity::Warning, "DeletingNodeFailed", message);
            return None;
        }
        // The node's kubelet may have come back during the lookups.
        let is_it = |now: &Arc<Node>| now.uid == node.uid && !now.ready;
        self.store.get(&node.name).filter(is_it).map(|_| Instant::now())
    }

    /// Looks up whether the node's machine exists; unknown if no answer comes within `patience`.
    async fn exists(&self, node: &Node, proof_after: Instant, patience: Duration) -> Lookup<()> {
        let identity = node.identity();
        let asked = self.instances.exists(&identity, proof_after);
        tokio::time::timeout(patience, asked).await.unwrap_or_else(|_| {
            let why = format!("no answer within {patience:?}");
            Lookup::Unknown(Unknown::Unavailable(why))
        })
    }

    /// Judges all nodes. Looks up the machines of nodes that are not ready, all at once where the backend allows it: the view
    /// answers, except for the few machines that are missing.
    async fn judge(&self, guard: &Guard, ages: &Ages) -> Vec<Judged> {
        let now = Instant::now();
        let (ready, not_ready): (Vec<_>, Vec<_>) =
            self.store.all().into_iter().partition(|node| node.ready);
        let questions = not_ready.into_iter().map(|node| async move {
            let identity = node.identity();
            let exists = self.exists(&node, guard.proof_after(&node.uid, now), QUESTION).await;
            let may_be_off = matches!(exists, Lookup::Found(()))
                || mutant!(self.settings.active, ShutdownOnUnknown);
            let shutdown = may_be_off.then(|| self.instances.shutdown(&identity));
            let exists = match exists {
                Lookup::Unknown(_) if mutant!(self.settings.active, ShutdownOnUnknown) => {
                    Lookup::Found(())
                }
                other => other,
            };
            let age = ages.of(&node, now);
            Judged { node, judgement: Judgement::NotReady { exists, shutdown, age } }
        });
        let asking = futures::stream::iter(questions).buffered(self.instances.n_at_once());
        let mut judged: Vec<Judged> = asking.collect().await;
        judged.extend(ready.into_iter().map(|node| Judged { node, judgement: Judgement::Ready }));
        judged
    }

    /// Takes a step.
    ///
    /// # Errors
    ///
    /// The pause that the API server asks for before the next attempt.
    async fn act(
        &self,
        step: &Step,
        n_hold_events: &mut usize,
        jitter: &mut Jitter,
    ) -> Result<(), Duration> {
        let (node, result) = match step {
            Step::RemoveShutdownTaint(node) => (node, self.set_taint(node, false, jitter).await),
            Step::AddShutdownTaint(node) => (node, self.set_taint(node, true, jitter).await),
            Step::Delete { node, .. } => (node, self.delete(node).await),
            Step::Hold { node, n_gone, n_nodes } => {
                tracing::warn!(node = %node.name, n_gone, n_nodes, "node deletion held back");
                self.telemetry.deletion_held();
                *n_hold_events += 1;
                if *n_hold_events <= MAX_HOLD_EVENTS {
                    let message = format!(
                        "Deletion of node {} is held back because the machines of {n_gone} of {n_nodes} \
                         nodes are missing at once",
                        node.name
                    );
                    self.events.record(node, Severity::Warning, "NodeDeletionHeld", message);
                }
                return Ok(());
            }
        };
        if let Err(err) = result {
            tracing::warn!(node = %node.name, error = %Chain(&err), "updating the node failed; retrying");
            if let Step::Delete { node, .. } = step {
                let message = format!("Failed deleting node {}: {err}", node.name);
                self.events.record(node, Severity::Warning, "DeletingNodeFailed", message);
            }
            return Err(err.retry_after().unwrap_or_default());
        }
        Ok(())
    }

    /// Drops a node that is gone, even if the watch never reports it.
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
        // Every refusal is an error here, even one that asks to wait: after the wait the proof would be old.
        match self.cluster.clone().impatient().delete(&path, uid).await {
            Ok(_) => {
                tracing::info!(node = %name, "node deleted: its machine is gone");
                self.telemetry.deleted();
                // A node with finalizers stays; the watch will say so.
                self.forget(node);
                Ok(())
            }
            // Another client has deleted the node.
            Err(err) if err.says_gone(name) => {
                self.forget(node);
                Ok(())
            }
            // Another node of the same name exists, which is not ours to delete and arrives with the watch; or another client
            // wrote at the same moment, and the next round tries again.
            Err(err) if err.is_conflict() => Ok(()),
            Err(err) => Err(err),
        }
    }

    async fn set_taint(
        &self,
        node: &Arc<Node>,
        is_off: bool,
        jitter: &mut Jitter,
    ) -> Result<(), ClusterError> {
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
            // The list is atomic: the version protects the taints of other writers.
            let body = json!({
                "metadata": {"uid": current.uid, "resourceVersion": current.resource_version},
                "spec": {"taints": taints_json(&taints)},
            });
            match self.cluster.patch(&path, PatchKind::Strategic, &body).await {
                Ok(written) => {
                    self.store.take_over(&written);
                    return Ok(());
                }
                Err(err) if err.says_gone(&node.name) => return Ok(()),
                Err(err) if err.is_conflict() && conflicts < MAX_CONFLICTS => {
                    let pause = jitter.stretch(Duration::from_millis(100), 1.0);
                    tokio::time::sleep(pause).await;
                    let value = match self.cluster.get(&path).await {
                        Err(err) if err.says_gone(&node.name) => return Ok(()),
                        other => other?,
                    };
                    let fresh = self.store.take_over(&value).filter(|it| it.uid == node.uid);
                    let Some(fresh) = fresh else { return Ok(()) };
                    // Readiness may have changed meanwhile; the next round decides anew.
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

/// Logs nodes that are kept although their machines are gone, once per node for as long as that lasts.
fn tell_spared(steps: &[Step], spared: &mut BTreeSet<String>) {
    let mut now = BTreeSet::new();
    for step in steps {
        let Step::Delete { node, .. } = step else { continue };
        if !spared.contains(&node.uid) {
            tracing::info!(node = %node.name, "the machine is gone; deletion is switched off");
        }
        now.insert(node.uid.clone());
    }
    *spared = now;
}

/// Logs why nodes that are not ready cannot be judged, once per node and reason.
fn tell_unknown(judged: &[Judged], told: &mut BTreeMap<String, String>) {
    let mut now = BTreeMap::new();
    for Judged { node, judgement } in judged {
        let Judgement::NotReady { exists: Lookup::Unknown(why), .. } = judgement else { continue };
        let why = why.to_string();
        if told.get(&node.uid) != Some(&why) {
            tracing::warn!(node = %node.name, reason = %why, "the node is not ready and the state of its machine is unknown; the Node stays");
        }
        now.insert(node.uid.clone(), why);
    }
    *told = now;
}
