//! The vCenter as a backend of the server.

use std::{sync::Arc, time::Duration};

use tonic::Status;
use uuid::Uuid;

use super::{
    super::{
        backend::{Backend, is_current},
        group::{Capacity, Group, GroupId, Shape},
        instance::{InstanceId, one_line},
        plan::{Cause, Deletion, Giving, Members, Membership, NamedNode, Victim},
    },
    VcenterMachines,
    journal::{IntentState, Journal},
    keeper::CommitError,
    source::Source,
};
use crate::tasks::Tasks;

#[tonic::async_trait]
impl Backend for VcenterMachines {
    /// Spawns the tasks that keep the view, and that make and destroy machines.
    fn spawn(&self, tasks: &Tasks) {
        let (follower, worker, settler) = (self.clone(), self.clone(), self.clone());
        let (stop, stopping, more) = (tasks.stopping(), tasks.stopping(), tasks.clone());
        tasks.spawn_droppable(tracing::info_span!("machines"), async move {
            follower.follow(&stop).await;
        });
        let settling = tasks.stopping();
        tasks.spawn_droppable(tracing::info_span!("journal"), async move {
            settler.keep_settled(&settling).await;
        });
        tasks.spawn_droppable(tracing::info_span!("work"), async move {
            worker.work(more, stopping).await;
        });
        if self.0.workload.is_some() {
            self.spawn_tokens(tasks);
        }
    }

    async fn use_groups(&self, groups: &[Arc<Group>]) {
        let has_token =
            |it: &Arc<Group>| matches!(&it.shape, Shape::Clone(it) if it.bootstrap.token.is_some());
        if let Some(workload) = self.0.workload.as_ref().filter(|_| groups.iter().any(has_token)) {
            workload.use_from_now();
        }
        let named = groups.iter().map(|it| (it.name.clone(), Arc::clone(it))).collect();
        if self.state().use_groups(named) {
            self.0.look_again.notify_one();
        }
    }

    fn usable(&self) -> Result<(), String> {
        let state = self.state();
        if let Some(why) = &state.lost {
            return Err(format!("another server uses the journal: {why}"));
        }
        if let Some(why) = state.contradiction(self.0.vcenter.instance_uuid()) {
            return Err(why);
        }
        is_current(state.viewed_at.map(|at| at.elapsed()), "machines")
    }

    fn view_age(&self) -> Option<Duration> {
        self.state().viewed_at.map(|at| at.elapsed())
    }

    fn members(&self, group: &Group) -> Members {
        Members::counted(self.state().instances(&group.name))
    }

    fn membership(&self, group: &Group, node: &NamedNode) -> Membership {
        self.state().membership(&group.name, node)
    }

    fn group_of(&self, id: &str, name: &str) -> Option<GroupId> {
        let state = self.state();
        let found = state.find(id, name).filter(|it| it.state != IntentState::Deleted);
        found.map(|it| GroupId::of_clones(&it.group))
    }

    fn capacity(&self, group: &Group) -> Result<Capacity, String> {
        self.of_source(group, Source::capacity)
    }

    fn instance_type(&self, group: &Group) -> String {
        self.of_source(group, Source::instance_type).unwrap_or_default()
    }

    async fn increase(
        &self,
        group: &Group,
        causes: Vec<Cause>,
        budget: Duration,
    ) -> Result<(), Status> {
        self.may_be_changed()?;
        let names = self.state().names.clone();
        let want = |journal: &mut Journal| {
            let is_taken = |name: &str| names.contains(name);
            let wanted =
                causes.into_iter().map(|it| (journal.want(&group.name, None, is_taken), it));
            Ok(wanted.collect::<Vec<_>>())
        };
        let wanted = self.commit(budget, want).await?;
        self.record(wanted);
        Ok(())
    }

    async fn delete(
        &self,
        group: &Group,
        deletion: Deletion,
        budget: Duration,
    ) -> Result<(), Status> {
        self.may_be_changed()?;
        let Deletion { victims, replacements } = deletion;
        let held_until = (!replacements.is_empty())
            .then(|| self.now().checked_add(self.0.replacements.pause(&group.name)).ok())
            .flatten();
        let names = self.state().names.clone();
        let named: Vec<(Uuid, Cause)> = self.named(&victims);
        let victims: Vec<Uuid> = named.iter().map(|(instance, _)| *instance).collect();
        let change = |journal: &mut Journal| {
            give_up(journal, &victims);
            let is_taken = |name: &str| names.contains(name);
            let want = |it| (journal.want(&group.name, held_until, is_taken), it);
            Ok(replacements.into_iter().map(want).collect::<Vec<_>>())
        };
        let wanted = self.commit(budget, change).await?;
        self.record(named.into_iter().chain(wanted));
        Ok(())
    }

