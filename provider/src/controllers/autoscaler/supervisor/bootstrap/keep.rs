//! Renews and deletes tokens, and completes or deletes what a crash has left.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    Bootstrap, MachineKey, data,
    data::MachineData,
    plan::{Observed, Presence, Step, next},
};
use crate::{
    cluster::{ClusterError, PatchKind, encode},
    controllers::autoscaler::{
        group::GroupId,
        supervisor::{AT_A_TIME, SupervisorMachines, pause},
        tokens::{Nodes, Side, TokenSecret, gone, is_over, reason},
    },
    model::ProviderId,
};

/// Time for which a current view must lack a machine before its Secrets are deleted. A request of an
/// increase, also of another server, takes effect before.
const LATE: Duration = Duration::from_secs(60);
/// Interval at which the plans are made again. Plans cost no request.
const LOOK: Duration = Duration::from_secs(5);
/// Shortest time between two passes.
const REST: Duration = Duration::from_secs(1);
/// Longest pause after failures; much shorter than half of the shortest life of a token.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Machines that the view lacked, with the time of the first look that lacked them.
type Missing = BTreeMap<MachineKey, Instant>;

/// Copies of everything that a pass reads.
struct Known {
    tokens: Vec<TokenSecret>,
    data: Vec<MachineData>,
    nodes: Option<Nodes>,
    /// UID of the VirtualMachine of each key; `None` for one that is being deleted.
    machines: BTreeMap<MachineKey, Option<String>>,
    /// Machines that the view has lost.
    deleted: BTreeSet<ProviderId>,
    /// Time at which the view of the machines was current.
    current_at: Instant,
}

impl SupervisorMachines {
    /// Keeps the tokens until the stop.
    pub(in super::super) async fn keep_tokens(&self, of: &Bootstrap, stop: &CancellationToken) {
        stop.run_until_cancelled(of.workload.used()).await;
        let (mut missing, mut wait) = (Missing::new(), LOOK);
        while !stop.is_cancelled() {
            let has_failed = match self.known(of) {
                Some(known) => !of.pass(&known, &mut missing).await,
                None => false,
            };
            stop.run_until_cancelled(tokio::time::sleep(REST)).await;
            if has_failed {
                stop.run_until_cancelled(tokio::time::sleep(wait)).await;
                wait = (wait * 2).min(LONGEST_PAUSE);
            } else {
                wait = LOOK;
                pause(LOOK, of.workload.wake(), stop).await;
            }
        }
    }

    /// Returns what the server knows; `None` before the first list of Secrets and of machines, and without Secrets.
    fn known(&self, of: &Bootstrap) -> Option<Known> {
        let (tokens, data) = (of.workload.tokens()?, of.data.all()?);
        if tokens.is_empty() && data.is_empty() {
            return None;
        }
        // Without permission for Nodes no token is deleted before its machine. Only machines with a
        // token have to become Nodes.
        let has_token = data.iter().any(|it| it.token.is_some());
        let nodes = has_token.then(|| of.workload.nodes());
        let view = self.view();
        let current_at = view.current_at?;
        let machines = view.all().map(|it| {
            let key = MachineKey { name: it.name.clone(), bios_uuid: it.id.0 };
            (key, (!it.is_deleting).then(|| it.uid.clone()))
        });
        let (machines, deleted) = (machines.collect(), view.deleted_ids().collect());
        Some(Known { tokens, data, nodes, machines, deleted, current_at })
    }
}

impl Known {
    fn presence(&self, key: &MachineKey, missing: &mut Missing) -> Presence<'_> {
        match self.machines.get(key) {
            Some(uid) => {
                missing.remove(key);
                uid.as_deref().map_or(Presence::Deleting, |uid| Presence::Exists { uid })
            }
            None if self.deleted.contains(&ProviderId(key.bios_uuid)) => Presence::Gone,
            None => {
                let since = *missing.entry(key.clone()).or_insert_with(Instant::now);
                // The view must have been current after that time, not only old for that long.
                match self.current_at.checked_duration_since(since) {
                    Some(proof) if proof >= LATE => Presence::Gone,
                    _ => Presence::Absent,
                }
            }
        }
    }
}

