//! Our provider, as a replica in this process.

pub(super) mod endpoint;
mod front;
mod pieces;
pub(super) mod scrape;
mod wire;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ::provider::{
    Clock, Connector, Deps, HealthEndpoint, SteppedTime, SupervisorLink, Suspension, TokenSource,
    Transport, authenticated, from_service,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use sim::Sim;
use sim::world::objects::{self, GroupResource, Key, PatchKind};
use sim::world::{Command, PROVIDER_USER, REGION_CATEGORY, State, Time, ZONE_CATEGORY};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::Stage;
use super::bounds::Guard;
use crate::scenario::{Caller, Scenario};
use endpoint::{EndpointClient, PipeListener, ServingFiles};
use front::ProviderSettings;
use pieces::chunked;
use scrape::Scrape;
use wire::Wire;

pub use ::provider::Mutant;

/// Way in which a replica ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The replica was asked to stop and did. A replica in this process that ends by itself without
    /// an error also counts as stopped.
    Stopped,
    /// The replica, a process, ended by itself without an error.
    Finished,
    /// The replica was killed.
    Killed,
    /// The replica ended with an error, or did not stop in time when asked to, for this reason.
    Failed(String),
    /// The replica panicked or crashed, which is a defect.
    Panicked,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::Finished => f.write_str("finished"),
            Self::Killed => f.write_str("killed"),
            Self::Failed(why) => write!(f, "failed: {why}"),
            Self::Panicked => f.write_str("panicked"),
        }
    }
}

/// A running replica of our provider, as a task in this process.
#[derive(Debug)]
pub(super) struct Replica {
    index: usize,
    identity: String,
    stop: CancellationToken,
    ended: CancellationToken,
    telemetry: Arc<::provider::Telemetry>,
    time: Arc<SteppedTime>,
    /// Suspension of the replica's tasks, and suspension of the renewal of its lease.
    suspension: [Suspension; 2],
    port: EndpointClient,
    task: JoinHandle<Exit>,
}

