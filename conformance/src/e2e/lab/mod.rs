//! A lab: cluster, simulator and provider under one name, by which later commands find it.

pub(super) mod cluster;
pub(super) mod deploy;
pub(super) mod kubelet;
pub(super) mod peer;
pub(super) mod simulator;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use super::shell::call;
use super::{engine, until};
use crate::foreign::process_identity;
use crate::scenario::{Backend, InputError};
use cluster::{Cluster, Machine, Programs};
use deploy::Deployment;
use simulator::Simulator;

/// Description of a lab to make or to open.
#[derive(Clone, Debug)]
pub(super) struct LabSpec {
    /// Name of the lab.
    pub(super) name: String,
    /// Checkout of this project, with `kind/` and `provider/deploy/`.
    pub(super) project: PathBuf,
    /// Cache directory; `e2e/NAME` in it contains the files of a lab.
    pub(super) cache: PathBuf,
    /// Node image; `None` for the default of [`cluster::node_image`].
    pub(super) image: Option<String>,
    /// True if this program may start dockerd.
    pub(super) start_engine: bool,
    /// Backend of the provider.
    pub(super) backend: Backend,
}

/// A running lab.
pub(super) struct Lab {
    pub(super) cluster: Cluster,
    pub(super) simulator: Simulator,
    pub(super) machines: Vec<Machine>,
    pub(super) made: LabRecord,
    /// Checkout of this project.
    pub(super) project: PathBuf,
}

/// Backend and images of a lab, as its file `made.json` records them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LabRecord {
    /// Backend of the provider.
    pub(super) backend: Backend,
    /// Image of the simulator, which the pods of scenarios also run.
    pub(super) sim_image: String,
    /// Image of the provider.
    pub(super) provider_image: String,
}

impl LabSpec {
    /// Returns the directory with the lab's files.
    pub(super) fn directory(&self) -> PathBuf {
        self.labs_directory().join(&self.name)
    }

    fn labs_directory(&self) -> PathBuf {
        self.cache.join("e2e")
    }

    /// Returns the name of the kind cluster; the prefix distinguishes it from clusters that are not
    /// labs.
    fn cluster_name(&self) -> String {
        format!("lab-{}", self.name)
    }

    /// Makes the lab and prints each step.
    pub(super) async fn up(&self, out: &mut impl Write) -> anyhow::Result<Lab> {
        let (cluster, made) = self.cluster_up(out).await?;
        let mut step = Steps::begin(out);
        let (simulator, machines) = self.furnish(&cluster, &made).await?;
        step.done(&format!("simulator with {} machines, provider", machines.len()))?;
        Ok(Lab { cluster, simulator, machines, made, project: self.project.clone() })
    }

    /// Starts a simulator, creates the machines of the cluster's nodes in it, and deploys our
    /// provider.
    pub(super) async fn furnish(
        &self,
        cluster: &Cluster,
        made: &LabRecord,
    ) -> anyhow::Result<(Simulator, Vec<Machine>)> {
        let simulator = self.simulator_up(cluster, made, 0).await?;
        let machines = cluster.machines().await?;
        simulator.create_machines(&machines).await?;
        let provider = Deployment { image: made.provider_image.clone(), ..Deployment::default() };
        provider.deploy(cluster, &self.project, &simulator, made.backend).await?;
        Ok((simulator, machines))
    }

    /// True if the lab exists and is not a temporary one.
    pub(super) fn is_kept(&self) -> bool {
        self.record_path().exists() && !self.passing().exists()
    }

    /// Prepares a temporary lab, which the caller must delete. First deletes the temporary lab that
    /// a killed run of the same name left.
    ///
    /// # Errors
    /// Fails if a lab of this name exists that is in use or not temporary, or if a step fails.
    pub(super) async fn begin_passing(&self) -> anyhow::Result<()> {
        let (directory, name) = (self.directory(), &self.name);
        match std::fs::read_to_string(self.passing()) {
            Ok(owner) if process_identity::may_run(&owner)? => return Err(self.is_in_use(&owner)),
            Ok(_) => {}
            Err(_) if directory.exists() => {
                let remedy = format!(
                    "delete it with `conformance e2e down --name {name}`, or choose another --name"
                );
                return Err(self.refused("exists already").remedy(remedy).into());
            }
            Err(_) => {}
        }
        engine::ready(&self.project, self.start_engine).await?;
        self.down().await?;
        std::fs::create_dir_all(&directory)?;
        Ok(std::fs::write(self.passing(), process_identity::this_process()?)?)
    }

