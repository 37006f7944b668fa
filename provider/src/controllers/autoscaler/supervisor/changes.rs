//! Creates and deletes machines.

use std::{
    sync::{Mutex, atomic::Ordering},
    time::Duration,
};

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use provider_vcenter::Chain;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    super::group::Group,
    BURST, QPS, SupervisorMachines,
    machine::{HELD_UNTIL, Machine, NewMachine, PAUSED, manifest},
    pause,
};
use crate::{
    cluster::{ClusterError, PatchKind, encode},
    model::ProviderId,
};

/// Largest number of requests at a time.
const AT_A_TIME: usize = 16;
/// Number of names that are tried for one machine.
const MOST_NAMES: usize = 50;
/// Time after which a request that was sent no longer takes effect.
const LATE: Duration = Duration::from_secs(60);
/// Interval at which leftovers and replacements are looked for.
const LOOK: Duration = Duration::from_secs(5);
/// Namespace of the BIOS UUIDs that this server chooses.
const UUIDS: Uuid = Uuid::from_u128(0x8d5e_71a0_3c1f_4b62_9a7e_2f3d_11c0_54b8);
const LETTERS: &[u8; 32] = b"bcdfghjklmnpqrstvwxz2456789acdef";

/// Machines that were created, or for which a request was sent.
#[derive(Debug, Default)]
pub(crate) struct Created(Vec<NewMachine>);

/// Reason why machines were not created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateError {
    #[error(transparent)]
    Request(#[from] ClusterError),
    #[error("{n} machines cannot be created within {budget:?}; the size stays")]
    Late { n: usize, budget: Duration },
}

/// Reason why machines were not deleted, or not all of them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeleteError {
    #[error(transparent)]
    Request(#[from] ClusterError),
    #[error("a machine exists by now; nothing was changed")]
    Exists,
    #[error(
        "the machines could not be deleted within {budget:?}; a repeated request deletes the rest"
    )]
    Late { budget: Duration },
}

impl SupervisorMachines {
    /// Creates `n` machines of a group, and returns them. VM Operator makes them at once, or after
    /// `held_for`.
    ///
    /// # Errors
    ///
    /// If one object cannot be created, or not all within `budget`. Those that were tried do not
    /// count then, and a task deletes them.
    pub(crate) async fn create(
        &self,
        group: &Group,
        n: usize,
        held_for: Option<Duration>,
        budget: Duration,
    ) -> Result<Created, CreateError> {
        #[expect(clippy::cast_precision_loss, reason = "a group has at most 20,000 instances")]
        if n as f64 > f64::from(BURST) + QPS * budget.as_secs_f64() {
            return Err(CreateError::Late { n, budget });
        }
        let held_until = held_for.and_then(|it| self.now().checked_add(it).ok());
        let tried = Mutex::default();
        let creations = (0..n).map(|_| self.create_one(group, held_until, &tried));
        let all = futures::stream::iter(creations).buffer_unordered(AT_A_TIME);
        let result = tokio::time::timeout(budget, all.try_collect::<()>()).await;
        let tried = Created(tried.into_inner().expect("no holder panics"));
        let err = match result {
            Ok(Ok(())) => return Ok(tried),
            Ok(Err(err)) => CreateError::Request(err),
            Err(_) => CreateError::Late { n, budget },
        };
        tracing::warn!(group = %group.id, error = %Chain(&err), "creating machines failed; deleting those of this increase");
        // Each request may have arrived, so everything that was tried is undone.
        self.undo_later(tried);
        Err(err)
    }

    /// Undoes the replacements of those instances that still count, because their deletion failed.
    pub(crate) fn undo_replacements(&self, mut created: Created, victims: &[ProviderId]) {
        let n = {
            let view = self.view();
            let counts = |it: &&Machine| !it.is_deleting;
            victims.iter().filter(|id| view.by_id(**id).filter(counts).is_some()).count()
        };
        created.0.truncate(n);
        self.undo_later(created);
    }

