//! Our server over the Supervisor, the vCenter or the management cluster of a sim, in this process and
//! in virtual time.

mod acts;
mod cluster_api;
mod supervisor;
mod vcenter;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use provider::{
    AutoscalerBackend, AutoscalerDeps, Clock, GroupsSource, Listener, NodeGroupSettings,
    SupervisorLink, Telemetry, TlsFiles, VmOperatorVersion,
};
use serde_json::{Value, json};
use sim::world::Topology;
use sim::{RuleGuard, Sim};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::client::{CallError, Channel};
use super::subject::{
    Act, ActError, Connection, Control, Credentials, Endpoint, Overrides, Setting, Subject,
};
use super::tls::{HOST, TlsMaterial};

use self::cluster_api::ManagementCluster;

pub use cluster_api::{MachineDeployment, cluster_api_machines};
pub use vcenter::MemoryJournal;

const AGENT: &str = "autoscaler";
/// Label of Nodes with GPUs.
const GPU_LABEL: &str = "example.com/gpu";
/// Time within which the server lists the machines.
const STARTS_IN: Duration = Duration::from_secs(2);

/// Platform of our server's machines.
#[derive(Clone)]
enum Platform {
    Supervisor,
    /// The vCenter, with the journal of the server.
    Vcenter(MemoryJournal),
    ClusterApi(ManagementCluster),
}

impl Platform {
    /// Returns the ID of a group.
    fn id(&self, group: &str) -> String {
        match self {
            Self::Supervisor => format!("VirtualMachine/workloads/{group}"),
            Self::Vcenter(_) => format!("vcenter/{group}"),
            Self::ClusterApi(_) => format!("MachineDeployment/workloads/{group}"),
        }
    }
}

/// Source of the groups of a process.
#[derive(Clone)]
enum Source {
    File(Arc<str>),
    Objects(kube::Client, NodeGroupSettings),
}

/// Our server and the sim behind it. Clones share both.
#[derive(Clone)]
pub struct Ours {
    platform: Platform,
    sim: Arc<Sim>,
    groups: Source,
    seed: u64,
    tls: Option<Arc<TlsMaterial>>,
    running: Arc<Mutex<Option<Running>>>,
    /// Rules of the acts that last.
    rules: Arc<Mutex<Vec<RuleGuard>>>,
    /// Objects that an act deleted: path of the collection, and content.
    deleted: Arc<Mutex<Vec<(String, Value)>>>,
}

struct Running {
    telemetry: Arc<Telemetry>,
    pipes: mpsc::UnboundedSender<DuplexStream>,
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

/// Connections to the server.
struct Pipes(mpsc::UnboundedReceiver<DuplexStream>);

impl Listener for Pipes {
    type Connection = DuplexStream;

    async fn accept(&mut self) -> io::Result<DuplexStream> {
        match self.0.recv().await {
            Some(pipe) => Ok(pipe),
            None => std::future::pending().await,
        }
    }
}

impl Ours {
    /// User agent of the server. Rules that name it do not fire for the lab's own calls.
    pub const AGENT: &'static str = AGENT;

    /// Starts a sim with a Supervisor and no machines, and our server with the groups of the checks.
    /// The group `pair` gets the machine that its minimum demands.
    ///
    /// # Errors
    ///
    /// If sim or server cannot be started, or the machine cannot be requested.
    pub async fn for_checks(seed: u64, is_tls: bool) -> Result<Self, String> {
        Self::start(supervisor::GROUPS.to_owned(), seed, is_tls).await?.with_minimum().await
    }

    /// Like [`Self::for_checks`], over a vCenter.
    ///
    /// # Errors
    ///
    /// As [`Self::for_checks`].
    pub async fn for_checks_of_vcenter(seed: u64, is_tls: bool) -> Result<Self, String> {
        let ours = Self::over_vcenter(vcenter::GROUPS.to_owned(), seed, is_tls)?;
        ours.run(seed).await?;
        ours.with_minimum().await
    }

    /// Like [`Self::for_checks`], over Cluster API.
    ///
    /// # Errors
    ///
    /// As [`Self::for_checks`].
    pub async fn for_checks_of_cluster_api(seed: u64, is_tls: bool) -> Result<Self, String> {
        let groups = MachineDeployment::for_checks();
        let ours = Self::over_cluster_api(&groups, Duration::from_secs(1), seed, is_tls).await?;
        ours.run(seed).await?;
        ours.with_minimum().await
    }

    /// The groups of [`Self::for_checks`], as a file.
    pub const GROUPS: &'static str = supervisor::GROUPS;

    /// Gives the group `pair` of the checks the machine that its minimum demands.
    ///
    /// # Errors
    ///
    /// If the machine cannot be requested.
    pub async fn with_minimum(self) -> Result<Self, String> {
        let ours = self;
        let connection = ours.connect(Credentials::Expected).await.map_err(|it| it.to_string())?;
        let request = super::wire::Resize::new(&ours.platform.id("pair"), 1);
        let deadline = Duration::from_secs(5);
        let call = connection.channel.call::<super::wire::Empty>(
            "NodeGroupIncreaseSize",
            &request,
            deadline,
        );
        call.await.map_err(|it| it.to_string())?;
        tokio::time::sleep(Duration::from_secs(120)).await;
        Ok(ours)
    }

