//! The options and the dependencies of [`run`](super::run).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use jiff::Timestamp;
use provider_vcenter::Transport;
use tokio_util::sync::CancellationToken;

use super::Leadership;
use crate::{
    VcenterConfig,
    config::SecretFiles,
    instances::{SupervisorTuning, Tuning},
    model::Clock,
    supervisor::SupervisorLink,
    telemetry::Telemetry,
};

/// Function that makes the transport to a vCenter. [`run`](super::run) calls it once per vCenter at
/// start.
pub type Connector = Arc<dyn Fn(&VcenterConfig) -> Result<Transport, String> + Send + Sync>;

/// Function that starts a server beside the controllers, such as the one for the Cluster Autoscaler.
/// [`run`](super::run) calls it when this replica leads. The future ends before the stop only if the
/// server fails, with the reason.
pub type SideServer =
    Arc<dyn Fn(Leadership) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Options of a run, from the command line. [`Options::default`] has upstream's defaults, except
/// that leader election is off.
#[derive(Clone, Debug)]
pub struct Options {
    /// True if the cloud-node controller runs.
    pub cloud_node: bool,
    /// True if the cloud-node-lifecycle controller runs.
    pub cloud_node_lifecycle: bool,
    /// `--node-status-update-frequency`: pause between two passes over all addresses.
    pub node_status_period: Duration,
    /// `--node-monitor-period`: pause between two checks of nodes that are not ready.
    pub node_monitor_period: Duration,
    /// `--concurrent-node-syncs`: number of workers of the cloud-node controller (at least 1).
    pub concurrent_node_syncs: usize,
    /// `--kube-api-qps`: requests per second to the workload cluster. Each controller, the events
    /// of each controller, the node watch and the reads of Secrets have separate limits. 0 means
    /// client-go's default of 5, less than 0 no limit.
    pub kube_api_qps: f64,
    /// `--kube-api-burst`: number of requests to the workload cluster that each limit of
    /// [`Options::kube_api_qps`] lets pass at once; 0 means client-go's default of 10.
    pub kube_api_burst: u32,
    /// `--node-labels`: labels that the provider adds to every node at initialization.
    pub node_labels: BTreeMap<String, String>,
    /// `SKIP_NODE_DELETION`: true if the provider never deletes a Node.
    pub skip_node_deletion: bool,
    /// Leader election; `None` starts the controllers at once.
    pub leader_election: Option<LeaderElection>,
    /// Tuning of the vCenter backend. [`Deps::seed`] replaces the seed in it, and the absence
    /// period is at least [`Options::node_monitor_period`].
    pub tuning: Tuning,
    /// Deadline of every vCenter call except the long poll (default 30 s).
    pub vcenter_deadline: Duration,
    /// Maximum time for which one call for updates (a long poll) blocks (default 60 s).
    pub vcenter_poll: Duration,
    /// Supervisor mode, with the tuning of its backend; `None` means vCenter mode. [`Deps::seed`]
    /// replaces the seed in the tuning.
    pub supervisor: Option<SupervisorTuning>,
    /// The deliberate defect of the run, if any.
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    pub mutant: Option<crate::Mutant>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cloud_node: true,
            cloud_node_lifecycle: true,
            node_status_period: Duration::from_secs(300),
            node_monitor_period: Duration::from_secs(5),
            concurrent_node_syncs: 1,
            kube_api_qps: 20.0,
            kube_api_burst: 30,
            node_labels: BTreeMap::new(),
            skip_node_deletion: false,
            leader_election: None,
            tuning: Tuning::default(),
            vcenter_deadline: Duration::from_secs(30),
            vcenter_poll: Duration::from_secs(60),
            supervisor: None,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }
}

/// Leader election over a Lease, with client-go's meaning of the three durations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Time without a change of the Lease after which another candidate takes over (default 15 s).
    /// The leader writes it into the Lease, and candidates use the value there.
    pub lease_duration: Duration,
    /// Time without a successful renewal after which the leader gives up (default 10 s).
    pub renew_deadline: Duration,
    /// Pause between two renewals (default 2 s). Between two attempts to acquire the Lease the
    /// pause is 1 to 2.2 times as long.
    pub retry_period: Duration,
}

impl Default for LeaderElection {
    fn default() -> Self {
        Self {
            namespace: "kube-system".to_owned(),
            name: "cloud-controller-manager".to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// The dependencies of [`run`](super::run), which its caller supplies: clients, time, randomness
/// and credentials.
#[derive(Clone)]
pub struct Deps {
    /// Client of the workload cluster. The provider uses only its transport and authentication, and
    /// implements deadlines, pacing and retries itself. So a client built from a kubeconfig should
    /// have `default_retry` off.
    pub kube: kube::Client,
    /// Makes the transport to each vCenter.
    pub connect: Connector,
    /// Connection to the Supervisor; needed only in Supervisor mode.
    pub supervisor: Option<SupervisorLink>,
    /// Starts a server that runs while this replica leads; `None` without one.
    pub side_server: Option<SideServer>,
    /// Reads a directory of credentials. If it is `None`, a login to a vCenter with a secrets
    /// directory fails.
    pub secret_files: Option<SecretFiles>,
    /// Wall time, and time since boot; used for the lease and events.
    pub clock: Clock,
    /// Seed of every random delay.
    pub seed: u64,
    /// Name of this replica in the Lease. Must be unique among replicas.
    pub identity: String,
    /// The caller cancels this token to stop the run: the controllers finish their current write,
    /// the provider releases the lease and logs out.
    pub stop: CancellationToken,
    /// Metrics and health of this run, readable during the run and after it.
    pub telemetry: Arc<Telemetry>,
    /// Suspends all tasks of the run, as SIGSTOP would, until the caller resumes them; for the
    /// conformance suite. The renewal of the lease is in the future of [`run`](super::run) itself,
    /// which the caller can suspend with a second [`Suspension`](crate::Suspension).
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    pub suspension: crate::tasks::Suspension,
}

impl Deps {
    /// Dependencies with this client, without transports to vCenters, with a clock that starts at
    /// the Unix epoch, and with seed zero.
    pub fn new(kube: kube::Client) -> Self {
        Self {
            kube,
            connect: Arc::new(|vcenter| {
                Err(format!(
                    "the caller of the library passed no transport to vCenter {}",
                    vcenter.endpoint.name
                ))
            }),
            supervisor: None,
            side_server: None,
            secret_files: None,
            clock: Clock::starting_at(Timestamp::UNIX_EPOCH),
            seed: 0,
            identity: "provider".to_owned(),
            stop: CancellationToken::new(),
            telemetry: Arc::new(Telemetry::default()),
            #[cfg(feature = "mutants")]
            suspension: crate::tasks::Suspension::default(),
        }
    }
}
