//! Deletes machines.

use std::{sync::Mutex, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _};
use provider_vcenter::Chain;

use super::{
    super::{
        instance::one_line,
        plan::{Cause, MachineChange, Victim},
    },
    AT_A_TIME, Changed, SupervisorMachines,
    machine::Machine,
};
use crate::cluster::{ClusterError, encode};

/// Reason why machines were not deleted, or not all of them.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeleteError {
    #[error(transparent)]
    Request(#[from] ClusterError),
    #[error("a machine exists by now; nothing was changed")]
    Exists,
    #[error(
        "the machines could not be deleted within {budget:?}; a repeated request deletes the rest"
    )]
    Late { budget: Duration },
}

/// Machines whose deletion was requested and not answered.
type Open = Mutex<Vec<(Machine, Cause)>>;

impl SupervisorMachines {
    /// Deletes machines by their provider IDs. `only_pending` leaves a machine that exists in
    /// vCenter, or that changed since the view last saw it, and fails. After `budget` no request
    /// is sent any more: the autoscaler has given up by then, and uses the nodes again.
    ///
    /// # Errors
    ///
    /// If one deletion fails; the others may have taken effect. A repeated call completes the rest.
    pub(super) async fn delete_all(
        &self,
        victims: &[Victim],
        only_pending: bool,
        budget: Duration,
    ) -> Result<(), DeleteError> {
        let victims: Vec<(Machine, Cause)> = {
            let view = self.view();
            let machine = |it: &Victim| Some((view.by_instance(&it.id)?.clone(), it.cause.clone()));
            victims.iter().filter_map(machine).collect()
        };
        if only_pending && victims.iter().any(|(it, _)| it.is_materialized) {
            return Err(DeleteError::Exists);
        }
        let open = Open::default();
        let deletions = victims.into_iter().map(|it| self.delete_for(it, only_pending, &open));
        let all = futures::stream::iter(deletions).buffer_unordered(AT_A_TIME);
        let result = tokio::time::timeout(budget, all.try_collect::<()>()).await;
        // The requests of these machines may have taken effect.
        let why = match &result {
            Ok(_) => "the deletion of another machine failed first",
            Err(_) => "the request was not answered in time",
        };
        for (machine, cause) in open.into_inner().expect("no holder panics") {
            let change = MachineChange::NotDeleted(why.to_owned());
            self.record(Changed::from(&machine), &change, &cause);
        }
        match result {
            Ok(result) => Ok(result?),
            Err(_) => Err(DeleteError::Late { budget }),
        }
    }

    /// Deletes a machine for a call, and records an event about it.
    async fn delete_for(
        &self,
        (machine, cause): (Machine, Cause),
        only_pending: bool,
        open: &Open,
    ) -> Result<(), ClusterError> {
        let open = || open.lock().expect("no holder panics");
        open().push((machine.clone(), cause.clone()));
        let result = self.delete_one(&machine, only_pending).await;
        open().retain(|(it, _)| it.uid != machine.uid);
        let change = match &result {
            Ok(Deleted::Now) => MachineChange::Deleted,
            Ok(Deleted::Before) => return Ok(()),
            Err(err) => MachineChange::NotDeleted(one_line(&Chain(err).to_string())),
        };
        self.record(Changed::from(&machine), &change, &cause);
        result.map(drop)
    }

    /// Deletes the object of a machine.
    pub(super) async fn delete_one(
        &self,
        machine: &Machine,
        only_pending: bool,
    ) -> Result<Deleted, ClusterError> {
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
            Err(err) if err.says_gone(&machine.name) => {
                self.view().remove(&machine.uid, None);
                return Ok(Deleted::Before);
            }
            Err(err) => return Err(err),
        }
        if machine.is_deleting {
            return Ok(Deleted::Before);
        }
        tracing::info!(machine = %machine.name, provider_id = %machine.id, "deleted a VirtualMachine");
        Ok(Deleted::Now)
    }
}

/// Time at which an object was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deleted {
    /// This request deleted it.
    Now,
    /// It was deleted before this request.
    Before,
}
