//! Where the processes of one run live: a directory, the files that the manifest asks for, the way to the sim.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use sim::ledger::Record;
use sim::world::{PROVIDER_USER, REGION_CATEGORY, ZONE_CATEGORY};
use sim::{Class, Endpoint, Endpoints, Sim, credentials, owner_ref};
use tokio::process::Command;
use tokio_util::task::TaskTracker;

use super::apiserver::{ApiServer, Backed, Real};
use super::container::{self, Engine, Running, Start};
use super::launch::{self, Launcher};
use super::manifest::{Driver, Knob, Manifest};
use super::namespace;
use super::process::{Logs, Process};
use super::template::{self, Values};
use crate::backend::Backend;
use crate::lab::cloud_config;
use crate::scenario::Scenario;

/// The only datacenter of the worlds that checks use.
const DATACENTER: &str = "DC0";

/// What all runs of one provider share.
#[derive(Debug)]
pub struct Setup {
    /// The provider.
    pub manifest: Manifest,
    /// The program, where the manifest leaves it open.
    pub binary: Option<PathBuf>,
    /// What answers for workload clusters, if it is not the built-in API server.
    pub apiserver: Option<Real>,
    /// Starts them.
    pub launcher: Launcher,
    /// Variables of the environment that the manifest asks for.
    pub variables: BTreeMap<String, String>,
    /// Waits for everything that was started.
    pub tasks: TaskTracker,
    /// Where directories of runs are made.
    pub scratch: PathBuf,
}

impl Setup {
    /// Makes sure of what has to be there besides the program itself: an engine that has the image.
    ///
    /// # Errors
    /// What is missing, with a remedy.
    pub(super) async fn ready(&self) -> anyhow::Result<()> {
        match self.manifest.driver() {
            Driver::Process(_) => Ok(()),
            Driver::Container(container) => self.engine().ready(&container.image).await,
        }
    }

    /// What answers for workload clusters.
    pub(super) fn apiserver(&self) -> ApiServer {
        if self.apiserver.is_some() { ApiServer::Real } else { ApiServer::Builtin }
    }

