//! Makes the controllers that the options select, and the node watch that feeds them and the
//! backend, and spawns them as tasks.

use std::sync::Arc;

use super::{Deps, Options, build::cluster};
use crate::{
    cluster::{Cluster, Events, NodeChange, NodeStore, Pauses, WritePermission, watch_nodes},
    controllers::{lifecycle, node},
    instances::Instances,
    mutant::Active,
    tasks::Tasks,
    telemetry::NodeNews,
};

/// The parts that all controllers of a run share.
pub(super) struct Controllers<'a> {
    options: &'a Options,
    deps: &'a Deps,
    instances: Arc<dyn Instances>,
    lease: Option<WritePermission>,
    active: Active,
    store: Arc<NodeStore>,
    pauses: Pauses,
}

impl<'a> Controllers<'a> {
    /// Collects the parts without spawning a task. The clients of the controllers write only while
    /// `lease` permits it, if given.
    pub(super) fn new(
        options: &'a Options,
        deps: &'a Deps,
        instances: Arc<dyn Instances>,
        lease: Option<WritePermission>,
        active: Active,
    ) -> Self {
        let (store, pauses) = (Arc::new(NodeStore::new()), Pauses::default());
        Self { options, deps, instances, lease, active, store, pauses }
    }

    /// Spawns the controllers that the options select and the node watch among `controllers`, and
    /// the senders of events among `backends`. If only the cloud-node controller runs, also spawns
    /// a task that reports troubles.
    pub(super) fn spawn(self, controllers: &Tasks, backends: &Tasks) {
        let node_controller =
            self.options.cloud_node.then(|| self.spawn_node(controllers, backends));
        if self.options.cloud_node_lifecycle {
            self.spawn_lifecycle(controllers, backends);
        } else if self.options.cloud_node {
            self.spawn_troubles(controllers, backends);
        }
        self.spawn_watch(controllers, node_controller);
    }

    /// Makes a client of the workload cluster with a separate rate limit.
    fn client(&self) -> Cluster {
        cluster(self.options, self.deps, &self.pauses).with_lease(self.lease.clone())
    }

    /// Spawns the sender of a component's events. Events have a separate client, so that a flood of
    /// events does not delay the writes of a controller.
    fn spawn_events(&self, component: &'static str, backends: &Tasks) -> Events {
        let (events, sending) = Events::new(component, self.client(), self.deps.clock.clone());
        backends.spawn_droppable(tracing::info_span!("events", component), sending);
        events
    }

    fn spawn_node(&self, controllers: &Tasks, backends: &Tasks) -> Arc<node::NodeController> {
        let Self { options, deps, .. } = self;
        let cluster = self.client();
        let events = self.spawn_events("cloud-node-controller", backends);
        let controller = node::NodeController::new(
            cluster,
            Arc::clone(&self.store),
            Arc::clone(&self.instances),
            events,
            Arc::clone(&deps.telemetry),
            node::Settings {
                workers: options.concurrent_node_syncs.max(1),
                status_period: options.node_status_period,
                extra_labels: options.node_labels.clone(),
                late_zone: options.supervisor.map(|it| it.late_zone).unwrap_or_default(),
                seed: deps.seed,
                active: self.active,
            },
        );
        controller.spawn(controllers);
        deps.telemetry.controller_started("cloud-node");
        deps.telemetry.set_check("cloud-node-controller", Ok(()));
        controller
    }

    fn spawn_lifecycle(&self, controllers: &Tasks, backends: &Tasks) {
        let Self { options, deps, .. } = self;
        let cluster = self.client();
        let events = self.spawn_events("cloud-node-lifecycle-controller", backends);
        lifecycle::LifecycleController::new(
            cluster,
            Arc::clone(&self.store),
            Arc::clone(&self.instances),
            events,
            Arc::clone(&deps.telemetry),
            lifecycle::Settings {
                period: options.node_monitor_period,
                skip_deletion: options.skip_node_deletion,
                seed: deps.seed,
                active: self.active,
            },
        )
        .spawn(controllers);
        deps.telemetry.controller_started("cloud-node-lifecycle");
        deps.telemetry.set_check("cloud-node-lifecycle-controller", Ok(()));
    }

    fn spawn_troubles(&self, controllers: &Tasks, backends: &Tasks) {
        let reporting = lifecycle::report_troubles(
            Arc::clone(&self.store),
            Arc::clone(&self.instances),
            self.spawn_events("cloud-node-controller", backends),
            Arc::clone(&self.deps.telemetry),
            self.options.node_monitor_period,
        );
        controllers.spawn_droppable(tracing::info_span!("troubles"), reporting);
    }

    /// Spawns the node watch, which passes each change to telemetry, the backend and then the
    /// cloud-node controller.
    fn spawn_watch(self, controllers: &Tasks, node_controller: Option<Arc<node::NodeController>>) {
        let (cluster, seed) = (self.client(), self.deps.seed);
        let telemetry = Arc::clone(&self.deps.telemetry);
        let (store, instances) = (self.store, self.instances);
        controllers.spawn_droppable(tracing::info_span!("node-watch"), async move {
            let on_change = |change: NodeChange| {
                match &change {
                    NodeChange::Applied(node) => {
                        telemetry.node_news(NodeNews::Applied);
                        instances.observe(&node.identity());
                    }
                    NodeChange::Deleted(node) => {
                        telemetry.node_news(NodeNews::Deleted);
                        instances.forget(&node.name);
                    }
                }
                if let Some(controller) = &node_controller {
                    controller.on_change(&change);
                }
            };
            watch_nodes(&cluster, &store, seed, &on_change).await;
        });
    }
}
