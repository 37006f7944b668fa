//! Server for the Cluster Autoscaler (`--cloud-provider=externalgrpc`): groups of machines that the
//! autoscaler makes larger and smaller.
//!
//! | part | task |
//! | --- | --- |
//! | [`group`], [`groups`] | what a group is; the groups, read again while running |
//! | [`node_groups`] | groups that are objects of a cluster instead of entries of a file |
//! | [`instance`], [`plan`] | instances of a group, and decisions about its size; pure |
//! | [`backend`] | the interface of a backend, which creates and deletes machines |
//! | [`replacements`] | pauses before failed machines are made again |
//! | [`tokens`] | bootstrap tokens of new machines |
//! | [`cluster_api`] | backend: machines of Cluster API |
//! | [`supervisor`] | backend: machines as VirtualMachine objects of a Supervisor |
//! | [`vcenter`] | backend: machines as clones of a template in a vCenter |
//! | [`server`] | the protocol and its connections |

mod backend;
mod cluster_api;
mod group;
mod groups;
mod instance;
mod node_groups;
mod plan;
mod replacements;
mod server;
mod supervisor;
mod tokens;
mod vcenter;

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use provider_vcenter::{Transport, Vcenter};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::{
    backend::Backend,
    cluster_api::ClusterApiMachines,
    group::MachineKind,
    groups::Groups,
    instance::{Instance, State},
    node_groups::NodeGroups,
    plan::COMPONENT,
    server::{Service, Services, Tls},
    supervisor::SupervisorMachines,
    vcenter::VcenterMachines,
};
use crate::{
    InputError, Listener, SecretFiles, SupervisorLink, VcenterConfig,
    cluster::{Cluster, Events},
    config::Credentials,
    model::Clock,
    supervisor::VmOperatorVersion,
    tasks::Tasks,
    telemetry::{AutoscalerMetrics, AutoscalerReading, GroupReading, Telemetry},
};

pub use cluster_api::{ClusterApiSettings, KubeletReservation};
pub use groups::GroupsFile;
pub use node_groups::{NODE_GROUP_DEFINITION, NodeGroupSettings};
pub use server::TlsFiles;
pub use tokens::{BootstrapTokens, SecretRandom};
pub use vcenter::{
    AutoscalerJournal, BootstrapReader, ConfigMapJournal, JournalError, JournalStore,
};

/// Requests per second for Secrets after a burst, as client-go's.
const SECRET_QPS: f64 = 5.0;
const SECRET_BURST: u32 = 10;
/// Events per second about the machines of a vCenter, after a burst.
const EVENT_QPS: f64 = 50.0;
const EVENT_BURST: u32 = 100;
/// Interval at which the health of the server follows its view.
const HEALTH: Duration = Duration::from_secs(1);

/// Platform on which the server creates and deletes machines.
#[non_exhaustive]
pub enum AutoscalerBackend {
    /// VirtualMachine objects in one namespace of a Supervisor.
    Supervisor {
        /// Connection to the Supervisor, and the namespace.
        link: SupervisorLink,
        /// API version of VirtualMachines.
        version: VmOperatorVersion,
        /// Workload cluster that the machines join, for groups with `token`; `None` refuses them.
        tokens: Option<BootstrapTokens>,
    },
    /// MachineDeployments and MachineSets of a management cluster of Cluster API. They are the groups.
    ClusterApi {
        /// Client of the management cluster.
        client: kube::Client,
        /// Selection of the groups.
        settings: ClusterApiSettings,
    },
    /// Clones of templates in a vCenter.
    Vcenter {
        /// Connection to the vCenter.
        link: Box<VcenterLink>,
        /// The opened journal.
        journal: AutoscalerJournal,
        /// Reads the files with bootstrap data.
        read_bootstrap: BootstrapReader,
        /// Workload cluster that the machines join, for groups with `token`; `None` refuses them.
        tokens: Option<BootstrapTokens>,
    },
}

/// Connection to a vCenter.
#[derive(Clone)]
pub struct VcenterLink {
    /// Address and credential.
    pub config: VcenterConfig,
    /// Transport to the vCenter.
    pub transport: Transport,
    /// Cluster with the Secret of the credential, and for the events about machines; `None` if neither
    /// is wanted.
    pub cluster: Option<kube::Client>,
    /// Reads a directory with the credential.
    pub secret_files: Option<SecretFiles>,
}

