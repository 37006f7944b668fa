//! Destroys machines that the journal names for deletion, and no others.

use provider_vcenter::CallError;
use uuid::Uuid;

use super::{
    super::{group::GroupId, plan::MachineChange},
    VcenterMachines,
    failure::{Shows, Trouble},
    journal::{Intent, IntentState},
    machine::{Detail, Protected},
};

impl VcenterMachines {
    /// Destroys a machine, from where it stands: powers it off, deletes it, and notes its end.
    pub(super) async fn destroy(&self, instance: Uuid) -> Result<(), Trouble> {
        let _permit = self.0.destroying.acquire().await;
        let Some(machine) = self.look(instance).await? else {
            if self.has_object(instance).await? {
                let text = "the machine exists, but vCenter cannot read its configuration";
                return Err(Trouble::other("VM_DELETE_FAILED", text, Shows::AfterGrace));
            }
            return self.buried(instance, false).await;
        };
        let intent = self.destructible(instance, &machine)?;
        if machine.seen.is_on {
            tracing::info!(machine = %intent.name, "powering a machine off to destroy it");
            self.run(self.0.vcenter.power_off(&machine.seen.object).await).await?;
        }
        // A disk may have been attached since the first look, and the name of an object may have
        // been given to another machine.
        let Some(machine) = self.read(&machine.seen.object).await? else {
            return self.buried(instance, false).await;
        };
        self.destructible(instance, &machine)?;
        if machine.seen.is_on {
            let text = "the machine is powered on again";
            return Err(Trouble::other("VM_DELETE_FAILED", text, Shows::Never));
        }
        self.state().work(instance).is_destroying = true;
        self.run(self.0.vcenter.destroy(&machine.seen.object).await).await?;
        self.buried(instance, true).await
    }

    /// Returns the machine's entry in the journal if the machine may be destroyed.
    fn destructible(&self, instance: Uuid, machine: &Detail) -> Result<Intent, Trouble> {
        let state = self.state();
        let intent = state.journal.find(instance);
        let intent = intent.ok_or(Protected::NotNamed).and_then(|intent| {
            machine.may_be_destroyed(intent)?;
            Ok(intent.clone())
        });
        intent.map_err(|why| {
            let text = format!("{} is not destroyed: {why}", machine.seen.object);
            Trouble::other("VM_PROTECTED", &text, Shows::AtOnce)
        })
    }

    /// Waits for the task of a call.
    async fn run(&self, task: Result<provider_vcenter::MoRef, CallError>) -> Result<(), Trouble> {
        let task = task.map_err(|err| Trouble::of_call(&err))?;
        self.finish(&task).await.map(drop)
    }

    /// Notes that a machine is gone.
    async fn buried(&self, instance: Uuid, was_destroyed: bool) -> Result<(), Trouble> {
        let Some(intent) = self.intent(instance, IntentState::Deleting) else { return Ok(()) };
        // The answer to an earlier request may have been lost.
        let was_destroyed = was_destroyed || self.state().work(instance).is_destroying;
        let now = self.now();
        let is_noted = self
            .note(|journal| {
                journal.bury(instance, was_destroyed, now);
                journal.forget(now);
            })
            .await;
        if !is_noted {
            return Err(Trouble::other("VM_DELETE_FAILED", "the journal failed", Shows::Never));
        }
        let cause = self.cause(instance);
        if was_destroyed {
            let cause = self.report(&intent, cause, &MachineChange::Deleted);
            tracing::info!(group = %intent.group, machine = %intent.name, provider_id = %intent.provider_id(), %cause, "destroyed a machine");
            self.0.metrics.machine_deleted(GroupId::of_clones(&intent.group).as_str());
        } else {
            // An earlier process may have destroyed a machine that it had made.
            if intent.object.is_some() {
                self.report(&intent, cause.clone(), &MachineChange::Deleted);
            }
            let cause = cause.as_ref().map(ToString::to_string);
            tracing::info!(group = %intent.group, machine = %intent.name, cause, "gave up a machine that does not exist");
        }
        Ok(())
    }
}
