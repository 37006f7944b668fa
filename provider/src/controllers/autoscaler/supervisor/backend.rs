//! The Supervisor as a backend of the server.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tonic::Status;

use super::{
    super::{
        backend::{Backend, is_current},
        group::{Capacity, Group, GroupId, Shape},
        instance::one_line,
        plan::{Cause, Deletion, Giving, Members, Membership, NamedNode},
        server::status,
    },
    CreateError, Created, DeleteError, SupervisorMachines, classes, follow,
};
use crate::tasks::Tasks;

#[tonic::async_trait]
impl Backend for SupervisorMachines {
    /// Spawns the tasks that keep the view, delete what is left of failed increases, and start
    /// replacements.
    fn spawn(&self, tasks: &Tasks) {
        let (follower, sweeper) = (self.clone(), self.clone());
        tasks.spawn_droppable(tracing::info_span!("machines"), async move {
            follow::follow(&follower.0).await;
        });
        let stop = tasks.stopping();
        tasks.spawn_droppable(tracing::info_span!("leftovers"), async move {
            sweeper.sweep(&stop).await;
        });
        if self.0.bootstrap.is_some() {
            self.spawn_tokens(tasks);
        }
    }

    /// Reads the classes of the groups, and counts machines of others only for the groups that adopt
    /// them.
    async fn use_groups(&self, groups: &[Arc<Group>]) {
        let adopting = groups.iter().filter(|it| it.adopt).map(|it| it.name.clone()).collect();
        self.view().adopting = adopting;
        let has_token = |it: &Arc<Group>| matches!(&it.shape, Shape::VirtualMachine(shape) if shape.bootstrap.token.is_some());
        if let Some(bootstrap) = self.0.bootstrap.as_ref().filter(|_| groups.iter().any(has_token))
        {
            bootstrap.use_from_now();
        }
        classes::read(&self.0, groups).await;
    }

    fn usable(&self) -> Result<(), String> {
        is_current(self.view_age(), "VirtualMachines")
    }

    fn view_age(&self) -> Option<Duration> {
        self.view().current_at.map(|at| at.elapsed())
    }

    fn members(&self, group: &Group) -> Members {
        let now = self.now();
        Members::counted(self.view().instances(&group.name, now))
    }

    fn membership(&self, group: &Group, node: &NamedNode) -> Membership {
        let now = self.now();
        self.view().membership(&group.name, node, now)
    }

    fn group_of(&self, id: &str, name: &str) -> Option<GroupId> {
        let view = self.view();
        let machine = view.find(id, name)?;
        Some(GroupId::of_virtual_machines(&self.0.namespace, &machine.group))
    }

    fn capacity(&self, group: &Group) -> Result<Capacity, String> {
        let class = group.instance_type();
        let classes = self.0.classes.lock().expect("no holder panics");
        let unread = || Err(format!("class {class} was not read yet"));
        classes.get(class).cloned().unwrap_or_else(unread)
    }

    async fn increase(
        &self,
        group: &Group,
        causes: Vec<Cause>,
        budget: Duration,
    ) -> Result<(), Status> {
        let created = self.create(group, causes, None, budget).await;
        created.map(drop).map_err(|err| of_creation(&err))
    }

    async fn delete(
        &self,
        group: &Group,
        deletion: Deletion,
        budget: Duration,
    ) -> Result<(), Status> {
        let Deletion { victims, replacements } = deletion;
        let ends_at = Instant::now() + budget;
        let mut replacing = Created::default();
        if !replacements.is_empty() {
            let pause = self.0.replacements.pause(&group.name);
            let created = self.create(group, replacements, Some(pause), budget).await;
            replacing = created.map_err(|err| of_creation(&err))?;
        }
        let left = ends_at.saturating_duration_since(Instant::now());
        let deleted = self.delete_all(&victims, false, left).await;
        deleted.map_err(|err| {
            // The autoscaler repeats the request, which replaces the rest again.
            self.undo_replacements(replacing, &victims);
            of_deletion(&err)
        })
    }

    async fn decrease(&self, _: &Group, giving: Giving, budget: Duration) -> Result<(), Status> {
        let deleted = self.delete_all(&giving.victims, true, budget).await;
        deleted.map_err(|err| of_deletion(&err))
    }
}

impl SupervisorMachines {
    /// Spawns the tasks that watch the Secrets and Nodes, and that keep the tokens.
    fn spawn_tokens(&self, tasks: &Tasks) {
        let (follower, keeper) = (self.clone(), self.clone());
        tasks.spawn_droppable(tracing::info_span!("bootstrap"), async move {
            if let Some(bootstrap) = &follower.0.bootstrap {
                bootstrap.follow().await;
            }
        });
        let stop = tasks.stopping();
        tasks.spawn_droppable(tracing::info_span!("bootstrap"), async move {
            if let Some(bootstrap) = &keeper.0.bootstrap {
                keeper.keep_tokens(bootstrap, &stop).await;
            }
        });
    }
}

/// Returns the status of a failed creation.
fn of_creation(err: &CreateError) -> Status {
    match err {
        CreateError::Request(err) => status::of(err),
        CreateError::Bootstrap(err) => Status::new(err.code(), one_line(&err.to_string())),
        CreateError::Late { .. } => Status::resource_exhausted(err.to_string()),
    }
}

/// Returns the status of a failed deletion.
fn of_deletion(err: &DeleteError) -> Status {
    match err {
        DeleteError::Request(err) => status::of(err),
        DeleteError::Exists => Status::failed_precondition(err.to_string()),
        DeleteError::Late { .. } => Status::unavailable(err.to_string()),
    }
}
