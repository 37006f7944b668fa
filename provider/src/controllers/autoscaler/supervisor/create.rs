//! Creates machines.

use std::{
    sync::{Mutex, atomic::Ordering},
    time::Duration,
};

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use provider_vcenter::Chain;
use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    super::{
        group::Group,
        instance::one_line,
        plan::{Cause, MachineChange},
        tokens::BootstrapError,
    },
    AT_A_TIME, BURST, Changed, QPS, SupervisorMachines,
    bootstrap::UserData,
    machine::{Machine, NewMachine, manifest},
};
use crate::{
    cluster::{ClusterError, encode},
    model::ProviderId,
};

/// Number of names that are tried for one machine.
const MOST_NAMES: usize = 50;
/// Namespace of the BIOS UUIDs that this server chooses.
const UUIDS: Uuid = Uuid::from_u128(0x8d5e_71a0_3c1f_4b62_9a7e_2f3d_11c0_54b8);
const LETTERS: &[u8; 32] = b"bcdfghjklmnpqrstvwxz2456789acdef";

/// Machines that were created, or for which a request was sent, and the calls that asked for them.
#[derive(Debug, Default)]
pub(super) struct Created(pub(super) Vec<(NewMachine, Cause)>);

/// Reason why machines were not created.
#[derive(Debug, thiserror::Error)]
pub(super) enum CreateError {
    #[error(transparent)]
    Request(#[from] ClusterError),
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    #[error("{n} machines cannot be created within {budget:?}; the size stays")]
    Late { n: usize, budget: Duration },
}

impl SupervisorMachines {
    /// Creates one machine of a group for each cause, and returns them. VM Operator makes them at
    /// once, or after `held_for`.
    ///
    /// # Errors
    ///
    /// If one object cannot be created, or not all within `budget`. Those that were tried do not
    /// count then, and a task deletes them.
    pub(super) async fn create(
        &self,
        group: &Group,
        causes: Vec<Cause>,
        held_for: Option<Duration>,
        budget: Duration,
    ) -> Result<Created, CreateError> {
        let n = causes.len();
        let ends_at = Instant::now() + budget;
        let user_data = tokio::time::timeout_at(ends_at, self.user_data(group)).await;
        let user_data = user_data.map_err(|_| CreateError::Late { n, budget })??;
        let left = ends_at.saturating_duration_since(Instant::now());
        let n_requests = if user_data.is_some() { 2 * n } else { n };
        #[expect(clippy::cast_precision_loss, reason = "a group has at most 20,000 instances")]
        if n_requests as f64 > f64::from(BURST) + QPS * left.as_secs_f64() {
            return Err(CreateError::Late { n, budget });
        }
        let held_until = held_for.and_then(|it| self.now().checked_add(it).ok());
        let tried = Mutex::default();
        let data = user_data.as_ref().map(|it| (it, left / 2));
        let create = |cause| self.create_one((group, data), cause, held_until, &tried);
        let all = futures::stream::iter(causes.into_iter().map(create));
        let all = all.buffer_unordered(AT_A_TIME).try_collect::<()>();
        let result = tokio::time::timeout_at(ends_at, all).await;
        let tried = Created(tried.into_inner().expect("no holder panics"));
        let err = match result {
            Ok(Ok(())) => return Ok(tried),
            Ok(Err(err)) => err,
            Err(_) => CreateError::Late { n, budget },
        };
        tracing::warn!(group = %group.id, error = %Chain(&err), "creating machines failed; deleting those of this increase");
        if let CreateError::Late { .. } = err {
            self.record_late(group, &tried, &err);
        }
        // Each request may have arrived, so everything that was tried is undone.
        self.undo_later(tried);
        Err(err)
    }

    /// Records that a machine could not be created in time: the first one without an answer.
    fn record_late(&self, group: &Group, tried: &Created, err: &CreateError) {
        let view = self.view();
        let is_open =
            |(new, _): &&(NewMachine, Cause)| !view.knows(ProviderId(new.bios_uuid), &new.name);
        let open = tried.0.iter().find(is_open);
        drop(view);
        if let Some((new, cause)) = open {
            let of = Changed { group: &group.name, name: &new.name, uid: "" };
            self.record(of, &MachineChange::NotCreated(err.to_string()), cause);
        }
    }

