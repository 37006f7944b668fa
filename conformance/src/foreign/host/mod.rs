//! Environment of a provider's replicas in one run: a directory, the files of the manifest, and the
//! sim's endpoints.

pub(super) mod container;
pub mod launch;
mod listeners;
mod namespace;
mod port;
mod process;
pub(crate) mod process_identity;
mod processor_wait;
pub(super) mod remote;
mod values;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use futures::future::BoxFuture;
use sim::ledger::Record;
use sim::{Class, Endpoints, Sim};
use tokio::process::Command;
use tokio_util::task::TaskTracker;

use super::apiserver::{ApiServer, MirroredCluster, RealApiServer};
use super::cluster::{Cluster, SimHandles};
use super::manifest::template::Values;
use super::manifest::{self, Driver, Manifest};
use crate::lab::{Logs, Process, Provider, StartResult, label};
use crate::scenario::Scenario;
use container::Engine;
use launch::Launcher;
use listeners::ReplicaListeners;
use processor_wait::ProcessorWaits;
use remote::{RemoteProvider, Start};
use values::expand;

/// Maximum number of ports with which a replica is started while other programs take its ports.
const MOST_PORTS: usize = 4;

/// State that all runs of one provider share.
#[derive(Debug)]
pub struct Setup {
    /// Manifest of the provider.
    pub manifest: Manifest,
    /// Program that replaces `$(binary)` in the manifest.
    pub binary: Option<PathBuf>,
    /// Real API server for workload clusters; `None` for the built-in one.
    pub apiserver: Option<RealApiServer>,
    /// Launcher that starts the processes.
    pub launcher: Launcher,
    /// Cluster for the provider's pods; `None` if the provider does not run in pods.
    pub cluster: Option<Cluster>,
    /// Environment variables that the manifest or a driver uses.
    pub variables: BTreeMap<String, String>,
    /// Tracks the tasks of all runs, among them one for each process.
    pub tasks: TaskTracker,
    /// Parent folder of the directories of all runs.
    pub scratch: PathBuf,
}

impl Setup {
    /// Prepares the driver of the provider. For a container, checks that the Docker engine has the
    /// image. For a pod, checks that the cluster accepts it. In both cases removes the containers
    /// or pods that earlier `conformance` processes of this boot and PID namespace have left. A
    /// process needs no preparation.
    ///
    /// # Errors
    /// Fails with the missing part and the remedy.
    pub(super) async fn ready(&self) -> anyhow::Result<()> {
        match self.manifest.driver() {
            Driver::Process(_) => Ok(()),
            Driver::Container(container) => self.engine()?.ready(&container.image).await,
            Driver::Cluster(container) => self.cluster()?.ready(container).await,
        }
    }