    /// Returns the path of the file that marks a temporary lab and identifies the process that uses
    /// it.
    fn passing(&self) -> PathBuf {
        self.directory().join("passing")
    }

    /// Returns the path of the file that marks a lab as in use and identifies the process that uses
    /// it.
    fn touched(&self) -> PathBuf {
        self.directory().join("touched")
    }

    /// Marks the lab as in use by this process. The lab's state is undefined until
    /// [`Self::settle`].
    pub(super) fn touch(&self) -> anyhow::Result<()> {
        Ok(std::fs::write(self.touched(), process_identity::this_process()?)?)
    }

    /// True if a command that used the lab was interrupted, so that the lab's state is undefined.
    ///
    /// # Errors
    /// Fails if that command still runs.
    fn was_interrupted(&self) -> anyhow::Result<bool> {
        let Ok(owner) = std::fs::read_to_string(self.touched()) else { return Ok(false) };
        if process_identity::may_run(&owner)? {
            return Err(self.is_in_use(&owner));
        }
        Ok(true)
    }

    fn is_in_use(&self, owner: &str) -> anyhow::Error {
        let (name, process) = (&self.name, owner.split(' ').next().unwrap_or_default());
        let remedy = format!(
            "wait for its end, delete the lab with `conformance e2e down --name {name}`, or choose another --name"
        );
        InputError::new(format!("process {process} uses the lab `{name}`")).remedy(remedy).into()
    }

    /// Returns the error for a lab that cannot be used. `predicate` follows the name of the lab in
    /// the message, such as `exists already`.
    fn refused(&self, predicate: &str) -> InputError {
        InputError::invalid(format!("the lab `{}`", self.name), predicate)
    }

    /// Removes the mark of [`Self::touch`], because the lab is in its normal state again.
    pub(super) fn settle(&self) -> anyhow::Result<()> {
        Ok(std::fs::remove_file(self.touched())?)
    }

    /// Makes the cluster and loads the images of simulator and provider into it, but starts neither
    /// of them.
    ///
    /// # Errors
    /// Fails if a lab of this name exists that is not temporary, or if a step fails.
    pub(super) async fn cluster_up(
        &self,
        out: &mut impl Write,
    ) -> anyhow::Result<(Cluster, LabRecord)> {
        let Self { name, project, .. } = self;
        engine::ready(project, self.start_engine).await?;
        if self.directory().exists() && !self.passing().exists() {
            let remedy = format!("delete it with `conformance e2e down --name {name}`");
            return Err(self.refused("exists already").remedy(remedy).into());
        }
        std::fs::create_dir_all(self.directory())?;
        let mut step = Steps::begin(out);
        let programs = Programs::find(project).await?;
        step.done("kind and kubectl")?;
        let image = cluster::node_image(project, self.image.as_deref()).await?;
        step.done(&format!("node image {image}"))?;
        let built = call(project.join("kind/images/build.sh")).output_with_progress().await?;
        let images: Vec<String> = built.lines().map(str::to_owned).collect();
        let [sim, provider] = &images[..] else {
            bail!(
                "{}/kind/images/build.sh: the script must print the names of two images, but \
                 printed {built:?}; restore the file, or name another checkout with --project",
                project.display()
            )
        };
        step.done(&format!("images {sim} and {provider}"))?;
        let made = LabRecord {
            backend: self.backend,
            sim_image: sim.clone(),
            provider_image: provider.clone(),
        };
        std::fs::write(self.record_path(), serde_json::to_vec_pretty(&made)?)?;
        let cluster = self.create(programs, &image).await?;
        step.done("cluster of three nodes")?;
        cluster.load(&images).await?;
        step.done("images loaded into the nodes")?;
        Ok((cluster, made))
    }

    async fn create(&self, programs: Programs, image: &str) -> anyhow::Result<Cluster> {
        let lock = engine::network_lock(&self.labs_directory())?;
        let held = async || Ok(lock.try_lock_shared().is_ok().then_some(()));
        until(Duration::from_secs(60), held).await?.context(
            "another process has locked the Docker network of kind for 60 s; try again when that \
             process has ended",
        )?;
        let (name, directory) = (self.cluster_name(), self.directory());
        Cluster::create(&name, &self.project, programs, image, &directory).await
    }