    /// Reads the user data of a group with `token`; `None` without.
    async fn user_data(&self, group: &Group) -> Result<Option<UserData>, BootstrapError> {
        match &self.0.bootstrap {
            Some(bootstrap) => bootstrap.user_data(group).await,
            None => Ok(None),
        }
    }

    /// Creates the Secrets of a machine of a group with `token`.
    async fn prepare(
        &self,
        group: &Group,
        new: &NewMachine,
        user_data: Option<(&UserData, Duration)>,
    ) -> Result<(), BootstrapError> {
        match (&self.0.bootstrap, user_data) {
            (Some(bootstrap), Some((data, within))) => {
                bootstrap.prepare(group, new, data, within).await
            }
            _ => Ok(()),
        }
    }

    /// Creates a machine. `user_data` is that of a group with `token`, with the longest time for the
    /// creation of the token.
    async fn create_one(
        &self,
        (group, user_data): (&Group, Option<(&UserData, Duration)>),
        cause: Cause,
        held_until: Option<Timestamp>,
        tried: &Mutex<Vec<(NewMachine, Cause)>>,
    ) -> Result<(), CreateError> {
        let tried = || tried.lock().expect("no holder panics");
        let mut last = None;
        for _ in 0..MOST_NAMES {
            let (name, bios_uuid) = self.identity(&group.name);
            // A machine of an earlier process may have this identity. It must never be in `tried`,
            // whose machines are deleted if the increase fails.
            if self.view().knows(ProviderId(bios_uuid), &name) {
                continue;
            }
            let new = NewMachine { name, bios_uuid, held_until };
            if let Err(err) = self.prepare(group, &new, user_data).await {
                let of = Changed { group: &group.name, name: &new.name, uid: "" };
                self.record(of, &MachineChange::NotCreated(one_line(&err.to_string())), &cause);
                return Err(err.into());
            }
            tried().push((new.clone(), cause.clone()));
            match self.make(group, &new).await {
                Ok(Made::New(machine)) => {
                    tracing::info!(group = %group.id, machine = %machine.name, provider_id = %machine.id, "created a VirtualMachine");
                    let of = Changed::from(&*machine);
                    self.record(of, &MachineChange::Created, &cause);
                    self.view().apply(*machine);
                    return Ok(());
                }
                Ok(Made::NameTaken(err)) => {
                    tried().retain(|(it, _)| it.name != new.name);
                    last = Some(err);
                }
                Err(err) => {
                    let change = MachineChange::NotCreated(one_line(&Chain(&err).to_string()));
                    let of = Changed { group: &group.name, name: &new.name, uid: "" };
                    self.record(of, &change, &cause);
                    return Err(err.into());
                }
            }
        }
        let (path, what) =
            (self.0.machines_path(), "no free name for a new VirtualMachine".to_owned());
        Err(last.unwrap_or(ClusterError::Malformed { path, what }).into())
    }

    /// Creates the object of a machine. Repeats a request whose answer was lost.
    async fn make(&self, group: &Group, new: &NewMachine) -> Result<Made, ClusterError> {
        let path = self.0.machines_path();
        let object = manifest(group, &self.0.namespace, self.0.version.as_str(), new);
        let is_new = |it: &Machine| it.is_own && it.id == ProviderId(new.bios_uuid);
        let read = |object: &Value| Machine::read(object).filter(is_new).map(Box::new);
        let first = self.0.cluster.post(&path, &object).await;
        let is_lost = first.as_ref().is_err_and(ClusterError::lost_the_answer);
        let answer = if is_lost { self.0.cluster.post(&path, &object).await } else { first };
        match answer {
            Ok(created) => read(&created).map(Made::New).ok_or_else(|| {
                let what = "an object that is not the created VirtualMachine".to_owned();
                ClusterError::Malformed { path, what }
            }),
            Err(err) if err.is_conflict() => {
                let existing = self.0.cluster.get(&format!("{path}/{}", encode(&new.name))).await?;
                Ok(read(&existing).map_or(Made::NameTaken(err), Made::New))
            }
            Err(err) => Err(err),
        }
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
}

/// Result of the creation of an object.
enum Made {
    New(Box<Machine>),
    /// Another machine has the name, as this answer says.
    NameTaken(ClusterError),
}