    /// Starts a sim with a Supervisor, the Secret `workers-bootstrap` and no machines, and our
    /// server with a file of groups.
    ///
    /// # Errors
    ///
    /// If sim or server cannot be started.
    pub async fn start(groups: String, seed: u64, is_tls: bool) -> Result<Self, String> {
        let ours = Self::start_later(groups, seed, is_tls).await?;
        ours.run(seed).await?;
        Ok(ours)
    }

    /// Like [`Self::start`], without our server, which [`Self::run`] starts.
    ///
    /// # Errors
    ///
    /// If the sim cannot be started.
    pub async fn start_later(groups: String, seed: u64, is_tls: bool) -> Result<Self, String> {
        let topology = Topology::zones(1).machines(0).supervisor();
        let sim = Arc::new(Sim::builder().topology(topology).seed(seed).start());
        let tls = is_tls.then(TlsMaterial::generate).transpose().map_err(|it| it.to_string())?;
        let ours = Self::with(Platform::Supervisor, sim, groups, seed, tls);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "workers-bootstrap"},
            "stringData": {"user-data": "#cloud-config"},
        });
        ours.create(supervisor::SECRETS, &secret).await?;
        Ok(ours)
    }

    /// Makes a sim with a template, a tag and no other machines, for our server with a file of groups
    /// of clones. [`Self::run`] starts the server.
    ///
    /// # Errors
    ///
    /// If the sim cannot be started.
    pub fn over_vcenter(groups: String, seed: u64, is_tls: bool) -> Result<Self, String> {
        let topology = Topology::zones(1).machines(0);
        let sim = Arc::new(Sim::builder().topology(topology).seed(seed).start());
        let tls = is_tls.then(TlsMaterial::generate).transpose().map_err(|it| it.to_string())?;
        vcenter::furnish(&sim)?;
        let platform = Platform::Vcenter(MemoryJournal::default());
        Ok(Self::with(platform, sim, groups, seed, tls))
    }

    /// Makes a sim with a management cluster of Cluster API and empty groups, for our server. The
    /// controllers of Cluster API act once per `interval`. [`Self::run`] starts the server.
    ///
    /// # Errors
    ///
    /// If the sim cannot be started, or refuses an object.
    pub async fn over_cluster_api(
        groups: &[MachineDeployment],
        interval: Duration,
        seed: u64,
        is_tls: bool,
    ) -> Result<Self, String> {
        let topology = Topology::zones(1).machines(0);
        let sim = Arc::new(Sim::builder().topology(topology).seed(seed).start());
        let tls = is_tls.then(TlsMaterial::generate).transpose().map_err(|it| it.to_string())?;
        let platform = Platform::ClusterApi(ManagementCluster::new(&sim, groups, interval).await?);
        Ok(Self::with(platform, sim, String::new(), seed, tls))
    }

    fn with(
        platform: Platform,
        sim: Arc<Sim>,
        groups: String,
        seed: u64,
        tls: Option<TlsMaterial>,
    ) -> Self {
        Self {
            platform,
            sim,
            groups: Source::File(groups.into()),
            seed,
            tls: tls.map(Arc::new),
            running: Arc::default(),
            rules: Arc::default(),
            deleted: Arc::default(),
        }
    }

    /// Returns the same sim for processes of the server with another file of groups.
    #[must_use]
    pub fn with_groups(self, groups: String) -> Self {
        Self { groups: Source::File(groups.into()), ..self }
    }

    /// Returns the same sim for processes of the server with the NodeGroups of a cluster.
    #[must_use]
    pub fn with_objects(self, client: kube::Client, settings: NodeGroupSettings) -> Self {
        Self { groups: Source::Objects(client, settings), ..self }
    }

    /// Returns the journal of a server over a vCenter.
    ///
    /// # Panics
    ///
    /// If the server is not over a vCenter.
    pub fn journal(&self) -> &MemoryJournal {
        match &self.platform {
            Platform::Vcenter(journal) => journal,
            Platform::Supervisor | Platform::ClusterApi(_) => {
                panic!("only a server over a vCenter has a journal")
            }
        }
    }

    /// Returns the sim.
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    /// Returns the server as a subject of checks.
    pub fn subject(&self) -> Subject {
        let overrides = [
            ("pool", vec![]),
            ("pair", vec![]),
            ("gpu", vec![]),
            ("tuned", vec![Setting::Unneeded]),
        ];
        let id = |name: &str| self.platform.id(name);
        let overrides: Overrides = overrides.into_iter().map(|(name, it)| (id(name), it)).collect();
        Subject {
            endpoint: Box::new(self.clone()),
            control: Some(Box::new(self.clone())),
            may_change: true,
            may_delete_existing: true,
            deadline: Duration::from_secs(5),
            staleness: Duration::from_secs(300),
            overrides: Some(overrides),
        }
    }

    /// Starts a process of the server, so to speak: it knows nothing of an earlier one.
    ///
    /// # Errors
    ///
    /// If the groups cannot be read.
    pub async fn run(&self, seed: u64) -> Result<(), String> {
        let stop = CancellationToken::new();
        let telemetry = Arc::new(Telemetry::of_autoscaler());
        let groups = match self.groups.clone() {
            Source::Objects(client, settings) => GroupsSource::Objects { client, settings },
            Source::File(text) => {
                let read = move || Ok(("groups.yaml".to_owned(), text.to_string()));
                GroupsSource::File(Arc::new(read))
            }
        };
        let has_objects = matches!(self.platform, Platform::ClusterApi(_));
        let clock = Clock::starting_at(sim::VIRTUAL_EPOCH);
        let deps = AutoscalerDeps {
            backend: self.backend(&clock, seed).await?,
            groups: (!has_objects).then_some(groups),
            tls: self.tls.clone().map(tls_files),
            gpu_label: GPU_LABEL.to_owned(),
            telemetry: Arc::clone(&telemetry),
            clock,
            seed,
            grace: AutoscalerDeps::GRACE,
            stop: stop.clone(),
        };
        let server = deps.prepare().map_err(|err| err.to_string())?;
        let (pipes, accepted) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            if let Err(err) = server.serve(Pipes(accepted)).await {
                tracing::error!(%err, "our server ended");
            }
        });
        let task = AbortOnDropHandle::new(task);
        *self.running.lock().expect("no holder panics") =
            Some(Running { telemetry, pipes, stop, task });
        tokio::time::sleep(STARTS_IN).await;
        Ok(())
    }

    /// Returns the backend of a process of the server.
    async fn backend(&self, clock: &Clock, seed: u64) -> Result<AutoscalerBackend, String> {
        match &self.platform {
            Platform::Vcenter(journal) => {
                return vcenter::backend(&self.sim, journal, clock, seed).await;
            }
            Platform::ClusterApi(cluster) => return Ok(cluster.backend()),
            Platform::Supervisor => {}
        }
        let supervisor = self.sim.supervisor().ok_or("the sim has no Supervisor")?;
        let link = SupervisorLink {
            client: self.client(AGENT)?,
            namespace: supervisor.namespace().to_owned(),
        };
        Ok(AutoscalerBackend::Supervisor {
            link,
            version: VmOperatorVersion::V1Alpha5,
            tokens: None,
        })
    }

    /// Stops the process of the server in order, as SIGTERM does.
    pub async fn stop(&self) {
        let running = self.running.lock().expect("no holder panics").take();
        if let Some(Running { stop, task, .. }) = running {
            stop.cancel();
            // A panic of the server is in its log, and later calls fail.
            let _ = task.await;
        }
    }

    /// Returns the text of `/metrics` of the server; empty while it is down.
    pub fn metrics(&self) -> String {
        let running = self.running.lock().expect("no holder panics");
        running.as_ref().map(|it| it.telemetry.metrics()).unwrap_or_default()
    }

    /// Returns why the server is not ready; `None` if it is.
    pub fn trouble(&self) -> Option<String> {
        let running = self.running.lock().expect("no holder panics");
        let checks = running.as_ref().map(|it| it.telemetry.readiness()).unwrap_or_default();
        checks.into_iter().find_map(|(_, outcome)| outcome.err())
    }

    /// Kills the process of the server.
    pub fn kill(&self) {
        self.running.lock().expect("no holder panics").take();
    }

    async fn connected(&self, as_whom: Credentials) -> Result<Connection, CallError> {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        {
            let running = self.running.lock().expect("no holder panics");
            let running = running.as_ref().ok_or_else(|| CallError::own("the server is down"))?;
            running.pipes.send(theirs).map_err(|_| CallError::own("the server is down"))?;
        }
        let Some(tls) = &self.tls else {
            return Ok(Connection { channel: Channel::open(ours).await?, tls: None });
        };
        let (stream, facts) = tls.client.connect(ours, HOST, as_whom).await?;
        Ok(Connection { channel: Channel::open(stream).await?, tls: Some(facts) })
    }
}

fn tls_files(tls: Arc<TlsMaterial>) -> TlsFiles {
    let authorities = tls.client.authorities.clone();
    Arc::new(move || {
        let texts = [&tls.server.certificate, &tls.server.key, &authorities];
        Ok(texts.map(|it| it.clone().into_bytes()))
    })
}

impl Endpoint for Ours {
    fn connect(&self, as_whom: Credentials) -> BoxFuture<'_, Result<Connection, CallError>> {
        Box::pin(self.connected(as_whom))
    }

    fn is_tls(&self) -> bool {
        self.tls.is_some()
    }
}

impl Control for Ours {
    fn carry_out(&self, act: &Act) -> BoxFuture<'_, Result<(), ActError>> {
        let act = act.clone();
        Box::pin(async move { self.act(&act).await })
    }
}
