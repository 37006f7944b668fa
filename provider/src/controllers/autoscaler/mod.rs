//! Server for the Cluster Autoscaler (`--cloud-provider=externalgrpc`): groups of machines that the
//! autoscaler makes larger and smaller.
//!
//! | part | task |
//! | --- | --- |
//! | [`group`], [`groups`] | what a group is; the file with the groups, read again while running |
//! | [`instance`], [`plan`] | instances of a group, and decisions about its size; pure |
//! | [`supervisor`] | machines as VirtualMachine objects of a Supervisor |
//! | [`service`], [`status`], [`serve`], [`tls`] | the protocol and its connections |

mod group;
mod groups;
mod instance;
mod plan;
mod serve;
mod service;
mod status;
mod supervisor;
mod tls;

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use self::{
    groups::Groups, serve::Services, service::Service, supervisor::SupervisorMachines, tls::Tls,
};
use crate::{
    InputError, Listener, SupervisorLink, model::Clock, supervisor::VmOperatorVersion, tasks::Tasks,
};

pub use groups::GroupsFile;
pub use tls::TlsFiles;

/// Longest time for which the stop waits for open requests.
const GRACE: Duration = Duration::from_secs(10);
/// Interval at which the health of the server follows its view.
const HEALTH: Duration = Duration::from_secs(1);

/// Settings and dependencies of the server, which its caller supplies.
pub struct AutoscalerDeps {
    /// Connection to the Supervisor whose VirtualMachines are the machines.
    pub supervisor: SupervisorLink,
    /// API version of VirtualMachines.
    pub version: VmOperatorVersion,
    /// Reads the file with the groups.
    pub groups: GroupsFile,
    /// Reads the files for mutual TLS; `None` serves plain text.
    pub tls: Option<TlsFiles>,
    /// Label of Nodes with GPUs; empty if no group has GPUs.
    pub gpu_label: String,
    /// Wall time.
    pub clock: Clock,
    /// Seed of every random draw.
    pub seed: u64,
    /// The caller cancels this token to stop the server: it accepts no more connections, sends
    /// `GOAWAY`, and answers the open requests.
    pub stop: CancellationToken,
}

/// A server whose input is read and checked.
pub struct AutoscalerServer {
    deps: AutoscalerDeps,
    groups: Arc<Groups>,
    tls: Option<Arc<Tls>>,
}

/// The end of a server by a task that panicked, which is a bug.
#[derive(Debug, thiserror::Error)]
#[error("a task of the server panicked; report this bug with the log")]
pub struct AutoscalerPanicked;

impl AutoscalerDeps {
    /// Reads the groups and the files for TLS, without sending a request.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or used. A file with one wrong group among others can be used.
    pub fn prepare(self) -> Result<AutoscalerServer, InputError> {
        let groups = Arc::new(Groups::read(Arc::clone(&self.groups), &self.supervisor.namespace)?);
        let tls = self.tls.clone().map(Tls::read).transpose()?.map(Arc::new);
        Ok(AutoscalerServer { deps: self, groups, tls })
    }
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
        let Self { deps, groups, tls } = self;
        let link = deps.supervisor;
        let machines = SupervisorMachines::new(
            link.client,
            &link.namespace,
            deps.version,
            deps.clock.clone(),
            deps.seed,
        );
        let (crash, panicked) = (CancellationToken::new(), CancellationToken::new());
        let _abort = crash.clone().drop_guard();
        let tasks = Tasks::new(&crash, &panicked);
        machines.spawn(&tasks);
        let (follower, follows) = (Arc::clone(&groups), machines.clone());
        let stopping = tasks.stopping();
        tasks.spawn(tracing::info_span!("groups"), async move {
            follower.follow(&follows, &stopping).await;
        });
        if let Some(tls) = tls.clone() {
            let follow = async move { tls.follow().await };
            tasks.spawn_droppable(tracing::info_span!("tls"), follow);
        }
        let service =
            Service::new(groups, machines.clone(), &deps.gpu_label, deps.clock, tasks.clone());
        let services = Services::new(service);
        services.set_serving(false).await;
        let health = services.clone();
        tasks.spawn_droppable(tracing::info_span!("health"), async move {
            loop {
                health.set_serving(machines.usable().is_ok()).await;
                tokio::time::sleep(HEALTH).await;
            }
        });
        let outcome = tokio::select! {
            biased;
            () = deps.stop.cancelled() => Ok(()),
            () = panicked.cancelled() => Err(AutoscalerPanicked),
            () = serve::serve(listener, tls, services, &tasks) => Ok(()),
        };
        if !tasks.stop(GRACE).await {
            tracing::warn!("the server did not stop in time; dropping its tasks");
        }
        outcome
    }
}