impl AutoscalerBackend {
    /// Returns the kind of the machines in the file with the groups; `None` if the groups are objects.
    fn machines(&self) -> Option<MachineKind> {
        match self {
            Self::Supervisor { link, tokens, .. } => {
                let machines = MachineKind::virtual_machines(&link.namespace);
                Some(machines.with_tokens(tokens.is_some()))
            }
            Self::Vcenter { tokens, .. } => {
                Some(MachineKind::clones().with_tokens(tokens.is_some()))
            }
            Self::ClusterApi { .. } => None,
        }
    }

    /// Returns the backend, and the future that writes its events. A backend whose groups are objects
    /// puts them into `groups`.
    fn start(
        self,
        groups: &Arc<Groups>,
        clock: &Clock,
        seed: u64,
        telemetry: &Arc<Telemetry>,
    ) -> (Arc<dyn Backend>, BoxFuture<'static, ()>) {
        let clock = clock.clone();
        match self {
            Self::Supervisor { link, version, tokens } => {
                let (machines, sending) =
                    SupervisorMachines::new(link, version, tokens, clock, seed, telemetry);
                (Arc::new(machines), sending.boxed())
            }
            Self::ClusterApi { client, settings } => {
                let groups = Arc::clone(groups);
                let (machines, sending) =
                    ClusterApiMachines::new(client, settings, groups, clock, seed, telemetry);
                (Arc::new(machines), sending.boxed())
            }
            Self::Vcenter { link, journal, read_bootstrap, tokens } => {
                let VcenterLink { config, transport, cluster, secret_files } = *link;
                let (events, sending) = match cluster.clone() {
                    Some(client) => {
                        let of_events = Cluster::new(client, EVENT_QPS, EVENT_BURST)
                            .with_counter(telemetry.cluster_requests());
                        let (events, sending) = Events::new(COMPONENT, of_events, clock.clone());
                        (Some(events), sending.boxed())
                    }
                    None => (None, std::future::ready(()).boxed()),
                };
                let cluster = cluster.map(|client| Cluster::new(client, SECRET_QPS, SECRET_BURST));
                let credentials = Arc::new(Credentials::new(&config, cluster, secret_files));
                let settings = provider_vcenter::Settings {
                    seed,
                    observer: Some(Arc::clone(telemetry) as _),
                    ..provider_vcenter::Settings::default()
                };
                let vcenter = Vcenter::new(&config.endpoint, transport, credentials, settings);
                let workload = tokens.map(|it| (it, seed));
                let machines = VcenterMachines::new(
                    vcenter,
                    read_bootstrap,
                    (journal, workload),
                    events,
                    clock,
                    telemetry,
                );
                (Arc::new(machines), sending)
            }
        }
    }
}

/// Origin of the groups of the backends `Supervisor` and `Vcenter`.
#[non_exhaustive]
pub enum GroupsSource {
    /// A file.
    File(GroupsFile),
    /// NodeGroup objects of a cluster, whose definition `provider autoscaler --print-crd` prints.
    Objects {
        /// Client of the cluster.
        client: kube::Client,
        /// Selection of the objects.
        settings: NodeGroupSettings,
    },
}

/// Settings and dependencies of the server, which its caller supplies.
pub struct AutoscalerDeps {
    /// Platform of the machines.
    pub backend: AutoscalerBackend,
    /// The groups; `None` with Cluster API, whose objects are the groups.
    pub groups: Option<GroupsSource>,
    /// Reads the files for mutual TLS; `None` serves plain text.
    pub tls: Option<TlsFiles>,
    /// Label of Nodes with GPUs; empty if no group has GPUs.
    pub gpu_label: String,
    /// Metrics and health, from [`Telemetry::of_autoscaler`].
    pub telemetry: Arc<Telemetry>,
    /// Wall time.
    pub clock: Clock,
    /// Seed of every random draw.
    pub seed: u64,
    /// Longest time for which the stop waits for open requests, and then half as long for the last
    /// events; [`Self::GRACE`] unless something else limits the stop.
    pub grace: Duration,
    /// The caller cancels this token to stop the server: it accepts no more connections, sends
    /// `GOAWAY`, and answers the open requests.
    pub stop: CancellationToken,
}

/// A server whose input is read and checked.
pub struct AutoscalerServer {
    deps: AutoscalerDeps,
    groups: Arc<Groups>,
    /// Writes the events about NodeGroups.
    sending: BoxFuture<'static, ()>,
    tls: Option<Arc<Tls>>,
}

