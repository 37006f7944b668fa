//! Deletes what is left of failed increases, and lets VM Operator make held machines.

use std::time::Duration;

use provider_vcenter::Chain;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        plan::{MachineChange, Victim},
        replacements::is_over,
    },
    Changed, Created, SupervisorMachines,
    delete::Deleted,
    machine::{HELD_UNTIL, Machine, PAUSED},
    pause,
    view::Undone,
};
use crate::{
    cluster::{PatchKind, encode},
    model::ProviderId,
};

/// Time after which a request that was sent no longer takes effect.
const LATE: Duration = Duration::from_secs(60);
/// Interval at which leftovers and replacements are looked for.
const LOOK: Duration = Duration::from_secs(5);

impl SupervisorMachines {
    /// Undoes the replacements of those instances that still count, because their deletion failed.
    pub(super) fn undo_replacements(&self, mut created: Created, victims: &[Victim]) {
        let n = {
            let view = self.view();
            let counts = |it: &&Machine| !it.is_deleting;
            victims.iter().filter(|it| view.by_instance(&it.id).filter(counts).is_some()).count()
        };
        created.0.truncate(n);
        self.undo_later(created);
    }

    /// Makes machines no longer count, and has a task delete them.
    pub(super) fn undo_later(&self, created: Created) {
        let since = Instant::now();
        let undone = created.0.into_iter().map(|(new, cause)| {
            (ProviderId(new.bios_uuid), Undone { name: new.name, since, cause })
        });
        self.view().undone.extend(undone);
        self.0.wake.notify_one();
    }

    /// Deletes what is left of failed increases, and lets VM Operator make replacements when their
    /// time has come. Runs until the stop.
    pub(super) async fn sweep(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let undone = self.view().undone.clone();
            for (id, machine) in undone {
                self.undo(id, &machine).await;
            }
            let now = self.now();
            let is_due = |it: &&Machine| it.held_until.is_some_and(|until| is_over(until, now));
            let due: Vec<Machine> = self.view().machines().filter(is_due).cloned().collect();
            for machine in due {
                self.release(&machine).await;
            }
            pause(LOOK, &self.0.wake, stop).await;
        }
    }

    /// Deletes a machine of a failed increase. A request whose answer was lost may still arrive, so
    /// the machine is looked for until [`LATE`] has passed.
    async fn undo(&self, id: ProviderId, undone: &Undone) {
        let Undone { name, since, cause } = undone;
        let path = format!("{}/{}", self.0.machines_path(), encode(name));
        let result = match self.0.cluster.get(&path).await {
            Ok(object) => match Machine::read(&object).filter(|it| it.id == id) {
                Some(machine) => match self.delete_one(&machine, false).await {
                    Ok(Deleted::Now) => {
                        self.record(Changed::from(&machine), &MachineChange::Undone, cause);
                        Ok(())
                    }
                    other => other.map(drop),
                },
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
