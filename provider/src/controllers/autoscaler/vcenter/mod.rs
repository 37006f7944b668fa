//! Backend whose machines are clones of a template in a vCenter, without Supervisor and without
//! Cluster API. The template may be that of an item of a content library.
//!
//! A journal holds all state: which machines the groups want, and which are being deleted. A change
//! of a group is one write of the journal. Tasks then make the machines as the journal says: each
//! looks at the machine, does the next step and looks again, so that a server that starts again goes
//! on from where the machine stands.
//!
//! A machine is destroyed only if the journal names it for deletion, both of its UUIDs are those of
//! the journal, it has the mark that this server wrote, and all its disks are from its template.

mod backend;
mod destroy;
mod failure;
mod journal;
mod keeper;
mod library;
mod machine;
mod make;
mod source;
mod state;
mod tokens;
mod view;

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use jiff::Timestamp;
use provider_vcenter::{CallError, Chain, FaultKind, FilterSpec, MoRef, Retry, TaskState, Vcenter};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::{
    failure::{Shows, Trouble},
    journal::{Intent, IntentState},
    keeper::Keeper,
    machine::{Detail, OF_CHANGE},
    state::State,
};
use super::{
    group::GroupId,
    plan::{Cause, MachineChange, MachineEvent},
    replacements::Replacements,
    tokens::{BootstrapTokens, Workload},
};
use crate::{
    cluster::{Events, Subject},
    model::Clock,
    tasks::Tasks,
    telemetry::{AutoscalerMetrics, Telemetry},
};

pub use journal::{AutoscalerJournal, ConfigMapJournal, JournalError, JournalStore};

/// Largest number of machines that are made at a time, and of machines that are destroyed.
const AT_A_TIME: usize = 8;
/// Interval at which the backend looks for work that has become due.
const LOOK: Duration = Duration::from_secs(1);
/// Pauses between two reads of a task.
const FIRST_READ: Duration = Duration::from_millis(500);
const LONGEST_READ: Duration = Duration::from_secs(5);
/// Time after which the backend no longer waits for a task.
const LONGEST_TASK: Duration = Duration::from_secs(3600);

/// Function that reads the file of a group with bootstrap data.
pub type BootstrapReader = Arc<dyn Fn(&std::path::Path) -> Result<Vec<u8>, String> + Send + Sync>;

/// The machines of all groups, and the work on them.
#[derive(Clone)]
pub(crate) struct VcenterMachines(Arc<Shared>);

struct Shared {
    vcenter: Vcenter,
    read_bootstrap: BootstrapReader,
    metrics: Arc<AutoscalerMetrics>,
    /// Recorder of the events about machines; `None` if the server knows no cluster for them.
    events: Option<Events>,
    clock: Clock,
    keeper: Keeper,
    state: Mutex<State>,
    making: Semaphore,
    destroying: Semaphore,
    replacements: Replacements,
    /// Bootstrap tokens; `None` if the server knows no workload cluster.
    workload: Option<Workload>,
    /// Wakes the task that makes and destroys machines.
    wake: Notify,
    /// Wakes the task that keeps the view.
    look_again: Notify,
}