/// The end of a server by a task that panicked, which is a bug.
#[derive(Debug, thiserror::Error)]
#[error("a task of the server panicked; report this bug with the log")]
pub struct AutoscalerPanicked;

impl AutoscalerDeps {
    /// Usual time for which the stop waits for open requests.
    pub const GRACE: Duration = Duration::from_secs(10);

    /// Reads the groups and the files for TLS, without sending a request.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or used. A file with one wrong group among others can be used.
    pub fn prepare(mut self) -> Result<AutoscalerServer, InputError> {
        let metrics = self.telemetry.autoscaler();
        let mut sending = std::future::ready(()).boxed();
        let groups = match (self.groups.take(), self.backend.machines()) {
            (Some(GroupsSource::File(file)), Some(machines)) => {
                Groups::read(file, machines, metrics)?
            }
            (Some(GroupsSource::Objects { client, settings }), Some(machines)) => {
                check(&settings, &machines)?;
                let changed = Arc::new(Notify::new());
                let (clock, reload) = ((self.clock.clone(), self.seed), Arc::clone(&changed));
                let (objects, events) =
                    NodeGroups::new(client, settings, machines, clock, &self.telemetry, changed);
                sending = events.boxed();
                Groups::of_objects(objects, reload, metrics)
            }
            (None, None) => Groups::empty(metrics),
            (None, Some(_)) => return Err(InputError::new("a source of the groups is required")),
            (Some(_), None) => {
                let err = InputError::new("the groups of Cluster API are its own objects");
                return Err(err.remedy("name no other source of groups"));
            }
        };
        let groups = Arc::new(groups);
        let tls = self.tls.clone().map(Tls::read).transpose()?.map(Arc::new);
        Ok(AutoscalerServer { deps: self, groups, sending, tls })
    }
}

/// Checks that objects may name files of bootstrap data exactly if their machines have such files.
fn check(settings: &NodeGroupSettings, machines: &MachineKind) -> Result<(), InputError> {
    match (machines, &settings.bootstrap_directory) {
        (MachineKind::Clone { .. }, None) => {
            let err = InputError::new("is required for NodeGroups of clones");
            Err(err.remedy("name the directory with their files").in_flag("bootstrap-directory"))
        }
        (MachineKind::VirtualMachine { .. }, Some(directory)) => {
            let err = InputError::invalid(
                &directory.display().to_string(),
                "has no effect, because a Secret has the bootstrap data of VirtualMachines",
            );
            Err(err.remedy("remove it").in_flag("bootstrap-directory"))
        }
        _ => Ok(()),
    }
}

/// Checks the files of a server that starts later, without sending a request: that of the groups and
/// those of TLS. Without `backend` the machines of the groups are clones, and `has_tokens` says whether the
/// server knows a workload cluster.
///
/// # Errors
///
/// If a file cannot be read or used.
#[doc(hidden)]
pub fn check_autoscaler_files(
    groups: Option<GroupsFile>,
    tls: Option<TlsFiles>,
    backend: Option<&AutoscalerBackend>,
    has_tokens: bool,
) -> Result<(), InputError> {
    if let Some(file) = groups {
        let clones = || Some(MachineKind::clones().with_tokens(has_tokens));
        let machines = backend.map_or_else(clones, AutoscalerBackend::machines);
        if let Some(machines) = machines {
            Groups::read(file, machines, Arc::default())?;
        }
    }
    tls.map(Tls::read).transpose().map(drop)
}