    /// Starts a simulator for the cluster, with `vms` machines.
    pub(super) async fn simulator_up(
        &self,
        cluster: &Cluster,
        made: &LabRecord,
        vms: u32,
    ) -> anyhow::Result<Simulator> {
        let (image, kubectl) = (&made.sim_image, cluster.kubectl_path());
        let (name, directory) = (&self.name, self.directory());
        Simulator::start(name, image, &directory, made.backend, kubectl, vms).await
    }

    fn record_path(&self) -> PathBuf {
        self.directory().join("made.json")
    }

    /// Opens an existing lab. If a command in the lab was interrupted, repairs the cluster, and
    /// replaces simulator and provider by new ones.
    pub(super) async fn open(&self, out: &mut impl Write) -> anyhow::Result<Lab> {
        let was_interrupted = self.was_interrupted()?;
        let (cluster, made) = self.open_cluster().await?;
        let (directory, kubectl) = (self.directory(), cluster.kubectl_path());
        let (simulator, machines) = if was_interrupted {
            let mut step = Steps::begin(out);
            // Removes the provider too, because it trusts the authority of the old simulator.
            deploy::remove(&cluster).await?;
            Simulator::end(&self.name, &directory).await?;
            let furnished = self.furnish(&cluster, &made).await?;
            step.done("new simulator and provider, after an interruption")?;
            furnished
        } else {
            let simulator = Simulator::open(&self.name, &directory, made.backend, kubectl).await?;
            (simulator, cluster.machines().await?)
        };
        Ok(Lab { cluster, simulator, machines, made, project: self.project.clone() })
    }

    /// Opens only the cluster of an existing lab. Removes simulated Nodes, and repairs the effects
    /// of an interruption on the cluster.
    pub(super) async fn open_cluster(&self) -> anyhow::Result<(Cluster, LabRecord)> {
        let path = self.record_path();
        let Ok(text) = std::fs::read(&path) else {
            let remedy = format!("make it with `conformance e2e up --name {}`", self.name);
            return Err(self.refused("does not exist").remedy(remedy).into());
        };
        let made: LabRecord = serde_json::from_slice(&text).with_context(|| {
            format!(
                "{}: the file does not describe a lab; delete the lab with `conformance e2e down`",
                path.display()
            )
        })?;
        engine::ready(&self.project, self.start_engine).await?;
        let programs = Programs::find(&self.project).await?;
        let cluster = Cluster::open(&self.cluster_name(), programs, &self.directory()).await?;
        if self.was_interrupted()? {
            cluster.recover().await?;
        }
        kubelet::remove_all(&cluster).await?;
        Ok((cluster, made))
    }

    /// Deletes the lab, if it exists: its containers, its cluster and its files. Returns the number
    /// of removed containers.
    pub(super) async fn down(&self) -> anyhow::Result<usize> {
        engine::ready(&self.project, false).await?;
        let lock = engine::network_lock(&self.labs_directory())?;
        let removed = engine::sweep(&self.name, &self.cluster_name(), &lock).await?;
        let directory = self.directory();
        if directory.exists() {
            std::fs::remove_dir_all(&directory).with_context(|| {
                format!(
                    "cannot delete the folder {} of the lab; delete the folder by hand",
                    directory.display()
                )
            })?;
        }
        Ok(removed)
    }
}

/// Printer of the steps that make a lab, each with its duration.
pub(super) struct Steps<'a, W> {
    out: &'a mut W,
    begin: tokio::time::Instant,
}

impl<'a, W: Write> Steps<'a, W> {
    pub(super) fn begin(out: &'a mut W) -> Self {
        Self { out, begin: tokio::time::Instant::now() }
    }

    pub(super) fn done(&mut self, what: &str) -> std::io::Result<()> {
        let took = std::mem::replace(&mut self.begin, tokio::time::Instant::now()).elapsed();
        writeln!(self.out, "up  {what}: {:.1} s", took.as_secs_f64())?;
        self.out.flush()
    }
}

/// Returns the checkout of this project that contains the folder `from`.
pub(super) fn project(from: &Path) -> anyhow::Result<PathBuf> {
    let found = from.ancestors().find(|it| it.join("kind/cluster.yaml").is_file());
    found.map(Path::to_owned).ok_or_else(|| {
        let outside = InputError::new("not inside a checkout of this project");
        let remedy = "name a checkout with --project DIR";
        outside.in_source(from.display().to_string()).remedy(remedy).into()
    })
}