impl Replica {
    /// Starts a replica in the current runtime. If a process would reject the command line or the
    /// configuration, the replica ends at once with [`Exit::Failed`].
    pub(super) fn start(
        sim: &Sim,
        scenario: &Scenario,
        stage: &Stage,
        (token, files): (&TokenFile, &ServingFiles),
        guard: &Guard,
        index: usize,
    ) -> Self {
        let label = label(index);
        // A client in this process needs no token, even if the sim requires RBAC.
        let kube =
            kube::Client::new(chunked(guard.around(sim.cluster().service(&label))), "default");
        let identity = format!("{label}@{}", sim.world().now().since_start().as_millis());
        let now = sim.world().now().timestamp(sim.world().clock().epoch());
        let time = Arc::new(SteppedTime::starting_at(now));
        let deps = Deps {
            connect: connector(sim, scenario, guard, &label),
            supervisor: sim.supervisor().map(|it| link(it, &label, token, guard, stage)),
            seed: stage.seed ^ (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            identity: identity.clone(),
            clock: Clock::new(Arc::clone(&time) as _),
            ..Deps::new(kube.clone())
        };
        let (stop, telemetry) = (deps.stop.clone(), Arc::clone(&deps.telemetry));
        let suspended = Suspension::default();
        let suspension = [deps.suspension.clone(), suspended.clone()];
        let ended = CancellationToken::new();
        // The drop guard signals the end of the task, also after a panic.
        let at_the_end = ended.clone().drop_guard();
        let span = tracing::info_span!("replica", identity);
        let (port, pipes) = endpoint::port();
        let opened = span.in_scope(|| {
            // A panic of the provider leads to a verdict and must not end this process.
            catch_unwind(AssertUnwindSafe(|| {
                ReplicaSetup::open(sim, scenario, stage, files, &kube)
            }))
        });
        // The replica owns the task: `stop` waits for it, `kill` and drop abort it. `ended` signals
        // every end to `Lab`, which restarts a replica that ended by itself.
        let task = tokio::task::spawn(
            async move {
                let _at_the_end = at_the_end;
                let ended = match opened {
                    Err(_) => return Exit::Panicked,
                    Ok(Err(why)) => Err(why),
                    Ok(Ok(opened)) => opened.run(deps, pipes, suspended).await,
                };
                match ended {
                    Ok(()) => Exit::Stopped,
                    Err(why) => {
                        tracing::error!("{why}");
                        Exit::Failed(why)
                    }
                }
            }
            .instrument(span),
        );
        Self { index, identity, stop, ended, telemetry, time, suspension, port, task }
    }

    /// Returns the index of the replica.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Returns the name of the replica in the lease: the label of its connections, `@`, and the
    /// world time of its start in milliseconds.
    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// Suspends the replica, as by SIGSTOP.
    pub(super) fn suspend(&self) {
        self.suspension.iter().for_each(Suspension::suspend);
    }

    /// Resumes the tasks, as by SIGCONT, but not the renewal of the lease, which [`Replica::renew`]
    /// resumes. A real SIGCONT wakes threads in no fixed order; a former leader has the most time
    /// to write if the renewal resumes last.
    pub(super) fn resume(&self) {
        self.suspension[0].resume();
    }

    /// Resumes the renewal of the lease.
    pub(super) fn renew(&self) {
        self.suspension[1].resume();
    }

    /// Steps the wall clock of the replica.
    pub(super) fn step_clock(&self, by: SignedDuration) {
        self.time.step(by);
    }

    /// Returns the current metrics and health. The scrape also contains `at`, the current world
    /// time, and `next_seq`, the number that the ledger's next record will have.
    pub(super) fn scrape(&self, at: Time, next_seq: u64) -> Scrape {
        Scrape {
            at,
            replica: self.index,
            next_seq,
            metrics: self.telemetry.metrics(),
            live: self.telemetry.checks(),
            ready: self.telemetry.readiness(),
        }
    }

    /// Sends a GET request to the HTTPS endpoint; see [`EndpointClient::get`].
    pub(super) async fn get(
        &self,
        path: &str,
        by: Caller,
    ) -> (Result<(u16, String), String>, Option<[u8; 32]>) {
        self.port.get(path, by).await
    }

    /// Completes when the replica has ended for any reason.
    ///
    /// Cancel safe.
    pub(super) async fn end(&self) {
        self.ended.cancelled().await;
    }

    /// Returns how the replica ended, or `None` if it runs.
    pub(super) fn ended(&mut self) -> Option<Exit> {
        self.task.is_finished().then(|| {
            futures::FutureExt::now_or_never(&mut self.task)
                .and_then(Result::ok)
                .unwrap_or(Exit::Panicked)
        })
    }

    /// Asks the replica to stop and waits for its end. Resumes it first if it is suspended.
    pub(super) async fn stop(mut self) -> Exit {
        self.suspension.iter().for_each(Suspension::resume);
        self.stop.cancel();
        (&mut self.task).await.unwrap_or(Exit::Panicked)
    }

    /// Aborts the replica at its next await and waits for its end.
    pub(super) async fn kill(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A provider that has read its command line and its configuration.
struct ReplicaSetup {
    front: ProviderSettings,
    /// The HTTPS endpoint, if the scenario sends requests to it and the command line does not set
    /// its port to 0.
    endpoint: Option<HealthEndpoint>,
}

impl ReplicaSetup {
    /// Reads the command line and the configuration of a replica.
    ///
    /// # Errors
    ///
    /// Returns the text with which a process would exit.
    fn open(
        sim: &Sim,
        scenario: &Scenario,
        stage: &Stage,
        files: &ServingFiles,
        cluster: &kube::Client,
    ) -> Result<Self, String> {
        let front = front::open(sim, scenario, stage)?;
        let serving = front.serving.as_ref().filter(|_| scenario.reads_endpoint());
        let endpoint = serving.map(|it| endpoint::build(it, files, cluster)).transpose()?;
        Ok(Self { front, endpoint })
    }

    /// Runs the provider and its endpoint until the provider ends.
    async fn run(
        self,
        deps: Deps,
        pipes: PipeListener,
        suspended: Suspension,
    ) -> Result<(), String> {
        let ProviderSettings { config, options, .. } = self.front;
        let (telemetry, stop) = (Arc::clone(&deps.telemetry), deps.stop.clone());
        // This task polls both futures, so the endpoint ends with the provider at the latest.
        let serving = async {
            match self.endpoint {
                Some(endpoint) => endpoint.serve(pipes, telemetry, stop).await,
                None => drop(pipes),
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            ended = suspended.wrap(::provider::run(config, options, deps)) => {
                ended.map_err(|error| error.to_string())
            }
            never = serving => never,
        }
    }
}

/// Returns the function that connects the provider to the vCenters of the sim.
fn connector(sim: &Sim, scenario: &Scenario, guard: &Guard, label: &str) -> Connector {
    let vcenters: Vec<(String, Transport)> = sim
        .vcenters()
        .map(|(name, server)| {
            (name.to_owned(), from_service(chunked(Wire(guard.around(server.service(label))))))
        })
        .collect();
    let port = port_of(scenario.provider.config.as_deref());
    Arc::new(move |wanted| {
        vcenters
            .iter()
            .find(|(name, _)| *name == wanted.endpoint.host && wanted.endpoint.port == port)
            .map(|(_, transport)| transport.clone())
            .ok_or_else(|| {
                format!("the simulated world has no vCenter at {}", wanted.endpoint.authority())
            })
    })
}

/// The provider's token file, in memory. Keeps every token that the file has contained, the current
/// one last.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenFile(Arc<Mutex<Vec<String>>>);

impl TokenFile {
    /// Replaces the token in the file.
    pub(super) fn set(&self, token: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(token);
    }

    /// Returns every token that the file has contained.
    pub(super) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn read(&self) -> String {
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.last().cloned().unwrap_or_default()
    }
}

/// Returns the connection to the Supervisor, with the token of the provider.
fn link(
    supervisor: &sim::Supervisor,
    label: &str,
    token: &TokenFile,
    guard: &Guard,
    stage: &Stage,
) -> SupervisorLink {
    let service = chunked(guard.around(supervisor.server().service(label)));
    let client = kube::Client::new(service, supervisor.namespace());
    let token = token.clone();
    let read = move || Ok(token.read().into_bytes());
    let tokens = Arc::new(TokenSource::new(Arc::new(read)).with_mutant(stage.mutant));
    let agent = http::HeaderValue::from_static("provider");
    SupervisorLink {
        client: authenticated(client, tokens, agent),
        namespace: supervisor.namespace().to_owned(),
    }
}

/// Returns the label of a replica's connections in the ledger.
pub(crate) fn label(index: usize) -> String {
    if index == 0 { "provider".to_owned() } else { format!("provider-{index}") }
}

/// Namespace and name of the lease for leader election.
pub(crate) const LEASE: (&str, &str) = ("kube-system", "cloud-controller-manager");

/// Returns the holder of the lease, if it has one.
pub(super) fn holder(state: &State) -> Option<String> {
    let leases = GroupResource::of("coordination.k8s.io", "leases");
    let lease = state.cluster.get(&Key::new(leases, LEASE.0, LEASE.1))?;
    let holder = lease["spec"]["holderIdentity"].as_str()?;
    (!holder.is_empty()).then(|| holder.to_owned())
}

/// Returns the port at which the vCenters in this process answer: 8443 if the configuration
/// contains `$(port)`, else 443.
fn port_of(config: Option<&str>) -> u16 {
    let is_named = config.is_some_and(|text| text.contains("$(port)"));
    if is_named { 8443 } else { 443 }
}

/// Namespace of the Secret with the credentials.
const SECRETS: &str = "kube-system";

/// Returns a command that creates the Secret `name` with the credentials of every vCenter, or
/// changes it if it exists.
///
/// `server` returns the provider's name for a vCenter. With `password`, the Secret contains this
/// password for every vCenter; otherwise it contains the current password of each.
pub(super) fn secret(
    sim: &Sim,
    name: &str,
    password: Option<&str>,
    server: impl Fn(&str) -> String,
) -> Command {
    let key = Key::new(GroupResource::core("secrets"), SECRETS, name);
    let mut data = serde_json::Map::new();
    for (vcenter, _) in sim.vcenters() {
        let known = sim.password(vcenter, PROVIDER_USER).expect("every vCenter has the account");
        let password = password.unwrap_or(known.expose());
        for (key, value) in [("username", PROVIDER_USER), ("password", password)] {
            let value = STANDARD.encode(value);
            data.insert(format!("{}.{key}", server(vcenter)), value.into());
        }
    }
    let exists = sim.world().read(|world| world.cluster.get(&key).is_some());
    let command = if exists {
        objects::Command::patch(key, PatchKind::Merge, serde_json::json!({ "data": data }))
    } else {
        let object = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": SECRETS},
            "data": data,
        });
        objects::Command::create(GroupResource::core("secrets"), SECRETS, object)
    };
    Command::Cluster(command)
}

/// Returns the configuration that an administrator would write for this world, in upstream's YAML,
/// or the configuration that the scenario contains. `at` returns host and port of a vCenter. `ca`
/// is the file with the certificate to trust; without `ca`, the provider does not verify
/// certificates.
pub(crate) fn cloud_config(
    sim: &Sim,
    scenario: &Scenario,
    ca: Option<&Path>,
    at: impl Fn(&str) -> (String, Option<u16>),
) -> String {
    let setup = &scenario.provider;
    if let Some(text) = &setup.config {
        return by_hand(text, sim, ca, at);
    }
    let mut text = match ca {
        None => String::from("global:\n  insecureFlag: true\n"),
        Some(ca) => format!("global:\n  caFile: {}\n", ca.display()),
    };
    if let Some(name) = &setup.secret {
        text.push_str(&format!("  secretName: {name}\n  secretNamespace: {SECRETS}\n"));
    }
    text.push_str("vcenter:\n");
    let is_named =
        |name: &str| setup.vcenters.is_empty() || setup.vcenters.iter().any(|it| it == name);
    for (name, _) in sim.vcenters().filter(|(name, _)| is_named(name)) {
        let password = sim.password(name, PROVIDER_USER).expect("every vCenter has the account");
        let (server, port) = at(name);
        text.push_str(&format!("  {name}:\n    server: {server}\n"));
        if !setup.datacenters.is_empty() {
            let names: Vec<String> =
                setup.datacenters.iter().map(|name| format!("{name:?}")).collect();
            text.push_str(&format!("    datacenters: [{}]\n", names.join(", ")));
        }
        if let Some(port) = port {
            text.push_str(&format!("    port: {port}\n"));
        }
        if setup.secret.is_none() {
            let password = password.expose();
            text.push_str(&format!("    user: {PROVIDER_USER}\n    password: {password}\n"));
        }
        if !setup.families.is_empty() {
            text.push_str(&format!("    ipFamily: [{}]\n", setup.families.join(", ")));
        }
    }
    if setup.zones {
        text.push_str(&format!("labels:\n  region: {REGION_CATEGORY}\n  zone: {ZONE_CATEGORY}\n"));
    }
    if !setup.nodes.is_empty() {
        text.push_str("nodes:\n");
        for (key, value) in &setup.nodes {
            text.push_str(&format!("  {key}: {value}\n"));
        }
    }
    text
}

/// Returns a configuration that the scenario contains, with its placeholders replaced by address,
/// credentials and trust setting of the first vCenter. Without a vCenter, returns it unchanged.
fn by_hand(
    text: &str,
    sim: &Sim,
    ca: Option<&Path>,
    at: impl Fn(&str) -> (String, Option<u16>),
) -> String {
    let Some((name, _)) = sim.vcenters().next() else { return text.to_owned() };
    let (server, port) = at(name);
    let (yaml, ini) = match ca {
        None => ("insecureFlag: true".to_owned(), "insecure-flag = true".to_owned()),
        Some(ca) => {
            (format!("caFile: {}", ca.display()), format!("ca-file = \"{}\"", ca.display()))
        }
    };
    let password = sim.password(name, PROVIDER_USER).expect("every vCenter has the account");
    text.replace("$(server)", &server)
        .replace("$(port)", &port.unwrap_or_else(|| port_of(Some(text))).to_string())
        .replace("$(user)", PROVIDER_USER)
        .replace("$(password)", password.expose())
        .replace("$(trust.yaml)", &yaml)
        .replace("$(trust.ini)", &ini)
}