impl AutoscalerServer {
    /// Serves autoscalers that connect to `listener`, until the stop.
    ///
    /// # Errors
    ///
    /// If a task panicked.
    ///
    /// Cancel safe in the sense of a crash: dropping the future stops every task.
    pub async fn serve(self, listener: impl Listener + 'static) -> Result<(), AutoscalerPanicked> {
        let Self { deps, groups, sending: of_groups, tls } = self;
        let (clock, seed) = (deps.clock.clone(), deps.seed);
        let (backend, sending) = deps.backend.start(&groups, &clock, seed, &deps.telemetry);
        let metrics = deps.telemetry.autoscaler();
        show(&metrics, Arc::clone(&groups), Arc::clone(&backend));
        let (crash, panicked) = (CancellationToken::new(), CancellationToken::new());
        let _abort = crash.clone().drop_guard();
        let dropped = crash.child_token();
        let tasks = Tasks::new(&dropped, &panicked);
        backend.spawn(&tasks);
        let senders = Tasks::new(&crash, &panicked);
        senders.spawn(tracing::info_span!("events"), sending);
        senders.spawn(tracing::info_span!("events"), of_groups);
        spawn_objects(&groups, &backend, &tasks);
        let (follower, follows) = (Arc::clone(&groups), Arc::clone(&backend));
        let stopping = tasks.stopping();
        tasks.spawn(tracing::info_span!("groups"), async move {
            follower.follow(&*follows, &stopping).await;
        });
        if let Some(tls) = tls.clone() {
            let follow = async move { tls.follow().await };
            tasks.spawn_droppable(tracing::info_span!("tls"), follow);
        }
        let service = Service::new(
            groups.clone(),
            Arc::clone(&backend),
            &deps.gpu_label,
            deps.clock,
            tasks.clone(),
        );
        let services = Services::new(service, Arc::clone(&metrics));
        services.set_serving(false).await;
        let follow = follow_health(services.clone(), groups, Arc::clone(&backend));
        tasks.spawn_droppable(tracing::info_span!("health"), follow);
        let outcome = tokio::select! {
            biased;
            () = deps.stop.cancelled() => Ok(()),
            () = panicked.cancelled() => Err(AutoscalerPanicked),
            () = server::serve(listener, tls, services, &tasks) => Ok(()),
        };
        end((&tasks, &dropped), backend, (&senders, deps.grace), &metrics).await;
        outcome
    }
}

/// Spawns the tasks that keep NodeGroups current and write their statuses, if they are the groups.
fn spawn_objects(groups: &Groups, backend: &Arc<dyn Backend>, tasks: &Tasks) {
    let Some(objects) = groups.objects() else { return };
    let (keeper, writer) = (Arc::clone(objects), Arc::clone(objects));
    tasks.spawn_droppable(tracing::info_span!("nodegroups"), async move { keeper.keep().await });
    let (backend, stop) = (Arc::clone(backend), tasks.stopping());
    tasks.spawn(tracing::info_span!("nodegroups"), async move {
        writer.write_statuses(&*backend, &stop).await;
    });
}

/// Says why the server cannot scale: the groups or the view of the machines cannot be used.
fn usable(groups: &Groups, backend: &dyn Backend) -> Result<(), String> {
    groups.usable().and_then(|()| backend.usable())
}

/// Sets gRPC health by the groups and the view of the machines, forever.
async fn follow_health(services: Services, groups: Arc<Groups>, backend: Arc<dyn Backend>) {
    loop {
        services.set_serving(usable(&groups, &*backend).is_ok()).await;
        tokio::time::sleep(HEALTH).await;
    }
}

/// Ends the tasks of the server, then the sessions of the backend, and then the sender of events when
/// it has sent those of the tasks. Cancels the token of tasks that do not end by themselves.
async fn end(
    (tasks, dropped): (&Tasks, &CancellationToken),
    backend: Arc<dyn Backend>,
    (senders, grace): (&Tasks, Duration),
    metrics: &AutoscalerMetrics,
) {
    if !tasks.stop(grace).await {
        tracing::warn!("the server did not stop in time; dropping its tasks");
        dropped.cancel();
    }
    backend.close().await;
    drop(backend);
    // The sender ends with the last recorder of events, which the function of the metrics has.
    metrics.set_probe(Box::new(|| AutoscalerReading {
        trouble: Some("the server has stopped".to_owned()),
        ..AutoscalerReading::default()
    }));
    if !senders.stop(grace / 2).await {
        tracing::warn!("not all events about machines could be written before the stop");
    }
}

/// Has the metrics show the groups and their machines.
fn show(metrics: &AutoscalerMetrics, groups: Arc<Groups>, backend: Arc<dyn Backend>) {
    metrics.set_probe(Box::new(move || {
        let view_age = backend.view_age();
        let reading = |group: Arc<group::Group>| {
            let members = backend.members(&group);
            let has_failed = |it: &&Instance| matches!(it.state, State::Failed(_));
            GroupReading {
                id: group.id.to_string(),
                min: group.min,
                max: group.max,
                size: view_age.is_some().then_some(members.target),
                n_failed: members.instances.iter().filter(has_failed).count(),
            }
        };
        AutoscalerReading {
            groups: groups.answering().into_iter().map(reading).collect(),
            view_age,
            trouble: usable(&groups, &*backend).err(),
        }
    }));
}