    /// Makes machines no longer count, and has a task delete them.
    fn undo_later(&self, created: Created) {
        let now = Instant::now();
        let undone = created.0.into_iter().map(|it| (ProviderId(it.bios_uuid), (it.name, now)));
        self.view().undone.extend(undone);
        self.0.wake.notify_one();
    }

    async fn create_one(
        &self,
        group: &Group,
        held_until: Option<Timestamp>,
        tried: &Mutex<Vec<NewMachine>>,
    ) -> Result<(), ClusterError> {
        let path = self.0.machines_path();
        let forget = |new: &NewMachine| {
            tried.lock().expect("no holder panics").retain(|it| it.name != new.name);
        };
        let mut last = None;
        for _ in 0..MOST_NAMES {
            let (name, bios_uuid) = self.identity(&group.name);
            // A machine of an earlier process may have this identity. It must never be in `tried`,
            // whose machines are deleted if the increase fails.
            if self.view().knows(ProviderId(bios_uuid), &name) {
                continue;
            }
            let new = NewMachine { name, bios_uuid, held_until };
            tried.lock().expect("no holder panics").push(new.clone());
            let object = manifest(group, &self.0.namespace, self.0.version.as_str(), &new);
            let first = self.0.cluster.post(&path, &object).await;
            let is_lost = matches!(
                first,
                Err(ClusterError::Transport { .. } | ClusterError::TimedOut { .. })
            );
            let answer = if is_lost { self.0.cluster.post(&path, &object).await } else { first };
            let created = match answer {
                Ok(created) => created,
                Err(err) if err.is_conflict() => {
                    let path = format!("{path}/{}", encode(&new.name));
                    let existing = self.0.cluster.get(&path).await?;
                    let is_new = Machine::read(&existing)
                        .is_some_and(|it| it.is_own && it.id == ProviderId(bios_uuid));
                    if !is_new {
                        forget(&new);
                        last = Some(err);
                        continue;
                    }
                    existing
                }
                Err(err) => return Err(err),
            };
            let is_wanted = |it: &Machine| it.is_own && it.id == ProviderId(bios_uuid);
            let Some(machine) = Machine::read(&created).filter(is_wanted) else {
                let what = "an object that is not the created VirtualMachine".to_owned();
                return Err(ClusterError::Malformed { path, what });
            };
            tracing::info!(group = %group.id, machine = %machine.name, provider_id = %machine.id, "created a VirtualMachine");
            self.view().apply(machine);
            return Ok(());
        }
        let what = "no free name for a new VirtualMachine".to_owned();
        Err(last.unwrap_or(ClusterError::Malformed { path, what }))
    }

    /// Draws the name and the BIOS UUID of a new machine. They repeat only in a process with the same
    /// seed that draws at the same time.
    fn identity(&self, group: &str) -> (String, Uuid) {
        let n = self.0.n_drawn.fetch_add(1, Ordering::Relaxed);
        let (seed, now) = (self.0.seed, self.now().as_nanosecond());
        let text = format!("{}/{group}/{seed}/{now}/{n}", self.0.namespace);
        let bios_uuid = Uuid::new_v5(&UUIDS, text.as_bytes());
        let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
        let suffix: String = bios_uuid.as_bytes()[..5].iter().map(letter).collect();
        (format!("{group}-{suffix}"), bios_uuid)
    }