    fn engine(&self) -> Engine {
        let wanted = |name: &&String| {
            name.as_str() == "PATH"
                || name.as_str() == "HOME"
                || container::VARIABLES.contains(&name.as_str())
        };
        let variables = self.variables.iter().filter(|(name, _)| wanted(name));
        Engine::new(variables.map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}

/// Where the processes of one run live. The directory goes with it.
#[derive(Debug)]
pub(crate) struct Host {
    setup: Arc<Setup>,
    directory: PathBuf,
    endpoints: Endpoints,
    /// The workload cluster, if it is a real one.
    backed: Option<Arc<Backed>>,
    /// Seconds of the world in a second of the process.
    pace: u32,
    logs: Logs,
}

/// What came of a start.
#[derive(Debug)]
pub(crate) enum Started {
    /// It has made its first call.
    Called,
    /// It runs, and has not made that call in time.
    Silent(String),
    /// It has ended before.
    Ended,
}

impl Host {
    /// Opens the sim's listeners, in front of a real API server if that was asked for.
    pub(crate) async fn new(
        setup: Arc<Setup>,
        sim: &Sim,
        name: &str,
        pace: u32,
    ) -> anyhow::Result<Self> {
        let directory = setup.scratch.join(name);
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let endpoints = sim.listen(sim::ListenOptions::default()).await?;
        let backed = match &setup.apiserver {
            None => None,
            Some(real) => Some(Arc::new(real.back(sim).await?)),
        };
        Ok(Self { setup, directory, endpoints, backed, pace, logs: Logs::default() })
    }

    /// Its workload cluster, if that is a real one; it has to be ended.
    pub(super) fn backed(&self) -> Option<Arc<Backed>> {
        self.backed.clone()
    }

    /// Seconds of the world in a second of the process.
    pub(crate) fn pace(&self) -> u32 {
        self.pace
    }

    /// What its processes wrote.
    pub(crate) fn logs(&self) -> &Logs {
        &self.logs
    }

    /// How a provider names a vCenter: by where it listens.
    pub(crate) fn server(&self, vcenter: &str) -> String {
        self.endpoints.vcenters[vcenter].address.ip().to_string()
    }

    /// Starts a replica and waits until it has made its first call. The world's clock stands still meanwhile: how
    /// long a program takes to load says nothing about what it promises.
    pub(crate) async fn start(
        &self,
        sim: &Sim,
        scenario: &Scenario,
        index: usize,
    ) -> anyhow::Result<(Process, Started)> {
        let values = self.values(sim, scenario, index)?;
        let (command, container) = self.command(scenario, &values, index)?;
        if let Some(backed) = &self.backed {
            backed.catch_up().await?;
        }
        let from = sim.ledger().next_seq();
        sim.world().set_pace(0);
        let Setup { launcher, tasks, .. } = self.setup.as_ref();
        let spawned =
            Process::spawn(launcher, index, (command, container), sim.world(), &self.logs, tasks);
        let process = match spawned.await {
            Ok(process) => process,
            Err(error) => {
                sim.world().set_pace(self.pace);
                let program = self.setup.manifest.driver().program();
                return Err(error.context(format!("cannot start {program}")));
            }
        };
        let ready = &self.setup.manifest.spec.ready;
        let op = ready.first_call.op.as_str();
        let called = sim.ledger().wait_for(|ledger| {
            ledger.since(from).iter().any(|record| is(record, op)).then_some(())
        });
        let said = tokio::select! {
            biased;
            () = called => Started::Called,
            () = process.end() => Started::Ended,
            () = tokio::time::sleep(ready.timeout) => {
                Started::Silent(format!("no {op} within {} s", ready.timeout.as_secs()))
            }
        };
        sim.world().set_pace(self.pace);
        if matches!(said, Started::Ended)
            && let Some(why) = self.logs.tail(4).iter().find_map(|it| launch::refusal(it))
        {
            bail!(why);
        }
        Ok((process, said))
    }

    fn command(
        &self,
        scenario: &Scenario,
        values: &Values,
        index: usize,
    ) -> anyhow::Result<(Command, Option<Running>)> {
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
        let launcher = &self.setup.launcher;
        let process = match driver {
            Driver::Process(process) => process,
            Driver::Container(container) => {
                let run = self.directory.file_name().map(|it| it.display().to_string());
                let name = format!("{}-{index}", run.unwrap_or_default());
                let directory = &self.directory;
                let start = Start { container, directory, name, arguments, env, binds };
                let (command, running) = self.setup.engine().run(launcher, &start);
                return Ok((command, Some(running)));
            }
        };
        let program = arguments.remove(0);
        let mut command = if process.is_mounted() {
            let (directory, hosts) = (&self.directory, &process.hosts);
            namespace::command(launcher, directory, &binds, hosts, &program, &arguments)?
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
        Ok((command, None))
    }

    /// Arguments for every knob that is turned.
    fn knobs(&self, scenario: &Scenario, values: &Values) -> anyhow::Result<Vec<String>> {
        let setup = &scenario.provider;
        let mut arguments = Vec::new();
        for (knob, texts) in &self.setup.manifest.spec.knobs {
            let value = match knob {
                Knob::Monitor => go(setup.monitor_period / self.pace),
                Knob::Status => go(setup.status_period / self.pace),
                Knob::LeaderElection => setup.elects().to_string(),
                Knob::SkipDeletion if setup.skip_deletion => true.to_string(),
                Knob::SkipDeletion => continue,
                Knob::Qps => (setup.kube_qps * self.pace).to_string(),
                Knob::IpFamily if setup.families.is_empty() => continue,
                Knob::IpFamily => setup.families.concat(),
            };
            let mut values = values.clone();
            values.insert("value".to_owned(), value);
            for text in &texts.0 {
                arguments.push(expand(text, &values)?);
            }
        }
        Ok(arguments)
    }

    /// What placeholders stand for, for this replica; the files are written.
    fn values(&self, sim: &Sim, scenario: &Scenario, index: usize) -> anyhow::Result<Values> {
        let directory = self.directory.join(format!("replica-{index}"));
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let mut values = Values::new();
        for (name, value) in &self.setup.variables {
            values.insert(format!("env.{name}"), value.clone());
        }
        let mut set = |name: &str, value: String| values.insert(name.to_owned(), value);
        let ca = self.endpoints.ca_pem().unwrap_or_default();
        set("dir", text(&directory));
        set("ca", text(&save(&directory, "ca.pem", ca)?));
        set("kubeconfig", text(&save(&directory, "kubeconfig", &self.endpoints.kubeconfig())?));
        set("port", free_port()?.to_string());
        set("replica", index.to_string());
        set("leaderElect", scenario.provider.elects().to_string());
        set("datacenter", DATACENTER.to_owned());
        let manifest = &self.setup.manifest;
        set("manifest.dir", manifest.directory.as_deref().map(text).unwrap_or_default());
        if let Some(binary) = &self.setup.binary {
            set("binary", text(binary));
        }
        match manifest.spec.mode {
            Backend::VCenter => self.vcenter(sim, scenario, &directory, &mut values)?,
            Backend::Supervisor => self.supervisor(sim, &directory, &mut values)?,
        }
        for name in manifest.spec.files.keys() {
            let template = manifest.template(name).map_err(|wrong| anyhow!("{}", wrong.what()))?;
            let path = save(&directory, name, &expand(&template, &values)?)?;
            values.insert(format!("files.{name}"), text(&path));
        }
        Ok(values)
    }

    fn vcenter(
        &self,
        sim: &Sim,
        scenario: &Scenario,
        directory: &Path,
        values: &mut Values,
    ) -> anyhow::Result<()> {
        let mut set = |name: &str, value: String| values.insert(name.to_owned(), value);
        let (name, endpoint) =
            self.endpoints.vcenters.first_key_value().context("the world has no vCenter")?;
        let password = sim.password(name, PROVIDER_USER).context("vCenter lacks the account")?;
        set("vcenter.host", endpoint.address.ip().to_string());
        set("vcenter.port", endpoint.address.port().to_string());
        set("vcenter.user", PROVIDER_USER.to_owned());
        set("vcenter.password", password.expose().to_owned());
        set("vcenter.insecure", "false".to_owned());
        let ca = directory.join("ca.pem");
        set("vcenter.ca", text(&ca));
        if let Some(thumbprints) = endpoint.thumbprints() {
            set("vcenter.thumbprint", thumbprints.sha1);
            set("vcenter.thumbprint.sha256", thumbprints.sha256);
        }
        set("zones.region", REGION_CATEGORY.to_owned());
        set("zones.zone", ZONE_CATEGORY.to_owned());
        let at = |vcenter: &str| {
            let Endpoint { address, .. } = &self.endpoints.vcenters[vcenter];
            (address.ip().to_string(), Some(address.port()))
        };
        set("config.yaml", cloud_config(sim, scenario, Some(&ca), at));
        let labels = format!("labels:\n  region: {REGION_CATEGORY}\n  zone: {ZONE_CATEGORY}\n");
        set("config.labels", if scenario.provider.zones { labels } else { String::new() });
        Ok(())
    }

    fn supervisor(&self, sim: &Sim, directory: &Path, values: &mut Values) -> anyhow::Result<()> {
        let supervisor = sim.supervisor().context("the world has no Supervisor")?;
        let endpoint = self.endpoints.supervisor.as_ref().context("no Supervisor listens")?;
        let mounts = directory.join("supervisor");
        std::fs::create_dir_all(&mounts)
            .with_context(|| format!("cannot make {}", mounts.display()))?;
        supervisor.mount(&mounts, self.endpoints.ca_pem().unwrap_or_default())?;
        let owner = owner_ref(&mounts);
        let kubeconfig = self.endpoints.supervisor_kubeconfig().unwrap_or_default();
        let mut set = |name: &str, value: String| values.insert(name.to_owned(), value);
        set("supervisor.credentials", text(&credentials(&mounts)));
        set("supervisor.ownerDir", owner.parent().map(text).unwrap_or_default());
        set("supervisor.ownerRef", text(&owner));
        set("supervisor.server", endpoint.url.clone());
        set("supervisor.port", endpoint.address.port().to_string());
        set("supervisor.namespace", supervisor.namespace().to_owned());
        set("supervisor.kubeconfig", text(&save(directory, "supervisor.kubeconfig", &kubeconfig)?));
        Ok(())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // What cannot be removed stays below the scratch directory, which goes at the end.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Whether a record is the call that a manifest waits for.
fn is(record: &Record, op: &str) -> bool {
    let class = record.class.map(Class::tag);
    class.is_some() && (op == "@any" || record.op == op || class == Some(op))
}

fn expand(text: &str, values: &Values) -> anyhow::Result<String> {
    template::expand(text, values).map_err(|name| {
        match (name.as_str(), template::variable(&name)) {
            ("binary", _) => anyhow!("$(binary): which program? add --binary PATH"),
            (_, Some(variable)) => anyhow!("$({name}): {variable} is not set in the environment"),
            _ => anyhow!("$({name}) has no value here"),
        }
    })
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn save(directory: &Path, name: &str, content: &str) -> anyhow::Result<PathBuf> {
    let path = directory.join(name);
    std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// A port that nobody listens on now.
fn free_port() -> anyhow::Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).context("no port is free")?;
    Ok(listener.local_addr().context("no port is free")?.port())
}

/// A duration as Go writes it.
fn go(duration: Duration) -> String {
    format!("{}ms", duration.as_millis().max(1))
}