    /// Waits for the end of all tasks, then removes this program's objects that are left in the
    /// cluster.
    pub(super) async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        if let Some(cluster) = &self.cluster {
            cluster.finish().await;
        }
    }

    /// Returns the kind of API server that serves the workload clusters.
    pub(super) fn apiserver(&self) -> ApiServer {
        if self.apiserver.is_some() { ApiServer::Real } else { ApiServer::Builtin }
    }

    fn cluster(&self) -> anyhow::Result<&Cluster> {
        self.cluster
            .as_ref()
            .context("the manifest has no spec.run.cluster; report this bug of conformance")
    }

    fn engine(&self) -> anyhow::Result<Engine> {
        let wanted = |name: &&String| {
            name.as_str() == "PATH"
                || name.as_str() == "HOME"
                || container::VARIABLES.contains(&name.as_str())
        };
        let variables = self.variables.iter().filter(|(name, _)| wanted(name));
        Engine::new(variables.map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}

/// Environment of a provider's replicas in one run. Dropping it removes the directory.
#[derive(Debug)]
pub(super) struct Host {
    setup: Arc<Setup>,
    directory: PathBuf,
    /// The sim's listeners: one entry per replica, and at least one.
    entrances: Vec<ReplicaListeners>,
    /// Workload cluster on a real API server; `None` for the built-in one.
    backed: Option<Arc<MirroredCluster>>,
    /// Seconds of world time per second of the clock.
    pace: u32,
    logs: Logs,
    waits: ProcessorWaits,
}

impl Host {
    /// Makes the directory `name` in the scratch folder, and opens the sim's listeners for `n`
    /// replicas, at least for one. If the set-up has a real API server, this server serves the
    /// workload cluster behind the listeners.
    ///
    /// # Errors
    /// Fails if the directory or a listener cannot be made, or if the real API server does not
    /// accept the objects of the world.
    pub(super) async fn new(
        setup: Arc<Setup>,
        sim: &Sim,
        name: &str,
        pace: u32,
        n: usize,
    ) -> anyhow::Result<Self> {
        let directory = setup.scratch.join(name);
        std::fs::create_dir_all(&directory).with_context(|| {
            format!(
                "cannot create the folder {}; check TMPDIR, its free space and permissions",
                directory.display()
            )
        })?;
        let entrances = ReplicaListeners::open(&setup, sim, n).await?;
        let backed = match &setup.apiserver {
            None => None,
            Some(real) => Some(Arc::new(real.serve_cluster(sim).await?)),
        };
        let (logs, waits) = (Logs::default(), ProcessorWaits::default());
        Ok(Self { setup, directory, entrances, backed, pace, logs, waits })
    }

    /// Returns the workload cluster if it runs on a real API server; the caller must call its
    /// `end`.
    pub(super) fn backed(&self) -> Option<Arc<MirroredCluster>> {
        self.backed.clone()
    }

    /// Returns how long the processes of all replicas have waited for a processor.
    pub(super) fn waits(&self) -> ProcessorWaits {
        self.waits.clone()
    }

    /// Returns the sim's endpoints for a replica. `index` must be that of a replica of the
    /// scenario.
    fn endpoints(&self, index: usize) -> &Endpoints {
        &self.entrances[index].endpoints
    }

    /// Starts a replica like [`start`](Provider::start), but does not start it again if another
    /// program has taken its port.
    async fn start_once(
        &self,
        sim: &Sim,
        scenario: &Scenario,
        index: usize,
    ) -> anyhow::Result<(Process, StartResult)> {
        if index >= self.entrances.len() {
            let last = self.entrances.len().saturating_sub(1);
            bail!(
                "the scenario has only the replicas 0 to {last}; correct the step of the case \
                 that starts replica {index}"
            );
        }
        let values = self.values(sim, scenario, index)?;
        if let Some(backed) = &self.backed {
            backed.catch_up().await?;
        }
        let from = sim.ledger().next_seq();
        sim.world().set_pace(0);
        let Setup { launcher, tasks, .. } = self.setup.as_ref();
        let spawned = async {
            let command = self.command(sim, scenario, &values, index).await?;
            let started = (index, from);
            let seen = (&self.logs, &self.waits);
            process::spawn(launcher, started, command, sim.world(), seen, tasks).await
        };
        let process = match spawned.await {
            Ok(process) => process.serving_at(self.endpoint(scenario, &values)),
            Err(error) => {
                sim.world().set_pace(self.pace);
                let program = self.setup.manifest.driver().program();
                let program = expand(program, &values).unwrap_or_else(|_| program.to_owned());
                return Err(error.context(format!("cannot start the provider {program}")));
            }
        };
        let said = self.first_call(sim, &process, scenario.provider.elects()).await;
        sim.world().set_pace(self.pace);
        if matches!(said, StartResult::Ended)
            && let Some(why) = self.logs.tail(4).iter().find_map(|it| launch::refusal(it))
        {
            bail!(why);
        }
        Ok((process, said))
    }

    /// Waits until a replica has made its first call, has ended, or `ready.timeout` of the manifest
    /// has passed. A call for a lease counts if the replicas elect a leader (`elects`).
    async fn first_call(&self, sim: &Sim, process: &Process, elects: bool) -> StartResult {
        let ready = &self.setup.manifest.spec.ready;
        let op = ready.first_call.op.as_str();
        let (caller, from) = (label(process.index()), process.since());
        let is_first = |record: &Record| {
            record.client.client == caller
                && (is_call_of(record, op) || (elects && record.op.contains("leases")))
        };
        let called =
            sim.ledger().wait_for(|ledger| ledger.since(from).iter().any(is_first).then_some(()));
        tokio::select! {
            biased;
            () = called => StartResult::Called,
            () = process.end() => StartResult::Ended,
            () = tokio::time::sleep(ready.timeout) => {
                StartResult::Silent(format!(
                    "the provider made no call that matches spec.ready.firstCall.op ({op}) within \
                     {} s; it keeps running",
                    ready.timeout.as_secs()
                ))
            }
        }
    }

    /// Returns the address of the replica's own HTTPS endpoint, if the replica is a process and its
    /// manifest or flags have `$(port)`. The endpoint of a container or pod is not used.
    fn endpoint(&self, scenario: &Scenario, values: &Values) -> Option<SocketAddr> {
        let manifest = &self.setup.manifest;
        let is_process = matches!(manifest.driver(), Driver::Process(_));
        let is_named = manifest.placeholders().contains("port")
            || scenario.provider.flags.iter().any(|flag| flag.contains("$(port)"));
        let port = values.get("port").filter(|_| is_process && is_named)?;
        Some(SocketAddr::from(([127, 0, 0, 1], port.parse().ok()?)))
    }

    /// Returns the command to start and, if the command is only a client, the container or pod
    /// behind it. A container is created by the command. A pod already runs, or has ended, when
    /// this function returns.
    async fn command(
        &self,
        sim: &Sim,
        scenario: &Scenario,
        values: &Values,
        index: usize,
    ) -> anyhow::Result<(Command, Option<RemoteProvider>)> {
        let driver = self.setup.manifest.driver();
        let mut arguments = Vec::new();
        for argument in driver.arguments().1 {
            if argument == "$(knobs)" {
                arguments.extend(self.knobs(scenario, values)?);
            } else {
                arguments.push(expand(argument, values)?);
            }
        }
        let mut binds = Vec::new();
        for (inside, outside) in driver.binds() {
            binds.push((inside.clone(), PathBuf::from(expand(outside, values)?)));
        }
        let mut env = Vec::new();
        for (name, value) in driver.env() {
            env.push((name.clone(), expand(value, values)?));
        }
        let container = match driver {
            Driver::Container(it) | Driver::Cluster(it) => it,
            Driver::Process(process) => {
                return Ok((self.process(process, arguments, &binds, env)?, None));
            }
        };
        let (directory, replica) = (&self.directory, &self.replica(index));
        let run = directory.file_name().map(|it| it.display().to_string());
        let name = format!("{}-{index}", run.unwrap_or_default());
        let start = Start { container, directory, replica, name, arguments, env, binds };
        let Some(cluster) = &self.setup.cluster else {
            let (command, running) = self.setup.engine()?.run(&self.setup.launcher, &start);
            return Ok((command, Some(RemoteProvider::Container(running))));
        };
        let (door, world) = (self.entrances[index].door.clone(), sim.world().clone());
        let (command, pod) =
            cluster.run(&start, SimHandles { door, world, pace: self.pace }).await?;
        Ok((command, Some(RemoteProvider::Pod(pod))))
    }

    /// Returns the command for a provider that is a process, in a mount namespace if it needs one.
    /// The first of the `arguments` is the program; panics without it.
    fn process(
        &self,
        process: &manifest::Process,
        mut arguments: Vec<String>,
        binds: &[(PathBuf, PathBuf)],
        env: Vec<(String, String)>,
    ) -> anyhow::Result<Command> {
        let launcher = &self.setup.launcher;
        let program = arguments.remove(0);
        let mut command = if process.is_mounted() {
            let (directory, hosts) = (&self.directory, &process.hosts);
            namespace::command(launcher, directory, binds, hosts, &program, &arguments)?
        } else {
            let mut command = launcher.command(&program);
            command.args(&arguments);
            command
        };
        command.current_dir(&self.directory).env_clear();
        for name in ["PATH", "HOME", "TMPDIR"] {
            if let Some(value) = self.setup.variables.get(name) {
                command.env(name, value);
            }
        }
        command.envs(env);
        Ok(command)
    }

    /// Returns the directory of a replica.
    fn replica(&self, index: usize) -> PathBuf {
        self.directory.join(format!("replica-{index}"))
    }
}

impl Provider for Host {
    /// Starts a replica as the trait says; the time for its start is `ready.timeout` of the
    /// manifest.
    ///
    /// If the replica has ended and another program has taken the port of `$(port)`, starts the
    /// replica again with another port, because the provider did not cause that end. Makes at most
    /// four starts.
    ///
    /// # Errors
    /// Fails if the scenario has no replica `index`, if the replica's files cannot be written, if a
    /// real API server rejects an object of the world, or if the program, container or pod cannot
    /// be started.
    fn start<'a>(
        &'a self,
        sim: &'a Sim,
        scenario: &'a Scenario,
        index: usize,
    ) -> BoxFuture<'a, anyhow::Result<(Process, StartResult)>> {
        Box::pin(async move {
            for _ in 1..MOST_PORTS {
                let (process, said) = self.start_once(sim, scenario, index).await?;
                let is_taken = process.endpoint().is_some_and(|it| !port::is_free(it.port()));
                if !(is_taken && matches!(said, StartResult::Ended)) {
                    return Ok((process, said));
                }
            }
            self.start_once(sim, scenario, index).await
        })
    }

    fn pace(&self) -> u32 {
        self.pace
    }

    fn is_mirrored(&self) -> bool {
        self.backed.is_some()
    }

    fn logs(&self) -> &Logs {
        &self.logs
    }

    fn tokens(&self) -> Vec<String> {
        // The listeners of all replicas accept the same tokens.
        let endpoints = self.endpoints(0);
        let configs = [Some(endpoints.kubeconfig()), endpoints.supervisor_kubeconfig()];
        let read = |text: String| serde_saphyr::from_str::<serde_json::Value>(&text).ok();
        let tokens = configs.into_iter().flatten().filter_map(read);
        tokens
            .filter_map(|config| config["users"][0]["user"]["token"].as_str().map(str::to_owned))
            .collect()
    }

    /// Returns the IP address of the vCenter's listener, because the listeners have no host names.
    /// Panics if the world has no vCenter with this name.
    fn server(&self, vcenter: &str) -> String {
        self.endpoints(0).vcenters[vcenter].address.ip().to_string()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // If this removal fails, the removal of the scratch directory at the end covers the
        // directory.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// True if a record is a call of the operation or class `op`; `@any` matches every call.
fn is_call_of(record: &Record, op: &str) -> bool {
    let class = record.class.map(Class::tag);
    class.is_some() && (op == "@any" || record.op == op || class == Some(op))
}