impl VcenterMachines {
    pub(crate) fn new(
        vcenter: Vcenter,
        read_bootstrap: BootstrapReader,
        (journal, tokens): (AutoscalerJournal, Option<(BootstrapTokens, u64)>),
        events: Option<Events>,
        clock: Clock,
        telemetry: &Telemetry,
    ) -> Self {
        let AutoscalerJournal { store, content } = journal;
        let workload = tokens.map(|(of, seed)| {
            let (origin, wake) = (self::tokens::origin(content.id()), Arc::default());
            Workload::new(of, origin, (clock.clone(), seed), &wake, telemetry)
        });
        Self(Arc::new(Shared {
            vcenter,
            read_bootstrap,
            metrics: telemetry.autoscaler(),
            events,
            clock,
            keeper: Keeper::new(store),
            state: Mutex::new(State::new(content)),
            making: Semaphore::new(AT_A_TIME),
            destroying: Semaphore::new(AT_A_TIME),
            replacements: Replacements::default(),
            workload,
            wake: Notify::new(),
            look_again: Notify::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no holder panics")
    }

    fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Makes and destroys machines as the journal says, until the stop.
    async fn work(&self, tasks: Tasks, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if self.may_change() {
                let due = self.state().begin_due(self.now());
                for (instance, state) in due {
                    let (machines, span) = (self.clone(), tracing::info_span!("machine"));
                    tasks.spawn_droppable(span, async move {
                        machines.attempt(instance, state).await;
                    });
                }
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = self.0.wake.notified() => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// True if the server owns the journal, and the journal fits to the vCenter.
    fn may_change(&self) -> bool {
        let state = self.state();
        state.viewed_at.is_some()
            && state.lost.is_none()
            && state.contradiction(self.0.vcenter.instance_uuid()).is_none()
    }

    /// Works on a machine once.
    async fn attempt(&self, instance: Uuid, wanted: IntentState) {
        let result = match wanted {
            IntentState::Deleting => self.destroy(instance).await,
            _ => self.make(instance).await,
        };
        let mut state = self.state();
        let intent = state.journal.find(instance).cloned();
        let work = state.work(instance);
        work.is_busy = false;
        match result {
            Ok(()) => work.succeeded(),
            // The failure is that of a step that is not wanted any more.
            Err(_) if intent.as_ref().is_some_and(|it| it.state != wanted) => {}
            Err(trouble) => {
                let (failure, shows) = (trouble.failure.clone(), trouble.shows);
                let is_shown = work.failed(trouble);
                let is_logged = shows != Shows::Never || is_shown || work.has_failed_often();
                let cause = work.cause.clone();
                if let Some(intent) = intent.filter(|_| is_logged) {
                    tracing::warn!(group = %intent.group, machine = %intent.name, code = %failure.code, error = %failure.message, "working on a machine failed; retrying");
                    if is_shown {
                        self.0.metrics.machine_failed(GroupId::of_clones(&intent.group).as_str());
                        self.report(&intent, cause, &failed(&intent, failure.message));
                    }
                }
            }
        }
        drop(state);
        self.0.wake.notify_one();
    }

    /// Returns the machine's entry in the journal, if it has one in this state.
    fn intent(&self, instance: Uuid, state: IntentState) -> Option<Intent> {
        self.state().journal.find(instance).filter(|it| it.state == state).cloned()
    }

    fn cause(&self, instance: Uuid) -> Option<Cause> {
        self.state().work(instance).cause.clone()
    }

    /// Records the event about a change of a machine. Without `cause`, an earlier process of the server
    /// was asked for the change. Returns the text of the cause.
    fn report(&self, intent: &Intent, cause: Option<Cause>, change: &MachineChange) -> Cause {
        let cause = cause.unwrap_or_else(|| Cause::earlier(&GroupId::of_clones(&intent.group)));
        if let Some(events) = &self.0.events {
            let MachineEvent { severity, reason, message } = change.event(&cause);
            events.record_about(Subject::future_node(&intent.name), severity, reason, message);
        }
        cause
    }

    /// Finds the machine by its instance UUID; `None` if vCenter shows none.
    async fn look(&self, instance: Uuid) -> Result<Option<Detail>, Trouble> {
        let found = self.0.vcenter.find_all_by_instance_uuid(&instance.to_string()).await;
        match &found.map_err(|err| Trouble::of_call(&err))?[..] {
            [] => Ok(None),
            [one] => self.read(one).await,
            several => {
                let text = format!("{} machines have the instance UUID {instance}", several.len());
                Err(Trouble::other("NAME_CONFLICT", &text, Shows::AtOnce))
            }
        }
    }

    /// Reads a machine; `None` if it is gone.
    async fn read(&self, object: &MoRef) -> Result<Option<Detail>, Trouble> {
        let spec = FilterSpec::of_objects("VirtualMachine", &OF_CHANGE, vec![object.clone()]);
        match self.0.vcenter.retrieve(&spec).await {
            Ok(read) => Ok(read.first().map(Detail::read)),
            Err(err) if err.says_gone(object) => Ok(None),
            Err(err) => Err(Trouble::of_call(&err)),
        }
    }

    /// True if the object of a machine exists although a search by UUID does not find the machine:
    /// vCenter cannot read the configuration of a machine whose storage is not accessible.
    async fn has_object(&self, instance: Uuid) -> Result<bool, Trouble> {
        let object = self.state().journal.find(instance).and_then(|it| it.object.clone());
        let Some(object) = object else { return Ok(false) };
        let read = self.read(&MoRef::new("VirtualMachine", object)).await?;
        // vCenter may have given the ID to another machine.
        Ok(read.is_some_and(|it| it.seen.instance.is_none_or(|it| it == instance)))
    }

    /// Waits until a task ends, and returns its result.
    async fn finish(&self, task: &MoRef) -> Result<Option<MoRef>, Trouble> {
        let mut pause = FIRST_READ;
        let began = Instant::now();
        while began.elapsed() < LONGEST_TASK {
            tokio::time::sleep(pause).await;
            pause = pause.mul_f64(1.5).min(LONGEST_READ);
            match self.0.vcenter.task_state(task).await {
                Ok(TaskState::Running) => {}
                Ok(TaskState::Done(result)) => return Ok(result),
                Ok(TaskState::Failed(fault)) => {
                    return Err(Trouble::of_fault(&fault, &fault.to_string()));
                }
                Ok(TaskState::Forgotten) => {
                    let text = format!("vCenter has forgotten {task}");
                    return Err(Trouble::other("VM_CREATE_FAILED", &text, Shows::AfterGrace));
                }
                // The task goes on.
                Err(err) if is_lasting(&err) => return Err(Trouble::of_call(&err).of_running()),
                Err(err) => {
                    tracing::debug!(error = %Chain(&err), "reading a task failed; retrying");
                    pause = err.retry().pause(LONGEST_READ);
                }
            }
        }
        let text = format!("{task} has not ended within an hour");
        Err(Trouble::other("VM_CREATE_FAILED", &text, Shows::AfterGrace).of_running())
    }
}

/// Returns the change that failed.
fn failed(intent: &Intent, why: String) -> MachineChange {
    match intent.state {
        IntentState::Deleting => MachineChange::NotDeleted(why),
        _ => MachineChange::NotCreated(why),
    }
}

/// True if a read of a task would fail again.
fn is_lasting(err: &CallError) -> bool {
    err.retry() == Retry::Never || matches!(err.fault(), Some(FaultKind::NoPermission))
}