    async fn decrease(&self, _: &Group, giving: Giving, budget: Duration) -> Result<(), Status> {
        self.may_be_changed()?;
        let named = self.named(&giving.victims);
        let victims: Vec<Uuid> = named.iter().map(|(instance, _)| *instance).collect();
        if !self.condemn(&victims) {
            return Err(CommitError::Exists.into());
        }
        let change = |journal: &mut Journal| {
            give_up(journal, &victims);
            Ok(())
        };
        let result = self.commit(budget, change).await;
        let mut state = self.state();
        for instance in &victims {
            state.work(*instance).is_given_up = false;
        }
        drop(state);
        result?;
        self.record(named);
        Ok(())
    }

    async fn close(&self) {
        self.0.vcenter.close().await;
    }
}

impl VcenterMachines {
    /// Spawns the tasks that watch the tokens and Nodes, and that keep the tokens.
    fn spawn_tokens(&self, tasks: &Tasks) {
        let (follower, keeper) = (self.clone(), self.clone());
        tasks.spawn_droppable(tracing::info_span!("bootstrap"), async move {
            if let Some(workload) = &follower.0.workload {
                workload.used().await;
                workload.follow().await;
            }
        });
        let stop = tasks.stopping();
        tasks.spawn_droppable(tracing::info_span!("bootstrap"), async move {
            if let Some(workload) = &keeper.0.workload {
                keeper.keep_tokens(workload, &stop).await;
            }
        });
    }

    fn may_be_changed(&self) -> Result<(), Status> {
        self.usable().map_err(|why| Status::unavailable(one_line(&why)))
    }

    fn of_source<T>(
        &self,
        group: &Group,
        read: impl Fn(&Source, &super::super::group::CloneShape) -> T,
    ) -> Result<T, String> {
        let Shape::Clone(shape) = &group.shape else {
            return Err("the group has no clones".to_owned());
        };
        match self.state().sources.get(&group.name) {
            Some(Ok(source)) => Ok(read(source, shape)),
            Some(Err(err)) => Err(err.message().to_owned()),
            None => Err("the template was not read yet".to_owned()),
        }
    }

    /// Returns the instance UUIDs of victims.
    fn named(&self, victims: &[Victim]) -> Vec<(Uuid, Cause)> {
        let state = self.state();
        let find = |it: &Victim| {
            let intent =
                state.present().find(|intent| InstanceId::from(intent.provider_id()) == it.id)?;
            Some((intent.instance, it.cause.clone()))
        };
        victims.iter().filter_map(find).collect()
    }

    /// Keeps the machines from being started; false if one is started already.
    fn condemn(&self, victims: &[Uuid]) -> bool {
        let mut state = self.state();
        let is_started = |it: &Uuid| state.work.get(it).is_some_and(|it| it.is_started);
        if victims.iter().any(is_started) {
            return false;
        }
        for instance in victims {
            state.work(*instance).is_given_up = true;
        }
        true
    }

    /// Remembers which calls asked for the present states of machines, and starts the work.
    fn record(&self, changes: impl IntoIterator<Item = (Uuid, Cause)>) {
        let mut state = self.state();
        for (instance, cause) in changes {
            let work = state.work(instance);
            work.succeeded();
            work.cause = Some(cause.clone());
            if let Some(it) = state.journal.find(instance) {
                let (group, machine, state) = (&it.group, &it.name, it.state);
                tracing::info!(%group, %machine, provider_id = %it.provider_id(), ?state, %cause, "the journal has a change");
            }
        }
        drop(state);
        self.0.wake.notify_one();
    }
}

/// Names machines for deletion.
fn give_up(journal: &mut Journal, victims: &[Uuid]) {
    for instance in victims {
        if let Some(it) = journal.find_mut(*instance).filter(|it| it.counts()) {
            it.state = IntentState::Deleting;
            it.held_until = None;
        }
    }
}
