//! Tasks of a vCenter: it accepts them at once, carries them out when the step `task` ends, and
//! forgets them when the step `taskForgotten` ends (by default 10 min after their completion). If
//! this step ends immediately, vCenter never forgets them.

use super::Execution;
use crate::event::Outcome;
use crate::reactions::{Reaction, Step};
use crate::vcenter::{Kind, MoRef, Power, Progress, Task, VcEvent, VcFault, Work};

impl Execution<'_> {
    /// Accepts a task on an existing object. Refuses it only if the object does not exist; any
    /// other failure is the error of the completed task.
    pub(super) fn start_task(
        &mut self,
        vcenter: &str,
        user: String,
        entity: MoRef,
        work: Work,
    ) -> Result<Outcome, VcFault> {
        let inventory = &self.vcenter(vcenter)?.inventory;
        let object = inventory.get(entity).ok_or(VcFault::ManagedObjectNotFound(entity))?;
        let entity_name = object.name.clone();
        let id = self.next_id(vcenter, Kind::Task)?;
        let task = Task {
            work,
            entity,
            entity_name: entity_name.clone(),
            user,
            progress: Progress::Running,
            queued: self.now,
            completed: None,
        };
        self.emit_vc(vcenter, VcEvent::Task { id, task: Box::new(task) });
        let reaction = Reaction::TaskDue { vcenter: vcenter.to_owned(), task: id };
        self.after(Step::Task, self.now, Some(&entity_name), reaction);
        Ok(Outcome::Reference(id))
    }

    /// Carries out a task and stores its result. Does nothing if vCenter has forgotten the task.
    pub(super) fn run_task(&mut self, vcenter: &str, id: MoRef) {
        let Some(mut task) = self.vcenter(vcenter).ok().and_then(|vc| vc.tasks.get(&id)).cloned()
        else {
            return;
        };
        task.progress = match self.work(vcenter, task.entity, &task.work) {
            Ok(made) => Progress::Success(made),
            Err(fault) => Progress::Error(fault),
        };
        task.completed = Some(self.now);
        self.emit_vc(vcenter, VcEvent::Task { id, task: Box::new(task) });
        let reaction = Reaction::TaskForgotten { vcenter: vcenter.to_owned(), task: id };
        if self.state.timing.of(Step::TaskForgotten) != crate::Completion::Immediately {
            self.after(Step::TaskForgotten, self.now, None, reaction);
        }
    }

    fn work(
        &mut self,
        vcenter: &str,
        entity: MoRef,
        work: &Work,
    ) -> Result<Option<MoRef>, VcFault> {
        match work {
            Work::PowerOn => self.power_on(vcenter, entity)?,
            Work::PowerOnHost(host) => self.power_on_host(vcenter, entity, *host)?,
            Work::PowerOff => self.power_off(vcenter, entity)?,
            Work::Suspend => self.suspend(vcenter, entity)?,
            Work::Reset => self.reset(vcenter, entity)?,
            Work::Rename(to) => self.rename(vcenter, entity, to)?,
            Work::Reconfigure(spec) => {
                self.accepts(vcenter, entity, spec)?;
                self.reconfigure(vcenter, entity, spec)?;
            }
            Work::Clone(work) => return self.clone_machine(vcenter, entity, work).map(Some),
            Work::Relocate { host, pool } => self.relocate(vcenter, entity, *host, *pool)?,
            Work::Destroy => {
                let existing = self.machine(vcenter, entity)?.power;
                if existing == Power::PoweredOn {
                    let requested = Some(Power::PoweredOff);
                    return Err(VcFault::InvalidPowerState { requested, existing });
                }
                self.destroy(vcenter, entity)?;
            }
            Work::SearchDatastore(directory) => {
                let inventory = &self.vcenter(vcenter)?.inventory;
                let is_root = directory.is_empty();
                if !is_root && inventory.by_machine_name(directory).next().is_none() {
                    return Err(VcFault::FileNotFound(directory.clone()));
                }
            }
            Work::Create { spec, pool, host } => {
                return self.create_in(vcenter, entity, spec, *pool, *host).map(Some);
            }
        }
        Ok(None)
    }
}