    /// Deletes machines by their provider IDs. `only_pending` leaves a machine that exists in
    /// vCenter, or that changed since the view last saw it, and fails. After `budget` no request
    /// is sent any more: the autoscaler has given up by then, and uses the nodes again.
    ///
    /// # Errors
    ///
    /// If one deletion fails; the others may have taken effect. A repeated call completes the rest.
    pub(crate) async fn delete(
        &self,
        ids: &[ProviderId],
        only_pending: bool,
        budget: Duration,
    ) -> Result<(), DeleteError> {
        let victims: Vec<Machine> = {
            let view = self.view();
            ids.iter().filter_map(|id| view.by_id(*id).cloned()).collect()
        };
        if only_pending && victims.iter().any(|it| it.is_materialized) {
            return Err(DeleteError::Exists);
        }
        let deletions =
            victims.into_iter().map(|it| async move { self.delete_one(&it, only_pending).await });
        let all = futures::stream::iter(deletions).buffer_unordered(AT_A_TIME);
        match tokio::time::timeout(budget, all.try_collect::<()>()).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(DeleteError::Late { budget }),
        }
    }

    async fn delete_one(&self, machine: &Machine, only_pending: bool) -> Result<(), ClusterError> {
        let path = format!("{}/{}", self.0.machines_path(), encode(&machine.name));
        let version = only_pending.then_some(machine.resource_version.as_str());
        // Without repetition of a throttled request, which could take effect minutes later.
        let cluster = self.0.cluster.clone().without_retries();
        match cluster.delete_at(&path, Some(&machine.uid), version).await {
            Ok(answer) => match Machine::read(&answer) {
                // The object waits for VM Operator to destroy the machine.
                Some(deleting) if deleting.is_deleting => self.view().apply(deleting),
                _ => self.view().remove(&machine.uid, None),
            },
            Err(err) if err.says_gone(&machine.name) => self.view().remove(&machine.uid, None),
            Err(err) => return Err(err),
        }
        tracing::info!(machine = %machine.name, provider_id = %machine.id, "deleted a VirtualMachine");
        Ok(())
    }

    /// Deletes what is left of failed increases, and lets VM Operator make replacements when their
    /// time has come. Runs until the stop.
    pub(super) async fn sweep(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let undone = self.view().undone.clone();
            for (id, (name, since)) in undone {
                self.undo(id, &name, since).await;
            }
            let now = self.now();
            let is_due = |it: &&Machine| it.held_until.is_some_and(|until| until <= now);
            let due: Vec<Machine> = self.view().machines().filter(is_due).cloned().collect();
            for machine in due {
                self.release(&machine).await;
            }
            pause(LOOK, &self.0.wake, stop).await;
        }
    }

    /// Deletes a machine of a failed increase. A request whose answer was lost may still arrive, so
    /// the machine is looked for until [`LATE`] has passed.
    async fn undo(&self, id: ProviderId, name: &str, since: Instant) {
        let path = format!("{}/{}", self.0.machines_path(), encode(name));
        let result = match self.0.cluster.get(&path).await {
            Ok(object) => match Machine::read(&object).filter(|it| it.id == id) {
                Some(machine) => self.delete_one(&machine, false).await,
                // Another machine has this name, so that the creation failed.
                None => Ok(()),
            },
            Err(err) if err.says_gone(name) && since.elapsed() < LATE => return,
            Err(err) if err.says_gone(name) => Ok(()),
            Err(err) => Err(err),
        };
        match result {
            // A second request may still arrive.
            Ok(()) if since.elapsed() < LATE => {}
            Ok(()) => {
                self.view().undone.remove(&id);
            }
            Err(err) => {
                tracing::warn!(machine = %name, error = %Chain(&err), "deleting a machine of a failed increase failed; retrying");
            }
        }
    }

    /// Lets VM Operator make a held machine.
    async fn release(&self, machine: &Machine) {
        let path = format!("{}/{}", self.0.machines_path(), encode(&machine.name));
        let patch = json!({ "metadata": {
            "uid": machine.uid,
            "annotations": { PAUSED: null, HELD_UNTIL: null },
        } });
        match self.0.cluster.patch(&path, PatchKind::Merge, &patch).await {
            Ok(object) => {
                if let Some(machine) = Machine::read(&object) {
                    self.view().apply(machine);
                }
            }
            Err(err) => {
                tracing::warn!(machine = %machine.name, error = %Chain(&err), "releasing a held machine failed; retrying");
            }
        }
    }
}