impl Bootstrap {
    /// Makes the plans, and carries each out. Returns false if a write failed.
    async fn pass(&self, known: &Known, missing: &mut Missing) -> bool {
        let mut data: BTreeMap<&MachineKey, &MachineData> = BTreeMap::new();
        let mut tokens: BTreeMap<&MachineKey, Vec<&TokenSecret>> = BTreeMap::new();
        for it in &known.data {
            data.insert(&it.key, it);
            tokens.entry(&it.key).or_default();
        }
        for it in &known.tokens {
            tokens.entry(&it.key).or_default().push(it);
        }
        missing.retain(|key, _| tokens.contains_key(key));
        let is_node = |key: &MachineKey| known.nodes.as_ref().is_some_and(|it| it.has(key));
        let now = self.workload.now();
        let mut steps: Vec<(Step<'_>, Option<&MachineKey>)> = Vec::new();
        for (key, tokens) in &tokens {
            let data = data.get(key).copied();
            let observed = Observed {
                presence: known.presence(key, missing),
                // A machine without a token has nothing to lose by being a Node.
                is_node: data.is_some_and(|it| it.token.is_some()) && is_node(key),
                data,
                tokens,
            };
            let vanished = (observed.presence == Presence::Gone).then_some(*key);
            steps.extend(next(&observed, now).map(|step| (step, vanished)));
        }
        let mut writes = Vec::new();
        for (step, vanished) in steps {
            writes.push(self.carry_out_after_proof(step, vanished).boxed());
        }
        let writes = futures::stream::iter(writes).buffer_unordered(AT_A_TIME);
        writes.fold(true, |all, is_done| std::future::ready(all && is_done)).await
    }

    /// Carries out a step. One about a machine that has vanished from the view needs the proof that its
    /// object is gone, because a machine that lost its label vanishes, too. Returns false if the step
    /// was not carried out.
    async fn carry_out_after_proof(&self, step: Step<'_>, vanished: Option<&MachineKey>) -> bool {
        match vanished {
            Some(key) if !self.is_gone(key).await => false,
            _ => self.carry_out(step).await,
        }
    }

    /// Reads the VirtualMachine of a machine. Returns true if it does not exist, or is another machine.
    async fn is_gone(&self, key: &MachineKey) -> bool {
        let Self { api_version, namespace, .. } = self;
        let name = encode(&key.name);
        let path = format!("/apis/{api_version}/namespaces/{namespace}/virtualmachines/{name}");
        match self.supervisor.get(&path).await {
            Ok(object) => {
                let uuid = object["spec"]["biosUUID"].as_str().and_then(|it| it.parse().ok());
                let is_another = uuid.is_some_and(|uuid: Uuid| uuid != key.bios_uuid);
                if !is_another {
                    tracing::warn!(machine = %key.name, "a VirtualMachine with a bootstrap token has lost the label of its group; keeping its token and user data until it is deleted");
                }
                is_another
            }
            Err(err) if err.says_gone(&key.name) => true,
            Err(err) => {
                tracing::warn!(machine = %key.name, error = %reason(Side::Supervisor, &err), "cannot prove that a VirtualMachine is gone; keeping its bootstrap token; retrying");
                false
            }
        }
    }

    /// Carries out a step. Returns false if it failed, and logs why.
    async fn carry_out(&self, step: Step<'_>) -> bool {
        let (side, what, result) = match step {
            Step::Own { data, machine_uid } => {
                let patch = data::ownership(data, &self.api_version, machine_uid);
                (Side::Supervisor, "own user data", self.patch_data(data, &patch).await)
            }
            Step::NoteJoin(data) => {
                tracing::info!(machine = %data.key.name, "the machine is a Node; deleting its bootstrap token");
                let patch = data::joined(data);
                (Side::Supervisor, "note a Node", self.patch_data(data, &patch).await)
            }
            Step::Renew { token, ttl } => {
                (Side::Workload, "renew a token", self.workload.renew(token, ttl).await.map(drop))
            }
            Step::Restore(data) => {
                (Side::Workload, "create a token again", self.restore(data).await)
            }
            Step::Revoke(token) => {
                (Side::Workload, "delete a token", self.workload.revoke(token).await)
            }
            Step::Remove(data) => {
                tracing::info!(machine = %data.key.name, "deleting user data without machine");
                let path = format!("{}/{}", self.data_path(), encode(&data.name));
                let result = self.supervisor.delete(&path, Some(&data.uid)).await;
                if is_over(&result, &data.name) {
                    self.data.remove(&data.name);
                }
                (Side::Supervisor, "delete user data", gone(result, &data.name))
            }
        };
        if let Err(err) = &result {
            tracing::warn!(error = %reason(side, err), "cannot {what}; retrying");
        }
        result.is_ok()
    }

    async fn patch_data(&self, data: &MachineData, patch: &Value) -> Result<(), ClusterError> {
        let path = format!("{}/{}", self.data_path(), encode(&data.name));
        match self.supervisor.patch(&path, PatchKind::Merge, patch).await {
            Ok(object) => {
                self.data.apply(&object);
                Ok(())
            }
            other => gone(other, &data.name),
        }
    }

    async fn restore(&self, data: &MachineData) -> Result<(), ClusterError> {
        let Some(token) = &data.token else { return Ok(()) };
        let id = GroupId::of_virtual_machines(&self.namespace, &data.group);
        // An error also if another server was faster, because the watch then shows the token.
        self.workload.create(token, (&data.group, &id), &data.key, data.ttl).await?;
        tracing::warn!(machine = %data.key.name, token = %token.id, "the bootstrap token of a machine that is not a Node was gone; created it again");
        Ok(())
    }
}
